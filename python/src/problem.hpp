// What a call of attention is given, as a descriptor and arrays in host memory.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "arrays.hpp"

namespace vkattn::python {

/// The keyword arguments that are no arrays.
struct Options {
  bool is_causal = false;
  std::variant<std::int64_t, std::string> align = "top-left";
  std::optional<double> scale;
  std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> window;
  double softcap = 0;
  bool standard_alibi = false;
  double dropout = 0;
  bool has_lse = false;
  std::string weights;  ///< a stage's name; empty: none
};

/// Sets what they say of a descriptor.
void set_options(AttentionDesc& desc, const Options& options);

/// A problem with its arrays: query (batch, query_heads, query_length, head_dim), key and value likewise,
/// mask with a 1 for each dimension of the scores that it broadcasts. Made with the interpreter's lock,
/// which reading it does not need.
class Problem {
 public:
  using OptionalArray = std::optional<pybind11::array>;

  Problem(const pybind11::array& query, const pybind11::array& key, const pybind11::array& value,
          const OptionalArray& mask, const OptionalArray& kv_lengths, const OptionalArray& alibi_slopes,
          const OptionalArray& sinks, const Options& options);

  /// With the strides of the arrays, and outputs without gaps.
  [[nodiscard]] const AttentionDesc& desc() const { return desc_; }
  /// The same problem with arrays without gaps, where only what is broadcast keeps its stride of 0.
  [[nodiscard]] AttentionDesc dense_desc() const;
  /// Its inputs; outputs are the caller's to add.
  [[nodiscard]] HostTensors host_tensors() const;

  [[nodiscard]] const Extents& query_extents() const { return query_.extents(); }
  [[nodiscard]] const Extents& key_extents() const { return key_.extents(); }
  [[nodiscard]] const Extents& value_extents() const { return value_.extents(); }
  [[nodiscard]] const Extents& mask_extents() const { return mask_.extents(); }
  /// Which dimensions of the scores the mask broadcasts.
  [[nodiscard]] const std::array<bool, 4>& mask_repeats() const { return mask_repeats_; }

  [[nodiscard]] std::vector<std::int64_t> output_shape() const;
  [[nodiscard]] std::vector<std::int64_t> lse_shape() const;
  [[nodiscard]] std::vector<std::int64_t> weights_shape() const;

 private:
  void set_sizes();
  void set_mask(const pybind11::array& mask);

  AttentionDesc desc_;
  InputArray query_;
  InputArray key_;
  InputArray value_;
  InputArray mask_;
  std::array<bool, 4> mask_repeats_{};
  OptionalArray kv_lengths_;
  OptionalArray alibi_slopes_;
  OptionalArray sinks_;
};

void register_problem(pybind11::module_& module);

}  // namespace vkattn::python

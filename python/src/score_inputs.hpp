// The inputs of a call beside queries, keys and values.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/host_tensors.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "arrays.hpp"

namespace vkattn::python {

/// The keyword arguments that change scores, and those that say what is returned.
struct ScoreOptions {
  using OptionalArray = std::optional<pybind11::array>;
  bool is_causal = false;
  std::variant<std::int64_t, std::string> align = "top-left";
  std::optional<double> scale;
  double dropout = 0;
  bool has_lse = false;
  std::string weights;       ///< the name of a stage; empty: none
  OptionalArray mask;        ///< with size 1 along each dimension that it broadcasts
  OptionalArray kv_lengths;  ///< int32, one for each batch entry
  /// Of packed sequences, both or none: int32, where each sequence begins and where the last one ends.
  OptionalArray cumulative_query_lengths;
  OptionalArray cumulative_kv_lengths;
  std::int64_t longest_query = 0;  ///< of packed sequences
  std::int64_t longest_kv = 0;
  pybind11::dict modifiers;  ///< the given ones of Python's MODIFIERS, by name
};

/// A tensor that changes scores. Its name is the keyword's.
struct ScoreTensor {
  std::string_view name;
  BufferRange AttentionTensors::*range;
  HostInput HostTensors::*host;
  // A number for each query head. Null: no gradient, or the mask's, which has another shape.
  BufferRange BackwardTensors::*gradient = nullptr;
  bool BackwardDesc::*has_gradient = nullptr;
};

[[nodiscard]] std::span<const ScoreTensor> score_tensors();

/// Options of a call with its arrays. It is made with the interpreter's lock; reading it needs no lock.
class ScoreInputs {
 public:
  ScoreInputs() = default;
  /// Sets the options in a descriptor that has its sizes.
  ScoreInputs(const ScoreOptions& options, AttentionDesc& desc);

  /// Sets the members of score_tensors().
  void add_to(HostTensors& tensors) const;

  [[nodiscard]] const Extents& mask_extents() const { return mask_.extents(); }
  /// True for dimensions of the scores along which the mask is broadcast.
  [[nodiscard]] const std::array<bool, 4>& mask_repeats() const { return mask_repeats_; }

 private:
  [[nodiscard]] MaskDesc set_mask(const pybind11::array& mask, const Extents& scores, std::int64_t kv_heads);
  void set_modifier(const std::string& name, const pybind11::object& given, AttentionDesc& desc);

  InputArray mask_;
  std::array<bool, 4> mask_repeats_{};
  std::map<std::string_view, InputList> lists_;  ///< by the names of score_tensors()
};

void register_score_inputs(pybind11::module_& module);

}  // namespace vkattn::python

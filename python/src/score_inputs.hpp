// What a call is given beside queries, keys and values.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <array>
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

/// Those that are: a mask with a 1 for each dimension of the scores that it broadcasts, one number for each
/// batch entry, and one for each query head.
struct ScoreArrays {
  using OptionalArray = std::optional<pybind11::array>;
  OptionalArray mask;
  OptionalArray kv_lengths;
  OptionalArray alibi_slopes;
  OptionalArray sinks;
};

/// Options and arrays of a call. Made with the interpreter's lock, which reading it does not need.
class ScoreInputs {
 public:
  ScoreInputs() = default;
  /// Sets what they say of a descriptor whose sizes are known.
  ScoreInputs(const ScoreArrays& arrays, const Options& options, AttentionDesc& desc);

  /// Sets the arrays' members.
  void add_to(HostTensors& tensors) const;

  [[nodiscard]] const Extents& mask_extents() const { return mask_.extents(); }
  /// Which dimensions of the scores the mask broadcasts.
  [[nodiscard]] const std::array<bool, 4>& mask_repeats() const { return mask_repeats_; }

 private:
  [[nodiscard]] MaskDesc set_mask(const pybind11::array& mask, const Extents& scores);

  InputArray mask_;
  std::array<bool, 4> mask_repeats_{};
  InputList kv_lengths_;
  InputList alibi_slopes_;
  InputList sinks_;
};

void register_score_inputs(pybind11::module_& module);

}  // namespace vkattn::python

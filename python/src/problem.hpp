// What a call of attention is given, as a descriptor and arrays in host memory.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/host_tensors.hpp>

#include <array>
#include <cstdint>
#include <vector>

#include "arrays.hpp"
#include "score_inputs.hpp"

namespace vkattn::python {

/// A problem with its arrays: query (batch, query_heads, query_length, head_dim), key and value likewise,
/// and what changes its scores. Made with the interpreter's lock, which reading it does not need.
class Problem {
 public:
  Problem(const pybind11::array& query, const pybind11::array& key, const pybind11::array& value,
          const ScoreOptions& options);

  /// With the strides of the arrays, and outputs without gaps.
  [[nodiscard]] const AttentionDesc& desc() const { return desc_; }
  /// The same problem with arrays without gaps, where only what is broadcast keeps its stride of 0.
  [[nodiscard]] AttentionDesc dense_desc() const;
  /// Its inputs; outputs are the caller's to add.
  [[nodiscard]] HostTensors host_tensors() const;

  [[nodiscard]] const Extents& query_extents() const { return query_.extents(); }
  [[nodiscard]] const Extents& key_extents() const { return key_.extents(); }
  [[nodiscard]] const Extents& value_extents() const { return value_.extents(); }
  [[nodiscard]] const Extents& mask_extents() const { return inputs_.mask_extents(); }
  /// Which dimensions of the scores the mask broadcasts.
  [[nodiscard]] const std::array<bool, 4>& mask_repeats() const { return inputs_.mask_repeats(); }

  [[nodiscard]] std::vector<std::int64_t> output_shape() const;
  [[nodiscard]] std::vector<std::int64_t> lse_shape() const;
  [[nodiscard]] std::vector<std::int64_t> weights_shape() const;

 private:
  void set_sizes();

  AttentionDesc desc_;
  InputArray query_;
  InputArray key_;
  InputArray value_;
  ScoreInputs inputs_;
};

void register_problem(pybind11::module_& module);

}  // namespace vkattn::python

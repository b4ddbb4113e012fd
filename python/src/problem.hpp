// The inputs of a call of attention, as a descriptor and arrays in host memory.
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

/// A problem with its arrays: query (batch, query_heads, query_length, head_dim), the same for key and value,
/// and what changes its scores. Packed sequences are one batch entry of all rows. It is made with the
/// interpreter's lock; reading it needs no lock.
class Problem {
 public:
  Problem(const pybind11::array& query, const pybind11::array& key, const pybind11::array& value,
          const ScoreOptions& options);

  /// The descriptor with the strides of the arrays, and outputs without gaps.
  [[nodiscard]] const AttentionDesc& desc() const { return desc_; }
  /// The same problem with arrays without gaps. Only broadcast dimensions keep their stride of 0.
  [[nodiscard]] AttentionDesc dense_desc() const;
  /// The inputs; the caller adds outputs.
  [[nodiscard]] HostTensors host_tensors() const;

  [[nodiscard]] const Extents& query_extents() const { return query_.extents(); }
  [[nodiscard]] const Extents& key_extents() const { return key_.extents(); }
  [[nodiscard]] const Extents& value_extents() const { return value_.extents(); }
  [[nodiscard]] const Extents& mask_extents() const { return inputs_.mask_extents(); }
  /// True for dimensions of the scores along which the mask is broadcast.
  [[nodiscard]] const std::array<bool, 4>& mask_repeats() const { return inputs_.mask_repeats(); }

  [[nodiscard]] std::vector<std::int64_t> output_shape() const;
  [[nodiscard]] std::vector<std::int64_t> lse_shape() const;
  [[nodiscard]] std::vector<std::int64_t> weights_shape() const;

 private:
  void set_sizes();
  /// Packed sequences: the arrays' one batch entry holds all sequences, one after the other.
  void set_packed(const ScoreOptions& options);

  AttentionDesc desc_;
  InputArray query_;
  InputArray key_;
  InputArray value_;
  ScoreInputs inputs_;
};

void register_problem(pybind11::module_& module);

}  // namespace vkattn::python

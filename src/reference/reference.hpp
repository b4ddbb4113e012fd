// float64 attention on the CPU, row by row: the oracle for every kernel. Shares no code with them.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::reference {

/// Host memory of the tensors, in the storage types and strides of the descriptor; `query` points at the
/// tensor's first element. A tensor without elements may be null.
struct Inputs {
  const void* query = nullptr;
  const void* key = nullptr;
  const void* value = nullptr;
  std::span<const std::int32_t> kv_lengths;  ///< one per batch entry where desc.has_kv_lengths
};

/// One output row with what its tolerance is made of (docs/semantics.md, "Tolerances").
struct Row {
  std::vector<double> output;  ///< value_dim
  double lse = 0;              ///< -inf where the row sees nothing
  std::int64_t visible_keys = 0;
  double score_magnitude = 0;           ///< A_i: max over visible j of |scale| * sum |q||k|
  std::vector<double> value_magnitude;  ///< S: sum over visible j of p[i,j] * |v_j|, per value dim
};

struct RowIndex {
  std::int64_t batch = 0;
  std::int64_t head = 0;  ///< query head
  std::int64_t query = 0;
};

/// Computes one row.
[[nodiscard]] Row compute_row(const AttentionDesc& desc, const Inputs& inputs, RowIndex row);

/// The largest |o - ref| allowed for element `dim` of the row, by a kernel that rounds probabilities to the
/// given type before it multiplies them with V.
[[nodiscard]] double output_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t dim,
                                      DataType probability_type = DataType::kFloat32);

/// The largest |lse - ref| allowed.
[[nodiscard]] double lse_tolerance(const AttentionDesc& desc, const Row& row);

}  // namespace vkattn::reference

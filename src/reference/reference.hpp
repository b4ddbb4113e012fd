// float64 attention on the CPU, row by row: the oracle for every kernel. Shares no code with them.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/host_tensors.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace vkattn::reference {

struct RowIndex {
  std::int64_t batch = 0;
  std::int64_t head = 0;   ///< query head
  std::int64_t query = 0;  ///< position within the batch entry or packed sequence
};

/// A score function of the user's own on the scores of a row after softcap, those of keys first_key and on:
/// it replaces them in place, by -inf where the key is hidden. Called from several threads.
using ScoreHook = std::function<void(const RowIndex& row, std::int64_t first_key, std::span<double> scores)>;

/// The tensors that are read; outputs and the score function's buffers are not looked at.
struct Inputs : HostTensors {
  ScoreHook score_hook{};  ///< of plans with a score function
};

/// The queries that a batch entry has, by its query length or its cumulative lengths.
[[nodiscard]] std::int64_t query_length(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch);
/// The keys that a batch entry has, by its key length or its cumulative lengths. In a ring only the last ones
/// exist.
[[nodiscard]] std::int64_t key_length(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch);
/// Whether a row is written, because it is not beyond the query length of its batch entry.
[[nodiscard]] bool is_written(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row);
/// Where a row lies in Q, O and lse: itself, but packed ones are one batch entry.
[[nodiscard]] RowIndex stored_row(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row);

/// One output row with what its tolerance is made of (docs/semantics.md, "Tolerances").
struct Row {
  std::vector<double> output;  ///< value_dim
  double lse = 0;              ///< -inf where the row sees nothing and has no sink
  std::int64_t visible_keys = 0;
  double score_magnitude =
      0;  ///< A_i: the largest A_ij of the visible j that may count, or |sink| where larger
  std::vector<double> value_magnitude;  ///< S: sum over visible j of w[i,j] * |v_j|, per value dim
  std::vector<double> value_sum;        ///< sum over visible j of |v_j|: what flushed weights may lose
  /// The most that a device that flushes may lose of a score; kUndefined where one overflows.
  double score_flushed = 0;

  // For float16 arithmetic, which may flush numbers below its least normal, f = 2^-14, to zero.
  double product_magnitude = 0;  ///< A'_i: of those j's the largest product, with what a function adds to it
  double product_lost = 0;       ///< the largest sum of those products that may be lost
  std::vector<double> value_lost;  ///< sum of w[i,j] * |v[j,d]| of those that may be lost, per value dim
  double largest_weight = 0;       ///< p of a key with the largest score, or of the sink

  /// Where the descriptor asks for weights: of each of its kv_length keys the weight of the stage, and A_ij,
  /// the sum of the magnitudes that the key's score is made of at that stage (0 where it has none).
  std::vector<double> weights;
  std::vector<double> weight_magnitudes;
  std::vector<double> weight_flushed;  ///< as score_flushed, of each score
};

/// Computes one row that is_written().
[[nodiscard]] Row compute_row(const AttentionDesc& desc, const Inputs& inputs, RowIndex row);

/// The largest |o - ref| allowed for element `dim` of the row, kUndefined where float32 may not hold it, by a
/// kernel that rounds probabilities to the given type before it multiplies them with V, and computes products
/// and short sums in arithmetic_type.
[[nodiscard]] double output_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t dim,
                                      DataType probability_type = DataType::kFloat32,
                                      DataType arithmetic_type = DataType::kFloat32);

/// The largest |lse - ref| allowed, likewise.
[[nodiscard]] double lse_tolerance(const AttentionDesc& desc, const Row& row,
                                   DataType arithmetic_type = DataType::kFloat32);

/// The largest |weight - ref| allowed for the weight of a key, likewise.
[[nodiscard]] double weight_tolerance(const AttentionDesc& desc, const Row& row, std::int64_t key,
                                      DataType arithmetic_type = DataType::kFloat32);

}  // namespace vkattn::reference

/// @file
/// Attention over parts of the keys, merged into attention over all of them: for keys that lie on several
/// devices or come one after the other (ring attention: Liu, Zaharia and Abbeel, 2023).
#pragma once

#include <vkattn/buffer_range.hpp>
#include <vkattn/data_type.hpp>
#include <vkattn/plan.hpp>

#include <cstdint>
#include <utility>

namespace vkattn {

/// Results of plans with AttentionDesc::has_lse, each over other keys of the same rows. With p the parts:
///
///     lse = ln(sum over p of exp(lse_p))
///     output = sum over p of exp(lse_p - lse) * output_p
///
/// A part whose row saw no key has lse_p = -inf and does not count; if no part counts, output is 0 and lse
/// -inf. Sinks and dropout belong to one softmax: give a sink to one part only.
struct MergeDesc {
  using Plan = class MergePlan;  ///< what computes it

  std::int64_t rows = 0;                      ///< of one part: batch * query_heads * query_length
  std::int64_t value_dim = 0;                 ///< elements of a row, side by side; rows likewise
  std::int64_t parts = 2;                     ///< at least 1
  DataType part_type = DataType::kFloat32;    ///< of the parts' outputs: kFloat32, kFloat16 or kBfloat16
  DataType output_type = DataType::kFloat32;  ///< likewise; rows * value_dim is even for 16 bits
  bool has_lse = true;                        ///< the merged lse is written too
};

/// The tensors of one execution, contiguous, each from a multiple of 4 bytes on. `output` may lie on the
/// first part if their types are equal, and `lse` on that part's lse: so one more part is merged into an
/// earlier result. Any other overlap is refused.
struct MergeTensors {
  BufferRange parts{};     ///< (parts, rows, value_dim)
  BufferRange part_lse{};  ///< float32 (parts, rows)
  BufferRange output{};    ///< (rows, value_dim)
  BufferRange lse{};       ///< float32 (rows), where MergeDesc::has_lse
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MergeDesc& desc);

/// A plan of a merge: one or two passes, without a workspace. Each tensor must fit maxStorageBufferRange.
class MergePlan : public PlanOf<MergePlan, MergeDesc, MergeTensors> {
 private:
  friend PlanOf;
  explicit MergePlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn

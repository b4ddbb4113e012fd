/// @file
/// Plans of attention.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/plan.hpp>

#include <cstdint>
#include <optional>
#include <utility>

namespace vkattn {

/// A word of a block mask: what a block of rows sees of a block of keys.
enum class BlockVisibility : std::uint32_t {
  kHidden = 0,   ///< nothing: the block is skipped
  kMixed = 1,    ///< mask and score function are asked; always right
  kVisible = 2,  ///< all that they decide, and a mask of floats, which is added, is 0 everywhere
};

/// Where the word (uint32) of a block lies: batch * batch_stride + kv_head * head_stride + row / rows *
/// row_stride + key / keys, with strides in words. `row` is query * g + h for query head kv_head * g + h; g
/// is the query heads of a KV head. If no lengths come from buffers, a block that causality or the window
/// hides whole is computed as hidden; else only mask and score function count. A mask of the caller's own
/// need not know causality, windows and lengths: the kernels apply them anyway.
struct BlockMaskLayout {
  std::uint32_t rows = 0;          ///< of a block
  std::uint32_t keys = 0;          ///< of a block
  std::uint32_t batch_stride = 0;  ///< 0 where blocks do not depend on the batch entry
  std::uint32_t head_stride = 0;   ///< 0 where they do not depend on the KV head
  std::uint32_t row_stride = 0;    ///< from a block of rows to the next: blocks along the keys
};

/// A plan of attention.
class AttentionPlan : public PlanOf<AttentionPlan, AttentionDesc, AttentionTensors> {
 public:
  /// The block sizes it was made with.
  [[nodiscard]] const TileSizes& tile() const;
  /// Bytes of AttentionTensors::block_mask if the plan computes one before the kernel, as most plans with a
  /// mask or a score function that hides keys do. Else 0.
  [[nodiscard]] VkDeviceSize block_mask_bytes() const;
  /// For callers that write the block mask themselves. Empty if the plan has none, or if the problem takes
  /// several windows (describe()), each of which has one.
  [[nodiscard]] std::optional<BlockMaskLayout> block_mask_layout() const;
  /// Bytes of one workgroup's shared memory.
  [[nodiscard]] std::uint32_t shared_memory_bytes() const;
  /// The type that the kernel rounds probabilities to before it multiplies them with V: it widens the
  /// tolerance.
  [[nodiscard]] DataType probability_type() const;
  /// The type of products and short sums, if the caller asked for another than float32
  /// (PlanOptions::arithmetic_type). It says nothing of matrix units.
  [[nodiscard]] DataType arithmetic_type() const;

 private:
  friend PlanOf;
  explicit AttentionPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn

// The sizes of a layer: its three projections, the groups that read one input, and the tensors between its
// steps.
#pragma once

#include <vkattn/multi_head_attention.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace vkattn::detail {

/// The numbers of the three projections and inputs.
enum : std::size_t { kQuery, kKey, kValue, kProjections };

/// W_Q, W_K or W_V.
struct Projection {
  std::int64_t width = 0;         ///< outputs: heads times elements of a head
  std::int64_t first_row = 0;     ///< in the packed weight and the bias
  std::int64_t first_column = 0;  ///< in a row of its group's results
  std::size_t group = 0;
};

/// Projections that one multiplication makes, side by side in one matrix: if weights are packed, all that
/// read one input; else one.
struct ProjectionGroup {
  std::size_t first = 0, count = 0;  ///< of the projections
  std::size_t input = 0;
  std::int64_t rows = 0;   ///< of the input and the results
  std::int64_t inner = 0;  ///< elements of a row of the input
  std::int64_t width = 0;  ///< elements of a row of the results
};

struct LayerShape {
  std::array<Projection, kProjections> projections;
  std::vector<ProjectionGroup> groups;
  std::int64_t query_rows = 0;
  std::int64_t heads_width = 0;  ///< elements of a row of the heads' output: query_heads * value_dim
};

/// Whether queries are rotated into a tensor of their own, while keys are rotated into a cache.
[[nodiscard]] inline bool has_turned_queries(const MultiHeadAttentionDesc& desc) {
  return desc.has_cache && desc.rotary.style != RotaryStyle::kNone;
}

/// The sizes of a descriptor whose own sizes are known and not negative.
[[nodiscard]] LayerShape layer_shape(const MultiHeadAttentionDesc& desc);

/// Strides of one projection's results as a tensor of heads.
[[nodiscard]] Strides head_strides(const ProjectionGroup& group, std::int64_t length, std::int64_t dims);

/// Bytes one after the other in a buffer.
struct Piece {
  VkDeviceSize byte = 0;
  VkDeviceSize bytes = 0;
};

/// Deals out pieces. Each begins at a multiple of the largest alignment that devices need for descriptors.
class PieceList {
 public:
  [[nodiscard]] Piece take(VkDeviceSize bytes);
  [[nodiscard]] VkDeviceSize bytes() const { return bytes_; }

 private:
  VkDeviceSize bytes_ = 0;
};

/// Bytes of a matrix to the end of its last 32-bit word; at most 2^60.
[[nodiscard]] VkDeviceSize matrix_bytes(std::int64_t rows, std::int64_t columns, DataType type);

/// The tensors that the forward pass leaves for the backward pass, or for its own later steps.
struct LayerMemory {
  std::vector<Piece> projected;  ///< of each group
  Piece turned;                  ///< rotated queries, where keys are rotated on their way to a cache
  Piece heads;                   ///< what attention puts out
  Piece lse;                     ///< where gradients need it
  VkDeviceSize bytes = 0;        ///< of all
};
[[nodiscard]] LayerMemory layer_memory(const MultiHeadAttentionDesc& resolved, const LayerShape& shape);

/// The alignment of a place so many bytes behind one that is aligned to `alignment`; 0 stays 0.
[[nodiscard]] std::uint32_t alignment_behind(std::uint32_t alignment, std::uint64_t bytes);

}  // namespace vkattn::detail

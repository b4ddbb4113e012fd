// The sizes of a layer: see layer_shape.hpp.
#include "module/layer_shape.hpp"

#include <algorithm>

#include "common/checked.hpp"
#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

/// No device asks for more of where a descriptor begins.
constexpr VkDeviceSize kPieceAlignment = 256;

std::vector<ProjectionGroup> groups_of(const MultiHeadAttentionDesc& desc) {
  std::vector<ProjectionGroup> groups;
  for (const std::size_t which : {kQuery, kKey, kValue}) {
    const bool reads_its_own = desc.inputs == LayerInputs::kSeparate;
    const std::size_t shared = desc.inputs == LayerInputs::kCross && which != kQuery ? kKey : kQuery;
    const std::size_t input = reads_its_own ? which : shared;
    if (desc.packed_weights && !groups.empty() && groups.back().input == input) {
      ++groups.back().count;
    } else {
      groups.push_back({which, 1, input});
    }
  }
  return groups;
}

}  // namespace

LayerShape layer_shape(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& attention = desc.attention;
  const bool packed_queries = attention.has_packed_queries(), packed_keys = attention.has_packed_keys();
  LayerShape shape;
  shape.query_rows = packed_queries ? attention.total_query_length
                                    : saturating_multiply(attention.batch, attention.query_length);
  const std::int64_t key_rows =
      packed_keys ? attention.total_kv_length : saturating_multiply(attention.batch, attention.kv_length);
  shape.heads_width = saturating_multiply(attention.query_heads, attention.value_dim);
  shape.projections[kQuery].width = saturating_multiply(attention.query_heads, attention.head_dim);
  shape.projections[kKey].width = saturating_multiply(attention.kv_heads, attention.head_dim);
  shape.projections[kValue].width = saturating_multiply(attention.kv_heads, attention.value_dim);
  shape.groups = groups_of(desc);
  std::int64_t first_row = 0;
  for (std::size_t g = 0; g < shape.groups.size(); ++g) {
    ProjectionGroup& group = shape.groups[g];
    group.rows = group.input == kQuery ? shape.query_rows : key_rows;
    group.inner = std::array{desc.d_model, desc.key_input_dim, desc.value_input_dim}[group.input];
    for (std::size_t i = group.first; i < group.first + group.count; ++i) {
      Projection& projection = shape.projections[i];
      projection.group = g;
      projection.first_row = first_row;
      projection.first_column = group.width;
      first_row = saturating_add(first_row, projection.width);
      group.width = saturating_add(group.width, projection.width);
    }
  }
  return shape;
}

Strides head_strides(const ProjectionGroup& group, std::int64_t length, std::int64_t dims) {
  return {saturating_multiply(length, group.width), dims, group.width, 1};
}

Piece PieceList::take(VkDeviceSize bytes) {
  const Piece piece{bytes_, bytes};
  bytes_ += round_up(bytes, kPieceAlignment);
  return piece;
}

VkDeviceSize matrix_bytes(std::int64_t rows, std::int64_t columns, DataType type) {
  const std::int64_t bytes =
      saturating_multiply(saturating_multiply(rows, columns), std::int64_t{element_bytes(type)});
  constexpr std::int64_t kMost = std::int64_t{1} << 60;  // so that sums of some of them do not wrap
  return round_up(static_cast<VkDeviceSize>(std::min(bytes, kMost)), VkDeviceSize{4});
}

LayerMemory layer_memory(const MultiHeadAttentionDesc& resolved, const LayerShape& shape) {
  LayerMemory memory;
  PieceList pieces;
  for (const ProjectionGroup& group : shape.groups) {
    memory.projected.push_back(pieces.take(matrix_bytes(group.rows, group.width, resolved.type)));
  }
  if (has_turned_queries(resolved)) {
    memory.turned =
        pieces.take(matrix_bytes(shape.query_rows, shape.projections[kQuery].width, resolved.type));
  }
  memory.heads = pieces.take(matrix_bytes(shape.query_rows, shape.heads_width, resolved.type));
  if (resolved.saves_for_gradients) {
    memory.lse =
        pieces.take(matrix_bytes(shape.query_rows, resolved.attention.query_heads, DataType::kFloat32));
  }
  memory.bytes = pieces.bytes();
  return memory;
}

std::uint32_t alignment_behind(std::uint32_t alignment, std::uint64_t bytes) {
  if (bytes == 0 || alignment == 0) return alignment;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(alignment, bytes & (~bytes + 1)));
}

}  // namespace vkattn::detail

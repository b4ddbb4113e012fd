// How tensors lie in their buffers: shapes, walks over elements in the order of their addresses, and the bit
// patterns that fill all other bytes.
#pragma once

#include <vkattn/attention.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "attention/tensor_table.hpp"
#include "harness/data.hpp"

namespace vkattn::harness {

/// The extents and the storage of one tensor.
struct TensorShape {
  TensorDesc desc;
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t dims = 0;

  [[nodiscard]] Result<std::int64_t> bytes() const { return tensor_bytes(desc, batch, heads, rows, dims); }
};

[[nodiscard]] inline TensorShape shape_of(const TensorDesc& desc, const TensorExtents& extents) {
  return {desc, extents.batch, extents.heads, extents.rows, extents.dims};
}
template <class Desc, class Tensors>
[[nodiscard]] TensorShape shape_of(const detail::TensorRowOf<Desc, Tensors>& row, const Desc& desc) {
  return shape_of(row.storage(desc), row.extents(desc));
}
/// The shape of a tensor of the problem, used or not. A mask of bits has elements of 32-bit words. No mask
/// has none.
[[nodiscard]] inline TensorShape tensor_shape(BufferRange AttentionTensors::*which,
                                              const AttentionDesc& desc) {
  if (which == &AttentionTensors::mask && desc.mask.type == MaskType::kNone) return {};
  return shape_of(detail::row_of(which), desc);
}
[[nodiscard]] inline TensorShape query_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::query, desc);
}
[[nodiscard]] inline TensorShape key_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::key, desc);
}
[[nodiscard]] inline TensorShape value_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::value, desc);
}
[[nodiscard]] inline TensorShape output_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::output, desc);
}
[[nodiscard]] inline TensorShape lse_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::lse, desc);
}
[[nodiscard]] inline TensorShape weights_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::weights, desc);
}
[[nodiscard]] inline TensorShape mask_shape(const AttentionDesc& desc) {
  return tensor_shape(&AttentionTensors::mask, desc);
}

/// A tensor of a block format as a tensor of blocks: dims and strides count blocks.
[[nodiscard]] inline TensorShape in_blocks(TensorShape shape) {
  const std::int64_t block = block_elements(shape.desc.type);
  if (block == 1) return shape;
  Strides& strides = *shape.desc.strides;
  strides = {strides.batch / block, strides.head / block, strides.row / block, 1};
  shape.dims /= block;
  return shape;
}

/// The dimensions of a shape, from the largest stride to the smallest.
class AddressOrder {
 public:
  explicit AddressOrder(const TensorShape& shape)
      : axes_{Axis{shape.desc.strides->batch, shape.batch, 0}, Axis{shape.desc.strides->head, shape.heads, 1},
              Axis{shape.desc.strides->row, shape.rows, 2}, Axis{shape.desc.strides->dim, shape.dims, 3}} {
    for (Axis& axis : axes_) {
      // Elements that repeat along a dimension lie in memory once. Their data are those of position 0.
      if (axis.stride == 0) axis.extent = std::min<std::int64_t>(axis.extent, 1);
    }
    std::stable_sort(axes_.begin(), axes_.end(),
                     [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  }

  /// True if addresses grow along the walk, so that no two elements overlap, except by strides of 0.
  [[nodiscard]] bool is_nested() const {
    std::int64_t reach = 0;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      if (axis->extent <= 1) continue;
      if (axis->stride <= reach) return false;
      reach += (axis->extent - 1) * axis->stride;
    }
    return true;
  }

  /// A line is the elements along the innermost dimension.
  /// @{
  [[nodiscard]] std::int64_t line_count() const {
    return axes_[0].extent * axes_[1].extent * axes_[2].extent;
  }
  [[nodiscard]] std::int64_t line_length() const { return axes_[3].extent; }
  /// @}

  /// Calls visit(offset in elements, position) for each element in memory, lowest address first.
  template <class Visit>
  void for_each(Visit visit) const {
    for_each(0, line_count(), visit);
  }

  /// Does so for the lines from `first` to before `end`.
  template <class Visit>
  void for_each(std::int64_t first, std::int64_t end, Visit visit) const {
    std::array<std::int64_t, 4> index{};
    for (std::int64_t line = first; line < end; ++line) {
      std::int64_t rest = line;
      std::int64_t offset = 0;
      for (std::size_t axis = 3; axis-- > 0; rest /= axes_[axis].extent) {
        index[axes_[axis].position] = rest % axes_[axis].extent;
        offset += index[axes_[axis].position] * axes_[axis].stride;
      }
      for (std::int64_t d = 0; d < axes_[3].extent; ++d, offset += axes_[3].stride) {
        index[axes_[3].position] = d;
        visit(offset, Position{index[0], index[1], index[2], index[3]});
      }
    }
  }

 private:
  struct Axis {
    std::int64_t stride;
    std::int64_t extent;
    std::size_t position;
  };
  std::array<Axis, 4> axes_;
};

/// Bytes that repeat through a buffer. The address modulo 4 selects one.
using Pattern = std::array<std::byte, 4>;

[[nodiscard]] inline Pattern pattern_of(std::uint32_t word) {
  Pattern pattern;
  std::memcpy(pattern.data(), &word, sizeof(word));
  return pattern;
}

/// The pattern between and around the elements of inputs: a NaN, so that reading it shows in the output.
[[nodiscard]] inline Pattern input_filler(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return pattern_of(0x7e2d7e2dU);
    case DataType::kBfloat16:
      return pattern_of(0x7fe37fe3U);
    case DataType::kQ8_0:
    case DataType::kQ4_0:
      return pattern_of(0x7e2d7e2dU);  // a NaN as the scale of a block, at whatever byte the block begins
    case DataType::kFloat8E4m3:
      return pattern_of(0x7f7f7f7fU);
    case DataType::kFloat32:
      break;
  }
  return pattern_of(0x7fc0beefU);
}

/// The pattern that fills outputs before a run: a NaN with a payload that no arithmetic gives.
[[nodiscard]] inline Pattern output_poison(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return pattern_of(0x7edd7eddU);
    case DataType::kBfloat16:
      return pattern_of(0x7fdd7fddU);
    default:
      break;
  }
  return pattern_of(0x7fc0deadU);
}

}  // namespace vkattn::harness

// The rules for one tensor of a descriptor, whatever the descriptor: its type, its alignment, its strides.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

#include "common/byte_layout.hpp"
#include "common/message.hpp"

namespace vkattn::detail {

/// A tensor of a descriptor under its name, with its extents.
struct NamedTensor {
  std::string_view name;
  TensorDesc desc;
  TensorExtents extents;
};

/// What becomes of a tensor: other rules hold for what is written.
struct TensorUse {
  bool written = false;  ///< no two elements may share memory
  bool may_be_quantised = false;
};
inline constexpr TensorUse kReadOnly{};
inline constexpr TensorUse kWritten{.written = true};

/// That a size is from `least` to `most`.
[[nodiscard]] Result<void> check_size(std::string_view what, std::int64_t value, std::int64_t least,
                                      std::int64_t most);

/// That an enumeration without negative values holds one of them, up to `last`; `names` is what they name.
template <class Enum>
[[nodiscard]] Result<void> check_enum(std::string_view what, Enum value, Enum last, std::string_view names) {
  if (value <= last) return {};
  return invalid(what, " holds ", static_cast<std::uint32_t>(value), ", which names no ", names);
}

/// That a size which nothing else gives was set, and is at most `most`.
[[nodiscard]] Result<void> check_given(std::string_view what, std::int64_t value, std::int64_t most);

/// Whether a type is float32, float16 or bfloat16.
[[nodiscard]] constexpr bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

/// The first rule that the tensor breaks. It has strides.
[[nodiscard]] Result<void> check_tensor(const NamedTensor& tensor, const TensorUse& use);

/// The first of those rules: its alignment_bytes, whose least is the size of an element.
[[nodiscard]] Result<void> check_alignment(const NamedTensor& tensor);

/// A stride with its name and the extent of its dimension.
struct NamedStride {
  std::string_view name;
  std::int64_t stride;
  std::int64_t extent;
};

/// That no two elements of a tensor share memory. Sorts the strides, whose reach has been seen to fit 63
/// bits.
[[nodiscard]] Result<void> check_no_overlap(std::string_view name, std::span<NamedStride> strides);

/// Bytes of a valid tensor with strides, from the first element to the end of the last.
[[nodiscard]] std::uint64_t valid_bytes(const TensorDesc& tensor, const TensorExtents& extents);

/// Where the bytes of a valid tensor with strides lie.
[[nodiscard]] ByteLayout byte_layout(const TensorDesc& tensor, const TensorExtents& extents);

/// That the build can do all of the types: quantised ones may have been left out.
[[nodiscard]] Result<void> check_built(std::initializer_list<DataType> types);

/// True where rows of the tensor can be read so many elements at a time (4, or 8 of 16 bits).
[[nodiscard]] bool has_vector_loads(const TensorDesc& tensor, const TensorExtents& extents,
                                    std::uint32_t elements = 4);

/// A mask as a tensor of what it is stored in: bits as words, bytes as a type of one byte.
[[nodiscard]] TensorDesc mask_tensor(const MaskDesc& mask);
/// Elements of that tensor along so many keys.
[[nodiscard]] std::int64_t mask_columns(const MaskDesc& mask, std::int64_t keys);

}  // namespace vkattn::detail

// The rules for one tensor of any descriptor: its type, its alignment, its strides.
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

/// How a tensor is used: written tensors have rules of their own.
struct TensorUse {
  bool written = false;  ///< no two elements may share memory
  bool may_be_quantised = false;
};
inline constexpr TensorUse kReadOnly{};
inline constexpr TensorUse kWritten{.written = true};

/// Checks that a size is from `least` to `most`.
[[nodiscard]] Result<void> check_size(std::string_view what, std::int64_t value, std::int64_t least,
                                      std::int64_t most);

/// Checks that an enumerator is not beyond `last`. `names` is the word for what the enumerators name.
template <class Enum>
[[nodiscard]] Result<void> check_enum(std::string_view what, Enum value, Enum last, std::string_view names) {
  if (value <= last) return {};
  return invalid(what, " holds ", static_cast<std::uint32_t>(value), ", which names no ", names);
}

/// Checks that a size without a default was set, and is at most `most`.
[[nodiscard]] Result<void> check_given(std::string_view what, std::int64_t value, std::int64_t most);

/// Whether a type is float32, float16 or bfloat16.
[[nodiscard]] constexpr bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

/// The first rule that the tensor breaks. It has strides.
[[nodiscard]] Result<void> check_tensor(const NamedTensor& tensor, const TensorUse& use);

/// Checks alignment_bytes, which is at least the size of an element.
[[nodiscard]] Result<void> check_alignment(const NamedTensor& tensor);

/// A stride with its name and the extent of its dimension.
struct NamedStride {
  std::string_view name;
  std::int64_t stride;
  std::int64_t extent;
};

/// Checks that no two elements of a tensor share memory. Sorts the strides; their reach must fit 63 bits.
[[nodiscard]] Result<void> check_no_overlap(std::string_view name, std::span<NamedStride> strides);

/// Bytes of a valid tensor with strides, from the first element to the end of the last.
[[nodiscard]] std::uint64_t valid_bytes(const TensorDesc& tensor, const TensorExtents& extents);

/// Where the bytes of a valid tensor with strides lie.
[[nodiscard]] ByteLayout byte_layout(const TensorDesc& tensor, const TensorExtents& extents);

/// Checks that the build has all of these types: it may lack the quantised ones.
[[nodiscard]] Result<void> check_built(std::initializer_list<DataType> types);

/// Whether shaders can read rows of the tensor so many elements at a time (4, or 8 of 16 bits).
[[nodiscard]] bool has_vector_loads(const TensorDesc& tensor, const TensorExtents& extents,
                                    std::uint32_t elements = 4);

/// Whether neighbouring rows of a tensor with strides meet in one or two sets of a CPU's first cache (4096
/// bytes a way): with running sums in such rows lane takes more than twice as long.
[[nodiscard]] bool rows_share_cache_sets(const TensorDesc& tensor);

/// Whether lane keeps running sums of a tensor with strides in the workspace: 16-bit rows cannot hold them,
/// and with `avoids_shared_sets` (on CPUs) rows that share cache sets do not.
[[nodiscard]] bool sums_lie_apart(const TensorDesc& tensor, bool avoids_shared_sets);

/// A mask as a tensor of its storage: bits are words, bytes have a type of one byte.
[[nodiscard]] TensorDesc mask_tensor(const MaskDesc& mask);
/// Elements of the tensor for so many keys.
[[nodiscard]] std::int64_t mask_columns(const MaskDesc& mask, std::int64_t keys);

}  // namespace vkattn::detail

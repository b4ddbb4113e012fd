// The rules for one tensor of a descriptor, whatever the descriptor: its type, its alignment, its strides.
#pragma once

#include <vkattn/attention.hpp>

#include <algorithm>
#include <cassert>
#include <cstddef>
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

/// The place of a member's row in a table of tensors.
template <class Row, class Member>
[[nodiscard]] std::size_t row_index(std::span<const Row> table, Member member) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const Row& other) { return other.range == member; });
  assert(row != table.end() && "a member that the table does not have");
  return static_cast<std::size_t>(row - table.begin());
}

/// What becomes of a tensor: other rules hold for what is written.
struct TensorUse {
  bool written = false;  ///< no two elements may share memory
  bool may_be_quantised = false;
};

/// That a size is from `least` to `most`.
[[nodiscard]] Result<void> check_size(std::string_view what, std::int64_t value, std::int64_t least,
                                      std::int64_t most);

/// That an enumeration without negative values holds one of them, up to `last`; `names` is what they name.
template <class Enum>
[[nodiscard]] Result<void> check_enum(std::string_view what, Enum value, Enum last, std::string_view names) {
  if (value <= last) return {};
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
               message(what, " holds ", static_cast<std::uint32_t>(value), ", which names no ", names)};
}

/// That a size which nothing else gives was set, and is at most `most`.
[[nodiscard]] Result<void> check_given(std::string_view what, std::int64_t value, std::int64_t most);

/// The first rule that the tensor breaks. It has strides.
[[nodiscard]] Result<void> check_tensor(const NamedTensor& tensor, const TensorUse& use);

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

// The rules for one tensor of a descriptor, whatever the descriptor: its type, its alignment, its strides.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <string_view>

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

/// That a size is from `least` to `most`.
[[nodiscard]] Status check_size(std::string_view what, std::int64_t value, std::int64_t least,
                                std::int64_t most);

/// The first rule that the tensor breaks.
[[nodiscard]] Status check_tensor(const NamedTensor& tensor, const TensorUse& use);

/// A mask as a tensor of what it is stored in: bits as words, bytes as a type of one byte.
[[nodiscard]] TensorDesc mask_tensor(const MaskDesc& mask);
/// Elements of that tensor along so many keys.
[[nodiscard]] std::int64_t mask_columns(const MaskDesc& mask, std::int64_t keys);

}  // namespace vkattn::detail

// The table of the tensors that the backward pass has beside the forward one's (attention/tensor_table.hpp).
#pragma once

#include <vkattn/backward.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_rules.hpp"

namespace vkattn::detail {

struct GradientRow {
  std::string_view name;
  std::uint32_t binding;
  BufferRange BackwardTensors::*range;
  bool (*is_used)(const BackwardDesc& desc);
  TensorDesc (*storage)(const BackwardDesc& desc);
  TensorExtents (*extents)(const BackwardDesc& desc);
  std::uint32_t offset_byte;  ///< of BackwardParams
  TensorUse use;
};

inline constexpr std::size_t kGradientCount = 7;

/// Of resolved descriptors.
[[nodiscard]] std::span<const GradientRow, kGradientCount> gradient_table();

/// The row of a member.
[[nodiscard]] std::size_t gradient_index(BufferRange BackwardTensors::*range);

/// Bytes of a row's tensor; 0 where it is not used.
[[nodiscard]] std::uint64_t gradient_bytes(const GradientRow& row, const BackwardDesc& desc);

}  // namespace vkattn::detail

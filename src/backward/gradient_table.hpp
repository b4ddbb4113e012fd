// The table of the tensors that the backward pass has beside the forward one's (attention/tensor_table.hpp).
#pragma once

#include <vkattn/backward.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "attention/tensor_rules.hpp"

namespace vkattn::detail {

struct GradientRow {
  std::string_view name;
  std::uint32_t binding;
  BufferRange BackwardTensors::*range;
  bool BackwardDesc::*wanted;                       ///< null for what is always there
  std::optional<TensorDesc> BackwardDesc::*stored;  ///< null for a number of each query head
  TensorExtents (*extents)(const BackwardDesc& desc);
  std::uint32_t offset_byte;  ///< of BackwardParams
  TensorUse use;

  [[nodiscard]] bool is_used(const BackwardDesc& desc) const { return wanted == nullptr || desc.*wanted; }
  [[nodiscard]] TensorDesc storage(const BackwardDesc& desc) const;
};

/// Members of BackwardTensors behind those of the forward pass.
inline constexpr std::size_t kGradientCount =
    (sizeof(BackwardTensors) - offsetof(BackwardTensors, grad_output)) / sizeof(BufferRange);

/// Of resolved descriptors.
[[nodiscard]] std::span<const GradientRow, kGradientCount> gradient_table();

/// The row of a member.
[[nodiscard]] std::size_t gradient_index(BufferRange BackwardTensors::*range);

/// That a gradient is asked for.
[[nodiscard]] bool any_gradient(const BackwardDesc& desc);

/// Bytes of a row's tensor; 0 where it is not used.
[[nodiscard]] std::uint64_t gradient_bytes(const GradientRow& row, const BackwardDesc& desc);

}  // namespace vkattn::detail

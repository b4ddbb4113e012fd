// The table of the tensors that the backward pass has beside the forward one's (attention/tensor_table.hpp),
// and the parameters that their offsets are added to.
#pragma once

#include <vkattn/backward.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/backward_params.h"
}  // namespace shared
using shared::BackwardParams;

using GradientRow = TensorRowOf<BackwardDesc, BackwardTensors>;

/// Members of BackwardTensors behind those of the forward pass.
inline constexpr std::size_t kGradientCount =
    (sizeof(BackwardTensors) - offsetof(BackwardTensors, grad_output)) / sizeof(BufferRange);

/// The backward pass's own tensors; those of BackwardTensors::forward are in attention's table.
template <>
struct TensorTable<BackwardTensors> {
  static constexpr std::size_t kCount = kGradientCount;
  static constexpr std::string_view kAlignmentName = "its alignment (TensorDesc::alignment_bytes)";
  [[nodiscard]] static std::span<const GradientRow, kCount> rows();
};

/// Whether a resolved descriptor asks for a gradient.
[[nodiscard]] bool any_gradient(const BackwardDesc& desc);

}  // namespace vkattn::detail

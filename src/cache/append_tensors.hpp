// The table of an append's tensors, and the push constants that their offsets are added to.
#pragma once

#include <vkattn/cache.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/cache_params.h"
}  // namespace shared
using shared::AppendParams;

using AppendTensorRow = TensorRowOf<AppendDesc, AppendTensors>;

/// Tensors that are new rows have no elements where the descriptor has no heads for them.
template <>
struct TensorTable<AppendTensors> {
  static constexpr std::size_t kCount = sizeof(AppendTensors) / sizeof(BufferRange);
  static constexpr std::string_view kAlignmentName = "its alignment (TensorDesc::alignment_bytes)";
  [[nodiscard]] static std::span<const AppendTensorRow, kCount> rows();
};

}  // namespace vkattn::detail

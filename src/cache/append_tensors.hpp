// The table of an append's tensors.
#pragma once

#include <vkattn/cache.hpp>

#include <cstddef>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"

namespace vkattn::detail {

using AppendTensorRow = TensorRowOf<AppendDesc, AppendTensors>;

/// Tensors that are new rows have no elements where the descriptor has no heads for them.
template <>
struct TensorTable<AppendTensors> {
  static constexpr std::size_t kCount = sizeof(AppendTensors) / sizeof(BufferRange);
  static constexpr std::string_view kAlignmentName = "its alignment (TensorDesc::alignment_bytes)";
  [[nodiscard]] static std::span<const AppendTensorRow, kCount> rows();
};

}  // namespace vkattn::detail

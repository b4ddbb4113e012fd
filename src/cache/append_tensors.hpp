// The table of an append's tensors.
#pragma once

#include <vkattn/cache.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_rules.hpp"

namespace vkattn::detail {

struct AppendTensorRow {
  std::string_view name;
  BufferRange AppendTensors::*range;
  TensorDesc (*storage)(const AppendDesc& desc);
  /// Without elements where the descriptor has no use for it.
  TensorExtents (*extents)(const AppendDesc& desc);
  TensorUse use;
};

inline constexpr std::size_t kAppendTensorCount = 14;

[[nodiscard]] std::span<const AppendTensorRow, kAppendTensorCount> append_tensor_table();

/// The row of a member.
[[nodiscard]] std::size_t append_tensor_index(BufferRange AppendTensors::*range);

}  // namespace vkattn::detail

// The table of an append's tensors.
#pragma once

#include <vkattn/cache.hpp>

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

[[nodiscard]] std::span<const AppendTensorRow> append_tensor_table();

/// The row of a member.
[[nodiscard]] std::size_t append_tensor_index(BufferRange AppendTensors::*range);

/// Key positions that the cache has room for.
[[nodiscard]] std::int64_t append_capacity(const AppendDesc& desc);

/// New rows of one batch entry that there can be.
[[nodiscard]] std::int64_t most_new_rows(const AppendDesc& desc);

}  // namespace vkattn::detail

// The table of the tensors of a merge.
#pragma once

#include <vkattn/merge.hpp>

#include <cstddef>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"

namespace vkattn::detail {

using MergeTensorRow = TensorRowOf<MergeDesc, MergeTensors>;

template <>
struct TensorTable<MergeTensors> {
  static constexpr std::size_t kCount = sizeof(MergeTensors) / sizeof(BufferRange);
  static constexpr std::string_view kAlignmentName = "its alignment";
  [[nodiscard]] static std::span<const MergeTensorRow, kCount> rows();
};

}  // namespace vkattn::detail

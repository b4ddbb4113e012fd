// The passes of a merge.
#pragma once

#include <vkattn/merge.hpp>

#include <cstddef>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

using MergeTensorRow = TensorRowOf<MergeDesc, MergeTensors>;

template <>
struct TensorTable<MergeTensors> {
  static constexpr std::size_t kCount = sizeof(MergeTensors) / sizeof(BufferRange);
  static constexpr std::string_view kAlignmentName = "its alignment";
  [[nodiscard]] static std::span<const MergeTensorRow, kCount> rows();
};

/// The program of a valid descriptor.
[[nodiscard]] Result<ProgramDesc> merge_program(const MergeDesc& desc, const Capabilities& capabilities);

}  // namespace vkattn::detail

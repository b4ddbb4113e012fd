// The passes of a merge.
#pragma once

#include <vkattn/merge.hpp>

#include <array>
#include <span>
#include <string_view>

#include "program/program.hpp"

namespace vkattn::detail {

struct MergeTensorRow {
  std::string_view name;
  BufferRange MergeTensors::*range;
  std::uint64_t (*bytes)(const MergeDesc& desc);
  bool written;
};

inline constexpr std::size_t kMergeTensorCount = 4;

/// In the order of the shader's bindings.
[[nodiscard]] std::span<const MergeTensorRow, kMergeTensorCount> merge_tensor_table();

/// The program of a valid descriptor.
[[nodiscard]] Result<ProgramDesc> merge_program(const MergeDesc& desc, const Capabilities& capabilities);

}  // namespace vkattn::detail

// The common part of all programs of attention: the tensors of the table, the words that their offsets are
// added to, and bindings for a window's parts of them.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/capabilities.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attention/window.hpp"
#include "forward/layout.hpp"
#include "program/dispatch_limits.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// A program without passes. Its tensors are the rows of the table in their order; `whole` has their bytes.
[[nodiscard]] ProgramDesc attention_program(const AttentionDesc& desc, const TensorWindows& whole);

/// Bindings of a window that has these parts of the tensors. Other bindings are stand-ins.
[[nodiscard]] std::vector<ProgramBinding> window_bindings(const AttentionDesc& desc,
                                                          const TensorWindows& whole,
                                                          const TensorWindows& parts);

/// Binds a piece of the workspace. A piece without bytes leaves the stand-in.
void bind_area(const WorkspaceArea& area, ProgramBinding& binding);

/// The numbers of an execution that dropout uses (the low and the high word of the seed, and the offset), and
/// the parameters that they go to.
/// @{
using DropoutWords = std::array<std::uint32_t, 3>;
[[nodiscard]] DropoutWords dropout_words(const AttentionTensors& tensors) noexcept;
void add_dropout_words(ProgramDesc& program);
/// @}

/// Before each pass: earlier passes have written to the workspace, or in place.
inline constexpr PassBarrier kAfterPasses{VK_ACCESS_SHADER_WRITE_BIT,
                                          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};

/// Lets passes of a layout reach these bindings by addresses, which come behind its push constants. Bindings
/// that have one already are left.
void add_addresses(std::span<const std::uint32_t> bindings, ProgramLayout& layout);

/// A pass by its configuration, which waits for those before it.
[[nodiscard]] ProgramPass configured_pass(const PassConfig& config, const ShaderCode& code,
                                          SpecializationValues values);

}  // namespace vkattn::detail

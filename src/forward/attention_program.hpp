// What all programs of attention have in common: the tensors of the table with the words that their offsets
// go to, and bindings for a window's parts of them.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/capabilities.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/window.hpp"
#include "forward/layout.hpp"
#include "program/dispatch_limits.hpp"
#include "program/program.hpp"

namespace vkattn::detail {

/// A program without passes: its tensors are the rows of the table, in their order, and `whole` is all of
/// them.
[[nodiscard]] ProgramDesc attention_program(const AttentionDesc& desc, const TensorWindows& whole);

/// Bindings of a window that has these parts of the tensors; a stand-in where nothing is bound.
[[nodiscard]] std::vector<ProgramBinding> window_bindings(const AttentionDesc& desc,
                                                          const TensorWindows& whole,
                                                          const TensorWindows& parts);

/// Binds a piece of the workspace; what stands in stays where the piece has no bytes.
void bind_area(const WorkspaceArea& area, ProgramBinding& binding);

/// What dropout takes of each execution: its seed, low and high, and its offset; and the parameters that they
/// go to.
/// @{
using DropoutWords = std::array<std::uint32_t, 3>;
[[nodiscard]] DropoutWords dropout_words(const AttentionTensors& tensors) noexcept;
void add_dropout_words(ProgramDesc& program);
/// @}

/// Before each pass: what those before it have written to the workspace, or in place.
inline constexpr PassBarrier kAfterPasses{VK_ACCESS_SHADER_WRITE_BIT,
                                          VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};

/// A pass by its configuration, which waits for those before it.
[[nodiscard]] ProgramPass configured_pass(const PassConfig& config, const ShaderCode& code,
                                          SpecializationValues values);

}  // namespace vkattn::detail

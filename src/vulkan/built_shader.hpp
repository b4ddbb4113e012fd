// Looking up a shader that a build may have left out.
#pragma once

#include <vkattn/result.hpp>

#include "common/message.hpp"
#include "vulkan/shader_binary.hpp"

namespace vkattn::detail {

/// The words of the binary of that name, or why the build has none.
[[nodiscard]] inline Result<std::span<const std::uint32_t>> built_shader(std::span<const ShaderBinary> set,
                                                                         std::string_view name) {
  const ShaderBinary* const binary = find_shader(set, name);
  if (binary != nullptr && !binary->words.empty()) return binary->words;
  return Error{ErrorCode::kUnsupported, VK_SUCCESS,
               message("this build left the shader ", name, " out: its compiler lacks ",
                       binary != nullptr ? binary->missing : "it")};
}

}  // namespace vkattn::detail

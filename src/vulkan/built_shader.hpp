// Looking up a shader that a build may have left out.
#pragma once

#include <vkattn/result.hpp>

#include "common/message.hpp"
#include "vulkan/shader_binary.hpp"

namespace vkattn::detail {

/// The binary of that name, or why the build has none.
[[nodiscard]] inline Result<ShaderCode> built_shader(std::span<const ShaderBinary> set,
                                                     std::string_view name) {
  const ShaderBinary* const binary = find_shader(set, name);
  if (binary != nullptr && binary->is_built()) return binary->code();
  return Error{ErrorCode::kUnsupported, VK_SUCCESS,
               message("this build left the shader ", name,
                       " out: ", binary != nullptr ? binary->reason : "there is none of that name")};
}

}  // namespace vkattn::detail

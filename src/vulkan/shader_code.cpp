// A copy of a shader's words.
#include "vulkan/shader_code.hpp"

#include <utility>

#include "spirv/packed_shader.hpp"

namespace vkattn::detail {

Result<std::vector<std::uint32_t>> ShaderCode::words() const {
  if (gzip_.empty()) return std::vector<std::uint32_t>(words_.begin(), words_.end());
  auto words = unpacked_words(gzip_);
  if (words) return *std::move(words);
  return Error{ErrorCode::kIo, 0, "a shader of this build is damaged: the program's file has changed"};
}

}  // namespace vkattn::detail

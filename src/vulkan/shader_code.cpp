// Unpacking shaders.
#include "vulkan/shader_code.hpp"

#include <bit>

#include "vulkan/inflate.hpp"

namespace vkattn::detail {

namespace {

// Files have the lowest byte of a word first.
void to_host_order(std::span<std::uint32_t> words) {
  if constexpr (std::endian::native == std::endian::big) {
    for (std::uint32_t& word : words) {
      word = word << 24U | (word & 0xff00U) << 8U | (word >> 8U & 0xff00U) | word >> 24U;
    }
  }
}

}  // namespace

Result<std::vector<std::uint32_t>> ShaderCode::words() const {
  if (gzip_.empty()) return std::vector<std::uint32_t>(words_.begin(), words_.end());
  std::vector<std::uint32_t> words(unpacked_bytes(gzip_).value_or(0) / sizeof(std::uint32_t));
  const std::span<std::uint8_t> unpacked(reinterpret_cast<std::uint8_t*>(words.data()),
                                         words.size() * sizeof(std::uint32_t));
  if (!unpack(gzip_, unpacked)) {
    return Error{ErrorCode::kIo, 0, "a shader of this build is damaged: the program's file has changed"};
  }
  to_host_order(words);
  return words;
}

}  // namespace vkattn::detail

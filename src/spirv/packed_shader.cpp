// Unpacking shaders: see packed_shader.hpp.
#include "spirv/packed_shader.hpp"

#include <cstddef>

#include "spirv/inflate.hpp"
#include "spirv/spirv_deltas.hpp"

namespace vkattn::detail {

namespace {

// The lowest byte of the number that every module begins with (SPIR-V 1.6, section 2.3). No count of words
// is 3.
constexpr std::uint8_t kFirstByteOfWords = 0x03;

}  // namespace

std::optional<std::vector<std::uint32_t>> unpacked_words(std::span<const std::uint8_t> gzip) {
  const std::optional<std::size_t> size = unpacked_bytes(gzip);
  if (!size || *size == 0) return std::nullopt;
  std::vector<std::uint8_t> bytes(*size);
  if (!unpack(gzip, bytes)) return std::nullopt;
  if (bytes[0] == kFirstByteOfWords) return little_endian_words(bytes);
  return spirv_of_deltas(bytes);
}

}  // namespace vkattn::detail

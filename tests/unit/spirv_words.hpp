// Writes SPIR-V by hand, for tests of code that changes it.
#pragma once

#include <cstdint>
#include <vector>

namespace vkattn::tests {

using Words = std::vector<std::uint32_t>;

/// The first word of an instruction of `words` words, this one included.
constexpr std::uint32_t op(std::uint32_t code, std::uint32_t words) {
  return words << 16U | code;
}

inline Words joined(const std::vector<Words>& parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// A header, and then `rest`.
inline Words spirv_module(const Words& rest = {}) {
  Words words{0x07230203, 0x10300, 0, 99, 0};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

}  // namespace vkattn::tests

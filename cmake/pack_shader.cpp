// vkattn_pack_shader SPIRV OUTPUT: writes the differences between a module's words, which gzip packs into
// half as many bytes (src/spirv/spirv_deltas.hpp). Checks that the library can read the output.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "spirv/spirv_deltas.hpp"

namespace {

std::vector<std::uint32_t> words_of_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return vkattn::detail::little_endian_words(
      {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::fputs("usage: vkattn_pack_shader SPIRV OUTPUT\n", stderr), 2;
  const std::vector<std::uint32_t> words = words_of_file(arguments[1]);
  const auto deltas = vkattn::detail::spirv_deltas(words);
  if (!deltas || vkattn::detail::spirv_of_deltas(*deltas) != words) {
    std::fprintf(stderr, "vkattn_pack_shader: %s is no SPIR-V module of little-endian words\n", arguments[1]);
    return 1;
  }
  std::ofstream output(arguments[2], std::ios::binary);
  output.write(reinterpret_cast<const char*>(deltas->data()), static_cast<std::streamsize>(deltas->size()));
  if (output.flush()) return 0;
  std::fprintf(stderr, "vkattn_pack_shader: cannot write %s\n", arguments[2]);
  return 1;
}

// Packs a module's words as differences, and unpacks them. The build itself checks that each of its binaries
// is unpacked whole. The address sanitizer checks that nothing outside of the bytes is touched.
#include "spirv/packed_shader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "spirv/spirv_deltas.hpp"

namespace vkattn::detail {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Words = std::vector<std::uint32_t>;

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  [[nodiscard]] std::uint32_t below(std::uint32_t end) { return word() % end; }
  [[nodiscard]] std::uint32_t word() { return static_cast<std::uint32_t>(engine_()); }

 private:
  std::mt19937 engine_;
};

// Instructions of 1 to 9 words with new ids, ids close to earlier ones, and arbitrary other words.
Words module(Random random) {
  Words words{0x07230203, 0x00010300, 0, 500, 0};
  std::uint32_t greatest = 0;
  for (int i = 0; i < 200; ++i) {
    const std::uint32_t length = 1 + random.below(9);
    const std::uint32_t opcode = random.below(random.below(3) == 0 ? 65536 : 40);
    words.push_back(length << 16U | opcode);
    for (std::uint32_t k = 1; k < length; ++k) {
      const std::array<std::uint32_t, 4> any{greatest + 1, greatest - random.below(20), random.word(),
                                             0xffffffffU - random.below(2)};
      words.push_back(any[random.below(4)]);
      if (words.back() == greatest + 1) ++greatest;
    }
  }
  return words;
}

TEST(PackedShaderTest, WordsComeBackFromTheirDifferences) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    const Words words = module(Random(seed));
    const auto deltas = spirv_deltas(words);
    ASSERT_TRUE(deltas);
    EXPECT_EQ(spirv_of_deltas(*deltas), words);
  }
}

TEST(PackedShaderTest, OnlyWholeModulesArePacked) {
  Words words = module(Random(1));
  words.push_back(3U << 16U);  // longer than the rest of the module
  EXPECT_FALSE(spirv_deltas(words));
  words.back() = 0;  // no instruction has 0 words
  EXPECT_FALSE(spirv_deltas(words));
  EXPECT_FALSE(spirv_deltas(Words(4, 1)));
}

TEST(PackedShaderTest, BytesOfNoModuleAreRefused) {
  const Bytes whole = *spirv_deltas(module(Random(2)));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(spirv_of_deltas(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))))
        << size;
  Bytes longer = whole;
  longer.push_back(1);
  EXPECT_FALSE(spirv_of_deltas(longer));
  EXPECT_FALSE(spirv_of_deltas(Bytes(100, 0xff)));
}

// gzip's checksum finds damage. This test only checks that damaged bytes do not unpack to more words than
// they can hold.
TEST(PackedShaderTest, DamagedBytesMakeNoMoreWordsThanTheyAre) {
  const Bytes whole = *spirv_deltas(module(Random(3)));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    Bytes changed = whole;
    changed[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    EXPECT_LE(spirv_of_deltas(changed).value_or(Words{}).size(), changed.size()) << bit;
  }
}

// The five words, packed by gzip -n.
TEST(PackedShaderTest, WordsThatWerePackedAsTheyAreAreReadToo) {
  const Bytes gzip{0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x63,
                   0x66, 0x52, 0x66, 0x67, 0x60, 0x66, 0x64, 0x00, 0x81, 0x2f, 0x10,
                   0x8a, 0x01, 0x00, 0xa4, 0x53, 0xbe, 0x12, 0x14, 0x00, 0x00, 0x00};
  EXPECT_EQ(unpacked_words(gzip), (Words{0x07230203, 0x00010300, 0, 500, 0}));
}

}  // namespace
}  // namespace vkattn::detail

// Loops of the build's shaders, as CPU implementations are given them.
#include "vulkan/loops.hpp"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "vkattn_core_shaders.hpp"

namespace vkattn::detail {
namespace {

using LoopWords = std::vector<std::uint32_t>;

LoopWords loop_module(const LoopWords& rest) {
  LoopWords words{0x07230203, 0x10300, 0, 99, 0};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

TEST(Loops, StayLoopsWhateverElseIsSaidOfThem) {
  constexpr std::uint32_t kOpLoopMerge = 4U << 16U | 246U;
  constexpr std::uint32_t kWithALength = 5U << 16U | 246U;  // DependencyLength, 8
  LoopWords words = loop_module(
      {kOpLoopMerge, 1, 2, 0, kOpLoopMerge, 1, 2, 1, kOpLoopMerge, 1, 2, 2, kWithALength, 1, 2, 9, 4});
  keep_loops(words);
  EXPECT_EQ(words, loop_module({kOpLoopMerge, 1, 2, 2, kOpLoopMerge, 1, 2, 2, kOpLoopMerge, 1, 2, 2,
                                kWithALength, 1, 2, 10, 4}));
  for (const LoopWords& none :
       {LoopWords{}, LoopWords{1, 2}, loop_module({9U << 16U | 246U, 1, 2, 1}), loop_module({246U, 1, 2, 1}),
        loop_module({3U << 16U | 246U, 1, 2, 1U << 16U | 1U})}) {
    LoopWords same = none;
    keep_loops(same);
    EXPECT_EQ(same, none) << "no SPIR-V";
  }
}

TEST(Loops, ShadersWithMatricesAreKnown) {
  constexpr std::uint32_t kOpCapability = 2U << 16U | 17U;
  EXPECT_TRUE(has_matrices(loop_module({kOpCapability, 1, kOpCapability, 6022})));
  EXPECT_FALSE(has_matrices(loop_module({kOpCapability, 1, kOpCapability, 5345, 6022, 6022})));
  EXPECT_FALSE(has_matrices(loop_module({kOpCapability})));
  EXPECT_FALSE(has_matrices({}));
  for (const ShaderBinary& shader : shader_binaries()) {
    if (!shader.is_built()) continue;
    const auto words = shader.code().words();
    ASSERT_TRUE(words) << shader.name;
    EXPECT_EQ(has_matrices(*words), shader.name.find("matrix") != std::string_view::npos) << shader.name;
  }
}

}  // namespace
}  // namespace vkattn::detail

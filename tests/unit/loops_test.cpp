// Loops of the build's shaders, as CPU implementations get them.
#include "spirv/loops.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "unit/spirv_words.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn::detail {
namespace {

using tests::spirv_module, tests::Words;

TEST(Loops, StayLoopsWhateverElseIsSaidOfThem) {
  constexpr std::uint32_t kOpLoopMerge = 4U << 16U | 246U;
  constexpr std::uint32_t kWithALength = 5U << 16U | 246U;  // DependencyLength, 8
  Words words = spirv_module(
      {kOpLoopMerge, 1, 2, 0, kOpLoopMerge, 1, 2, 1, kOpLoopMerge, 1, 2, 2, kWithALength, 1, 2, 9, 4});
  keep_loops(words);
  EXPECT_EQ(words, spirv_module({kOpLoopMerge, 1, 2, 2, kOpLoopMerge, 1, 2, 2, kOpLoopMerge, 1, 2, 2,
                                 kWithALength, 1, 2, 10, 4}));
  for (const Words& none :
       {Words{}, Words{1, 2}, spirv_module({9U << 16U | 246U, 1, 2, 1}), spirv_module({246U, 1, 2, 1}),
        spirv_module({3U << 16U | 246U, 1, 2, 1U << 16U | 1U})}) {
    Words same = none;
    keep_loops(same);
    EXPECT_EQ(same, none) << "no SPIR-V";
  }
}

TEST(Loops, ShadersWithMatricesAreKnown) {
  constexpr std::uint32_t kOpCapability = 2U << 16U | 17U;
  EXPECT_TRUE(has_matrices(spirv_module({kOpCapability, 1, kOpCapability, 6022})));
  EXPECT_FALSE(has_matrices(spirv_module({kOpCapability, 1, kOpCapability, 5345, 6022, 6022})));
  EXPECT_FALSE(has_matrices(spirv_module({kOpCapability})));
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

// Execution modes in the build's shaders, as drivers get them.
#include "spirv/execution_modes.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "spirv/shared_accesses.hpp"
#include "support/must.hpp"
#include "unit/build.hpp"
#include "unit/spirv_words.hpp"
#include "unit/validator.hpp"
#include "vkattn_core_shaders.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {
namespace {

using tests::joined, tests::op, tests::Words;

constexpr ExecutionModes kAll{true, true, true};

const Words kHeader = tests::spirv_module();
const Words kShader{op(17, 2), 1};
const Words kShuffles{op(17, 2), 65};
const Words kFloat16{op(17, 2), 9};
const Words kModel{op(14, 3), 0, 1};
const Words kEntry{op(15, 5), 5, 4, 0x6e69616d, 0};  // "main"
const Words kSize{op(16, 6), 4, 17, 8, 1, 1};

Words declared(Words words, const ExecutionModes& modes) {
  declare_execution_modes(words, modes);
  return words;
}

TEST(ExecutionModesTest, EachStandsWhereItBelongs) {
  const Words before = joined({kHeader, kShader, kShuffles, kFloat16, kModel, kEntry, kSize});
  const Words after = declared(before, {.float16_to_nearest = true});
  const Words capability{op(17, 2), 4467}, mode{op(16, 4), 4, 4462, 16};
  const Words extension{op(10, 7), 0x5f565053, 0x5f52484b, 0x616f6c66, 0x6f635f74, 0x6f72746e, 0x736c};
  EXPECT_EQ(after, joined({kHeader, kShader, kShuffles, kFloat16, capability, extension, kModel, kEntry, mode,
                           kSize}));
  EXPECT_EQ(declared(before, {}), before);
}

TEST(ExecutionModesTest, ShadersWithoutUseForThemStayAsTheyAre) {
  const Words plain = joined({kHeader, kShader, kModel, kEntry, kSize});
  EXPECT_EQ(declared(plain, kAll), plain);
  const Words shuffles = joined({kHeader, kShader, kShuffles, kModel, kEntry, kSize});
  EXPECT_EQ(declared(shuffles, {.float16_to_nearest = true}), shuffles);
  EXPECT_NE(declared(shuffles, {.maximal_reconvergence = true}), shuffles);
  EXPECT_NE(declared(shuffles, {.subgroup_uniform_control_flow = true}), shuffles);
}

// Shaders with a user's functions may come from a damaged file.
TEST(ExecutionModesTest, WhatIsNoSpirvStaysAsItIs) {
  for (const Words& words : {Words{}, Words{1, 2, 3}, joined({kHeader, kShuffles, {op(15, 9), 5, 4}}),
                             joined({kHeader, kShuffles, {0, 5, 6}})}) {
    EXPECT_EQ(declared(words, kAll), words);
  }
}

TEST(ExecutionModesTest, MaximalReconvergenceIsAskedForAlone) {
  Capabilities c;
  EXPECT_EQ(offered_modes(c), ExecutionModes{});
  c.subgroup_uniform_control_flow = c.rounds_float16_to_nearest = true;
  EXPECT_EQ(offered_modes(c), (ExecutionModes{false, true, true}));
  c.maximal_reconvergence = true;
  EXPECT_EQ(offered_modes(c), (ExecutionModes{true, false, true}));
}

/// Whether this version of spirv-val knows the modes. Older versions do not know all of them.
bool knows(const tests::Validator& validator, const ExecutionModes& modes) {
  const Words vote{op(17, 2), 62};
  const Words function{op(19, 2), 1, op(33, 3), 2,          1, op(54, 5),  1,
                       4,         0, 2,         op(248, 2), 3, op(253, 1), op(56, 1)};
  const Words shader = joined({kHeader, kShader, vote, kFloat16, kModel, kEntry, kSize, function});
  EXPECT_TRUE(validator.accepts(shader));
  return validator.accepts(declared(shader, modes));
}

TEST(ExecutionModesTest, ShadersOfTheBuildStayValid) {
  if (std::string(tests::build::kSpirvVal).empty()) GTEST_SKIP() << "the build has no spirv-val";
  const tests::Validator validator;
  std::size_t changed = 0;
  for (const ExecutionModes& modes :
       {kAll, ExecutionModes{.maximal_reconvergence = true, .float16_to_nearest = true},
        ExecutionModes{.subgroup_uniform_control_flow = true, .float16_to_nearest = true}}) {
    if (!knows(validator, modes)) continue;
    for (const ShaderBinary& shader : shader_binaries()) {
      if (!shader.is_built()) continue;
      SCOPED_TRACE(shader.name);
      const auto words = tests::must(shader.code().words());
      Words after = declared(words, modes);
      if (after == words) continue;
      ++changed;
      leave_shared_memory_to_barriers(after);
      EXPECT_TRUE(validator.accepts(after));
    }
  }
  EXPECT_GT(changed, 4U);
}

}  // namespace
}  // namespace vkattn::detail

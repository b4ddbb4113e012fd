// Accesses of shared memory in the build's shaders, as drivers get them.
#include "spirv/shared_accesses.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "spirv/spirv.hpp"
#include "support/must.hpp"
#include "unit/spirv_words.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn::detail {
namespace {

using tests::joined, tests::op, tests::Words;

constexpr std::uint32_t kOpMemoryModel = 14;
constexpr std::uint32_t kOpConstant = 43;
constexpr std::uint32_t kOpControlBarrier = 224;
constexpr std::uint32_t kVulkanModel = 3;
// The semantics of a barrier: acquire and release, for workgroup memory, making it available and visible.
constexpr std::uint32_t kSharedBarrier = 0x8 | 0x100 | 0x2000 | 0x4000;

// Types 1 (a pointer to shared memory) and 2 (a pointer to a buffer), a variable of each, and then `rest`.
Words module(const std::vector<Words>& rest) {
  return joined({tests::spirv_module(),
                 {op(32, 4), 1, 4, 9},
                 {op(32, 4), 2, 12, 9},
                 {op(59, 4), 1, 11, 4},
                 {op(59, 4), 2, 12, 12},
                 joined(rest)});
}

TEST(SharedAccessesTest, OnlyWhatBarriersDoIsTakenAway) {
  Words words = module({
      {op(65, 5), 1, 13, 11, 8},                // an element of the shared variable
      {op(61, 6), 9, 14, 13, 0x30, 7},          // load: visible, not private
      {op(62, 6), 13, 14, 0x2a, 16, 7},         // store: aligned by 16, available, not private
      {op(4457, 8), 9, 15, 11, 0, 6, 0x30, 7},  // matrix load: visible, not private
      {op(4458, 7), 11, 15, 0, 6, 0x28, 7},
      {op(61, 4), 9, 16, 11},           // no operands
      {op(61, 6), 9, 17, 12, 0x30, 7},  // not shared memory
  });
  leave_shared_memory_to_barriers(words);
  EXPECT_EQ(words, module({
                       {op(65, 5), 1, 13, 11, 8},
                       {op(61, 5), 9, 14, 13, 0x20},
                       {op(62, 5), 13, 14, 0x22, 16},
                       {op(4457, 7), 9, 15, 11, 0, 6, 0x20},
                       {op(4458, 6), 11, 15, 0, 6, 0x20},
                       {op(61, 4), 9, 16, 11},
                       {op(61, 6), 9, 17, 12, 0x30, 7},
                   }));
}

// Shaders with a user's functions may come from a damaged file.
TEST(SharedAccessesTest, WhatIsNoSpirvStaysAsItIs) {
  const Words cases[] = {{},
                         {1, 2, 3},
                         module({{op(61, 6), 9, 14, 11}}),      // longer than the file
                         module({{op(62, 4), 11, 14, 0x18}})};  // its scopes are missing
  for (const Words& words : cases) {
    Words changed = words;
    leave_shared_memory_to_barriers(changed);
    EXPECT_EQ(changed, words);
  }
  Words words = module({{op(62, 5), 11, 14, 0x28, 7}, {0, 5, 6}});
  leave_shared_memory_to_barriers(words);
  EXPECT_EQ(words, module({{op(62, 4), 11, 14, 0x20}, {0, 5, 6}}));
}

// Instructions fill each shader to its end. If accesses do not make shared memory available and visible, each
// barrier of the shader does.
TEST(SharedAccessesTest, BarriersOfTheBuildDoWhatAccessesDoNot) {
  std::size_t shaders = 0;
  for (const ShaderBinary& shader : shader_binaries()) {
    if (!shader.is_built()) continue;
    SCOPED_TRACE(shader.name);
    auto words = tests::must(shader.code().words());
    EXPECT_EQ(words.front(), tests::spirv_module().front());
    const Words before = words;
    leave_shared_memory_to_barriers(words);
    const bool is_changed = words != before;
    shaders += is_changed ? 1 : 0;
    bool is_vulkan_model = false;
    std::map<std::uint32_t, std::uint32_t> constants;
    std::size_t end = 0;
    for (const auto& instruction : instructions_of(words)) {
      end = instruction.end();
      const auto operands = instruction.words;
      if (instruction.opcode() == kOpMemoryModel) is_vulkan_model = operands[2] == kVulkanModel;
      if (instruction.opcode() == kOpConstant && operands.size() == 4) constants[operands[2]] = operands[3];
      if (!is_changed || instruction.opcode() != kOpControlBarrier) continue;
      EXPECT_EQ(constants[operands[3]] & kSharedBarrier, kSharedBarrier);
    }
    EXPECT_EQ(end, words.size());
    EXPECT_TRUE(!is_changed || is_vulkan_model);
  }
  // glslang before 14 cannot compile kernels on matrix units.
  const ShaderBinary* const matrix = find_shader(shader_binaries(), "attention_matrix");
  ASSERT_NE(matrix, nullptr);
  if (!matrix->is_built()) GTEST_SKIP() << "the build has no kernel on matrix units";
  EXPECT_GT(shaders, 0U);
}

}  // namespace
}  // namespace vkattn::detail

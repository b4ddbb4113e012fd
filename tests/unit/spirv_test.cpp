// Walks over SPIR-V's instructions, in the build's shaders and in bytes that are not SPIR-V, because shaders
// with a user's functions may come from a file.
#include "spirv/spirv.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "program/program.hpp"
#include "spirv/execution_modes.hpp"
#include "spirv/live_code.hpp"
#include "spirv/loops.hpp"
#include "spirv/shared_accesses.hpp"
#include "support/must.hpp"
#include "unit/spirv_words.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn::detail {
namespace {

using tests::spirv_module, tests::Words;

/// The lengths of the instructions of a walk. Each instruction begins where the one before ends.
std::vector<std::size_t> lengths_of(const Words& words) {
  std::vector<std::size_t> lengths;
  std::size_t end = kSpirvHeaderWords;
  for (const auto& instruction : instructions_of(words)) {
    EXPECT_EQ(instruction.begin, end);
    EXPECT_EQ(instruction.words.data(), words.data() + end);
    EXPECT_EQ(instruction.words[0] & 0xffffU, instruction.opcode());
    end = instruction.end();
    EXPECT_LE(end, words.size());
    lengths.push_back(instruction.words.size());
  }
  return lengths;
}

TEST(Spirv, InstructionsEndBeforeWordsThatAreNone) {
  using Lengths = std::vector<std::size_t>;
  EXPECT_EQ(lengths_of({}), Lengths{});
  EXPECT_EQ(lengths_of({1U << 16U, 1U << 16U}), Lengths{}) << "shorter than a header";
  EXPECT_EQ(lengths_of(spirv_module({})), Lengths{});
  EXPECT_EQ(lengths_of(spirv_module({2U << 16U | 17U, 1, 1U << 16U | 253U})), (Lengths{2, 1}));
  EXPECT_EQ(lengths_of(spirv_module({1U << 16U, 0, 1U << 16U})), Lengths{1}) << "of no words";
  EXPECT_EQ(lengths_of(spirv_module({1U << 16U, 3U << 16U, 7})), Lengths{1}) << "longer than the module";
  EXPECT_EQ(lengths_of(spirv_module({0xffffU << 16U, 7})), Lengths{});
}

TEST(Spirv, AnInstructionMayBecomeShorterWhileItIsGoneThrough) {
  Words words = spirv_module({3U << 16U | 1U, 1U << 16U | 8U, 0, 1U << 16U | 2U});
  std::vector<std::uint32_t> opcodes;
  for (const auto& instruction : instructions_of(std::span(words))) {
    opcodes.push_back(instruction.opcode());
    instruction.words[0] = 1U << 16U | instruction.opcode();
  }
  EXPECT_EQ(opcodes, (std::vector<std::uint32_t>{1, 2}));
}

/// Every change of a module on its way to a driver. Sanitizers see accesses beyond its end.
void prepare(Words words) {
  const std::size_t size = words.size();
  (void)has_matrices(words);
  keep_loops(words);
  ProgramDesc program;
  program.layout().binding_count = 2;
  program.sets.resize(1);
  program.sets.front().bindings.resize(2);
  program.sets.front().bindings[1].from = ProgramBinding::From::kTensor;
  Slots(program).renumber(words);
  EXPECT_EQ(words.size(), size);
  leave_shared_memory_to_barriers(words);
  EXPECT_LE(words.size(), size);
  declare_execution_modes(words, {true, true, true});
  EXPECT_LE(live_code(words, std::vector<SpecializationValue>{{1, 0}, {4, 1}}).size(), words.size());
}

TEST(Spirv, TornModulesStayWithinTheirWords) {
  const ShaderBinary* const shader = find_shader(shader_binaries(), "attention_tile");
  ASSERT_NE(shader, nullptr);
  const Words whole = tests::must(shader->code().words());
  std::mt19937 random(2411);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
  for (int i = 0; i < 300; ++i) {
    // Half of them are complete and have only wrong words. The others are also cut off.
    const std::size_t size = i % 2 == 0 ? whole.size() : below(whole.size() + 1);
    Words torn(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    for (std::size_t faults = below(4); faults > 0 && !torn.empty(); --faults) {
      std::uint32_t& word = torn[below(torn.size())];
      // Changes a word: a wrong length, a wrong opcode, or any number.
      const auto any = static_cast<std::uint32_t>(random());
      const std::uint32_t changed[] = {word & 0xffffU, (word & 0xffffU) | (any & 7U) << 16U,
                                       (word & 0xffff0000U) | (any & 127U), any};
      word = changed[below(4)];
    }
    torn.shrink_to_fit();
    prepare(torn);
  }
}

}  // namespace
}  // namespace vkattn::detail

// Walks over SPIR-V's instructions, in the build's shaders and in bytes that are not SPIR-V, because shaders
// with a user's functions may come from a file.
#include "spirv/spirv.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "program/program.hpp"
#include "spirv/execution_modes.hpp"
#include "spirv/live_code.hpp"
#include "spirv/loops.hpp"
#include "spirv/shared_accesses.hpp"
#include "spirv/spirv_ops.hpp"
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

constexpr std::uint32_t kConstantComposite = 44;
constexpr std::uint32_t kMatrixMulAdd = 4459;  // result type, result, A, B, C

/// Of D = A x B + C: the operands C that are used once more, come from another block, or are constants. A
/// literal that equals C's number counts as a use.
std::vector<std::uint32_t> sums_read_again(const Words& words) {
  constexpr std::uint32_t kFirstConstant = spirv_op::kConstantTrue;
  std::set<std::uint32_t> constants;
  std::vector<std::uint32_t> found;
  std::map<std::uint32_t, std::uint32_t> blocks, reads;  // of a result: its block, and how often it is named
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sums;  // and the block of the product
  std::uint32_t block = 0;  // 0 before the first function, where literals may look like results
  for (const auto& each : instructions_of(words)) {
    const auto instruction = each.words;
    const std::uint32_t code = each.opcode();
    if (code == spirv_op::kLabel && instruction.size() == 2) block = instruction[1];
    if (block == 0) {
      if (code >= kFirstConstant && code <= spirv_op::kSpecConstantOp) constants.insert(instruction[2]);
      continue;
    }
    for (const std::uint32_t word : instruction.subspan(1)) {
      blocks.try_emplace(word, block);
      ++reads[word];
    }
    if (code == kMatrixMulAdd && instruction.size() > 5) sums.emplace_back(instruction[5], block);
  }
  for (const auto& [sum, place] : sums) {
    if (reads[sum] != 2 || blocks[sum] != place || constants.contains(sum)) found.push_back(sum);
  }
  return found;
}

TEST(Spirv, SumsThatAreReadAgainAreFound) {
  using tests::op;
  const Words label{op(spirv_op::kLabel, 2), 20}, next{op(spirv_op::kLabel, 2), 21};
  const Words load{op(spirv_op::kLoad, 4), 1, 30, 10}, again{op(spirv_op::kLoad, 4), 1, 31, 10};
  const auto product = [](std::uint32_t result, std::uint32_t sum) {
    return Words{tests::op(kMatrixMulAdd, 6), 1, result, 40, 41, sum};
  };
  const auto found = [](const std::vector<Words>& parts) {
    return sums_read_again(spirv_module(tests::joined(parts)));
  };
  EXPECT_EQ(found({label, load, product(50, 30), again, product(51, 31)}), Words{});
  EXPECT_EQ(found({label, load, product(50, 30), product(51, 50), product(52, 51)}), Words{});
  EXPECT_EQ(found({label, load, product(50, 30), product(51, 30)}), (Words{30, 30}));
  EXPECT_EQ(found({label, load, product(50, 30), {op(spirv_op::kStore, 3), 11, 30}}), Words{30});
  EXPECT_EQ(found({label, load, next, product(50, 30)}), Words{30}) << "a loop may come here again";
  const Words zeros{op(kConstantComposite, 4), 1, 30, 9};
  EXPECT_EQ(found({zeros, label, product(50, 30)}), Words{30});
  EXPECT_EQ(found({zeros, label, {op(spirv_op::kStore, 3), 11, 30}, product(50, 30)}), Words{30});
}

/// Mesa stores parts of a product of matrices that its device does not have to where it keeps C: to whatever
/// else is read from there, it gives a wrong number (docs/trials/lavapipe.md).
TEST(Spirv, SumsOfTheBuildAreReadByOneProduct) {
  for (const ShaderBinary& shader : shader_binaries()) {
    if (!shader.is_built()) continue;
    EXPECT_EQ(sums_read_again(tests::must(shader.code().words())), Words{}) << shader.name;
  }
}

}  // namespace
}  // namespace vkattn::detail

// Removes code that specialization switches off: modules written by hand, and those of the build.
#include "spirv/live_code.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "spirv/spirv.hpp"
#include "spirv/spirv_ops.hpp"
#include "support/must.hpp"
#include "unit/build.hpp"
#include "unit/spirv_words.hpp"
#include "unit/validator.hpp"
#include "vkattn_core_shaders.hpp"

namespace vkattn::detail {
namespace {

using tests::joined, tests::op, tests::Words;
using namespace spirv_op;

// The ids of the modules below. Blocks have ids from 20 on, values from 40 on.
enum Id : std::uint32_t {
  kMain = 1,
  kVoid,
  kFunctionType,
  kBool,
  kInt,
  kFlag,    // false, specialization constant 3
  kNumber,  // 5, specialization constant 4
  kFive,
  kIsFive,  // kNumber == kFive
  kTrue,
  kRun,  // a boolean with an unknown value
  kHelper,
};

constexpr std::uint32_t kBound = 50;
constexpr std::uint32_t kReturn = 253, kFunctionCall = 57;

/// The instructions before the functions. The products with ids in `decorated` are not contracted.
Words preamble(const std::vector<std::uint32_t>& decorated = {}) {
  std::vector<Words> parts{tests::spirv_module(),
                           {op(kCapability, 2), 1},
                           {op(14, 3), 0, 1},
                           {op(kEntryPoint, 5), 5, kMain, 0x6e69616d, 0},
                           {op(kExecutionMode, 6), kMain, 17, 1, 1, 1},
                           {op(kDecorate, 4), kFlag, 1, 3},
                           {op(kDecorate, 4), kNumber, 1, 4}};
  for (const std::uint32_t id : decorated) parts.push_back({op(kDecorate, 3), id, 42});
  parts.insert(parts.end(), {{op(kTypeVoid, 2), kVoid},
                             {op(33, 3), kFunctionType, kVoid},
                             {op(kTypeBool, 2), kBool},
                             {op(kTypeInt, 4), kInt, 32, 0},
                             {op(kSpecConstantFalse, 3), kBool, kFlag},
                             {op(kSpecConstant, 4), kInt, kNumber, 5},
                             {op(kConstant, 4), kInt, kFive, 5},
                             {op(kSpecConstantOp, 6), kBool, kIsFive, kIEqual, kNumber, kFive},
                             {op(kConstantTrue, 3), kBool, kTrue},
                             {op(kUndef, 3), kBool, kRun}});
  Words words = joined(parts);
  words[3] = kBound;
  return words;
}

/// A function of these blocks.
Words function(std::uint32_t id, const std::vector<Words>& blocks) {
  return joined({{op(kFunction, 5), kVoid, id, 0, kFunctionType}, joined(blocks), {op(kFunctionEnd, 1)}});
}
/// A module whose only function is of these blocks.
Words main_of(const std::vector<Words>& blocks) {
  return joined({preamble(), function(kMain, blocks)});
}

Words label(std::uint32_t id) {
  return {op(kLabel, 2), id};
}
Words go(std::uint32_t to) {
  return {op(kBranch, 2), to};
}
Words branch(std::uint32_t condition, std::uint32_t yes, std::uint32_t no) {
  return {op(kBranchConditional, 4), condition, yes, no};
}
Words selection(std::uint32_t end) {
  return {op(kSelectionMerge, 3), end, 0};
}
Words loop(std::uint32_t end, std::uint32_t next) {
  return {op(kLoopMerge, 4), end, next, 0};
}
/// A switch by kNumber: the default block, and then the number and the block of each case.
Words switch_to(const Words& blocks) {
  return joined({{op(kSwitch, static_cast<std::uint32_t>(2 + blocks.size())), kNumber}, blocks});
}
/// The value 41, chosen by the block that control comes from.
Words phi(const Words& ways) {
  return joined({{op(kPhi, static_cast<std::uint32_t>(3 + ways.size())), kBool, 41}, ways});
}
const Words kEnd{op(kReturn, 1)};

/// Checks the result, and its validity if the build has spirv-val.
void expect_code(const Words& before, const std::vector<SpecializationValue>& values, const Words& expected) {
  EXPECT_EQ(live_code(before, values), expected);
  if (std::string(tests::build::kSpirvVal).empty()) return;
  const tests::Validator validator;
  EXPECT_TRUE(validator.accepts(before));
  EXPECT_TRUE(validator.accepts(expected));
}

TEST(LiveCode, ABranchThatIsOffGoesWithItsFunctionsAndTheirDecorations) {
  const Words call{op(kFunctionCall, 4), kVoid, 40, kHelper};
  const Words product{op(kIMul, 5), kInt, 41, kNumber, kFive};
  const Words helper = function(kHelper, {label(23), product, kEnd});
  const auto main = [&](const std::vector<Words>& way) {
    return function(kMain, {label(20), joined(way), label(22), kEnd});
  };
  const Words before =
      joined({preamble({41}), main({selection(22), branch(kFlag, 21, 22), label(21), call, go(22)}), helper});
  expect_code(before, {}, joined({preamble(), main({go(22)})}));
  expect_code(before, {{3, 0}}, joined({preamble(), main({go(22)})}));
  expect_code(before, {{3, 1}}, joined({preamble({41}), main({go(21), label(21), call, go(22)}), helper}));
}

TEST(LiveCode, OperationsOfConstantsDecide) {
  const Words before =
      main_of({label(20), selection(22), branch(kIsFive, 21, 22), label(21), go(22), label(22), kEnd});
  expect_code(before, {}, main_of({label(20), go(21), label(21), go(22), label(22), kEnd}));
  expect_code(before, {{4, 6}}, main_of({label(20), go(22), label(22), kEnd}));
}

// kFlag && kRun, as compilers write it.
TEST(LiveCode, APhiIsKnownByTheWaysThatAreLeft) {
  const auto main = [&](const std::vector<Words>& way) {
    return main_of({label(20), joined(way), label(24), kEnd});
  };
  const Words copy{op(kLogicalAnd, 5), kBool, 40, kRun, kTrue};
  const Words before = main({selection(22), branch(kFlag, 21, 22), label(21), copy, go(22), label(22),
                             phi({kFlag, 20, 40, 21}), selection(24), branch(41, 23, 24), label(23), go(24)});
  expect_code(before, {}, main({go(22), label(22), phi({kFlag, 20}), go(24)}));
  expect_code(before, {{3, 1}},
              main({go(21), label(21), copy, go(22), label(22), phi({40, 21}), selection(24),
                    branch(41, 23, 24), label(23), go(24)}));
}

TEST(LiveCode, ASwitchKeepsOneCase) {
  const auto main = [&](const std::vector<Words>& way) {
    return main_of({label(20), selection(24), joined(way), label(24), kEnd});
  };
  const Words before =
      main({switch_to({21, 5, 22, 7, 23}), label(21), go(24), label(22), go(24), label(23), go(24)});
  const auto left = [&](std::uint32_t which) { return main({switch_to({which}), label(which), go(24)}); };
  expect_code(before, {}, left(22));
  expect_code(before, {{4, 7}}, left(23));
  expect_code(before, {{4, 8}}, left(21));
}

// A loop that returns in its first iteration must still name its continue and merge blocks.
TEST(LiveCode, EndsOfStructuresStay) {
  const auto main = [&](const std::vector<Words>& body, const Words& end) {
    return main_of({label(20), go(21), label(21), loop(24, 23), go(22), label(22), joined(body), label(23),
                    go(21), label(24), end});
  };
  const Words before = main({selection(26), branch(kTrue, 25, 26), label(25), kEnd, label(26), selection(28),
                             branch(kRun, 27, 28), label(27), go(24), label(28), go(23)},
                            kEnd);
  expect_code(before, {}, main({go(25), label(25), kEnd}, {op(kUnreachable, 1)}));
}

/// Checks that no code of a valid function is removed.
void expect_stays(const std::vector<Words>& blocks) {
  expect_code(main_of(blocks), {}, main_of(blocks));
}

// A conditional branch to the end of a selection or switch, or to the next case, is valid only inside of that
// structure.
TEST(LiveCode, AStructureThatIsLeftFromWithinStays) {
  expect_stays({label(20), selection(24), branch(kTrue, 21, 24), label(21), branch(kRun, 22, 24), label(22),
                go(24), label(24), kEnd});
  expect_stays({label(20), selection(24), switch_to({24, 5, 21, 6, 22}), label(21), branch(kRun, 23, 22),
                label(23), go(24), label(22), go(24), label(24), kEnd});
}

// The code after a loop's body never goes back to its beginning, because the end of an inner loop is not
// reached.
TEST(LiveCode, ALoopThatGoesOnFromNowhereStays) {
  expect_stays({label(20),    go(21),    label(21), loop(24, 23),  branch(kRun, 22, 24),
                label(22),    go(23),    label(23), go(25),        label(25),
                loop(28, 27), go(26),    label(26), selection(30), branch(kFlag, 29, 30),
                label(29),    go(28),    label(30), go(27),        label(27),
                go(25),       label(28), go(21),    label(24),     kEnd});
}

// A phi of different values, a phi of a loop's back edge, and a selection in a loop that continues.
TEST(LiveCode, APhiOfSeveralValuesIsUnknown) {
  expect_stays({label(20), selection(23), branch(kRun, 21, 22), label(21), go(23), label(22), go(23),
                label(23), phi({kFlag, 21, kTrue, 22}), selection(25), branch(41, 24, 25), label(24), go(25),
                label(25), kEnd});
  expect_stays({label(20), go(21), label(21), phi({kTrue, 20, kFlag, 23}), loop(24, 23), go(22), label(22),
                selection(26), branch(41, 25, 26), label(25), go(24), label(26), go(23), label(23), go(21),
                label(24), kEnd});
}

TEST(LiveCode, WhatIsOfAnotherFormStays) {
  const auto main = [](const Words& more) {
    return main_of(
        {label(20), selection(22), branch(kFlag, 21, 22), more, label(21), go(22), label(22), kEnd});
  };
  const Words before = main({});
  ASSERT_LT(live_code(before, {}).size(), before.size());
  const auto changed = [&](std::size_t place, std::uint32_t word) {
    Words words = before;
    words[place] = word;
    return words;
  };
  // A switch over a 64-bit integer, whose case numbers take two words.
  const Words wide_types = joined({{op(kTypeInt, 4), 42, 64, 0}, {op(kUndef, 3), 42, 43}});
  const Words wide_switch{op(kSwitch, 6), 43, 24, 0, 24, 21};
  const Words wide =
      function(kMain, {label(20), selection(24), wide_switch, label(21), selection(23), branch(kFlag, 22, 23),
                       label(22), go(23), label(23), go(24), label(24), kEnd});
  for (const Words& words :
       {Words{}, Words{1, 2, 3}, Words(before.begin(), before.end() - 1),
        changed(3, 1000000),                         // more ids than words
        changed(before.size() - 1, op(kReturn, 1)),  // a function without an end
        joined({before, {op(kExtInst, 5), kVoid, 60, 61, 1}}), changed(0, op(kBranch, 2)),
        main({op(kNoLine, 1)}),  // line numbers of a source
        main(kEnd),              // instructions after the last one of a block
        main(label(23)),         // a block without instructions
        joined({preamble(), wide_types, wide}),
        joined({before, {op(kFunction, 5), kVoid, kHelper, 0, kFunctionType, op(kFunctionEnd, 1)}}),
        // A selection that leads to a block from two ways, one of which is not reached before it.
        main_of({label(20), selection(22), branch(kFlag, 21, 23), label(22), kEnd, label(21), go(22),
                 label(23), go(22)})}) {
    EXPECT_EQ(live_code(words, {}), words);
  }
}

/// A value for each specialization constant. Most values switch something off.
std::vector<SpecializationValue> any_values(const Words& words, std::mt19937& random) {
  std::vector<SpecializationValue> values;
  for (const auto& instruction : instructions_of(words)) {
    const auto decoration = instruction.words;
    if (instruction.opcode() != kDecorate || decoration.size() != 4 || decoration[2] != 1) continue;
    const std::uint32_t one_of[] = {0, 0, 1, 1, 2, 3, 16, 64};
    values.push_back({decoration[3], one_of[random() % std::size(one_of)]});
  }
  return values;
}

TEST(LiveCode, ShadersOfTheBuildStayValidAndGetSmaller) {
  std::mt19937 random(2711);
  const tests::Validator validator;
  std::size_t before = 0, after = 0, with_constants = 0, left_alone = 0;
  for (const ShaderBinary& shader : shader_binaries()) {
    if (!shader.is_built()) continue;
    SCOPED_TRACE(shader.name);
    const Words words = tests::must(shader.code().words());
    for (int i = 0; i < 8; ++i) {
      const auto values = any_values(words, random);
      const Words live = live_code(words, values);
      EXPECT_EQ(live_code(live, values), live);
      before += words.size();
      after += live.size();
      with_constants += !values.empty();
      left_alone += !values.empty() && live.size() == words.size();
      if (i > 0 || std::string(tests::build::kSpirvVal).empty()) continue;
      EXPECT_TRUE(validator.accepts(live));
    }
  }
  EXPECT_LT(after * 5, before * 4) << after << " of " << before << " words";
  EXPECT_LT(left_alone * 10, with_constants) << left_alone << " of " << with_constants;
}

}  // namespace
}  // namespace vkattn::detail

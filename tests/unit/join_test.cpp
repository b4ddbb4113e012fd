// Joins programs into one: the tensors, sets, passes and steps of each.
#include "program/join.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace vkattn::detail {
namespace {

using From = ProgramBinding::From;
using In = JoinedTensor::In;

constexpr VkAccessFlags kReadAndWrite = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;

/// Two passes over one set. Tensor 0 is read, tensor 1 is written, and a word of the workspace lies between
/// them.
ProgramDesc two_passes(std::uint32_t push_constant_bytes) {
  ProgramDesc program;
  program.layout().binding_count = 3;
  program.layout().push_constant_bytes = push_constant_bytes;
  program.tensors.resize(2);
  program.tensors[0].name = "input tensor";
  program.tensors[0].bytes = 64;
  program.tensors[1].name = "output tensor";
  program.tensors[1].bytes = 32;
  program.tensors[1].alignment_bytes = 16;
  program.tensors[1].written = true;
  program.tensors[1].in_place_of = 0;
  ProgramSet set;
  set.bindings.resize(3);
  for (std::uint32_t i = 0; i < 2; ++i) {
    set.bindings[i].from = From::kTensor;
    set.bindings[i].index = i;
    set.bindings[i].first_byte = 8;
  }
  set.bindings[2].from = From::kWorkspace;
  set.bindings[2].workspace_byte = 256;
  program.sets = {set};
  program.passes.resize(2);
  program.passes[1].barrier = PassBarrier{VK_ACCESS_SHADER_WRITE_BIT, VK_ACCESS_SHADER_READ_BIT};
  program.steps = {{0, 0, 0, 1, 1, 1, 0}, {1, 0, 0, 1, 1, 1, 0}};
  program.workspace_bytes = 512;
  return program;
}

ProgramDesc empty_whole(std::size_t tensors) {
  ProgramDesc whole;
  whole.layouts.clear();
  whole.tensors.resize(tensors);
  return whole;
}

TEST(JoinTest, TensorsGetWhatThePartsAsk) {
  ProgramDesc whole = empty_whole(3);
  const ProgramDesc part = two_passes(4);
  const std::array<JoinedTensor, 2> first{{{In::kTensor, 0, 0}, {In::kTensor, 2, 128}}};
  EXPECT_EQ(join({part, first}, whole), 0U);
  EXPECT_EQ(whole.tensors[0].name, "input tensor");
  EXPECT_EQ(whole.tensors[0].bytes, 64U);
  EXPECT_FALSE(whole.tensors[0].written);
  EXPECT_EQ(whole.tensors[1].bytes, 0U) << "nobody has a use for it";
  EXPECT_EQ(whole.tensors[2].bytes, 160U);
  EXPECT_EQ(whole.tensors[2].alignment_bytes, 16U);
  EXPECT_TRUE(whole.tensors[2].written);
  EXPECT_EQ(whole.tensors[2].in_place_of, 0U);
  // In place within one tensor, which is then a written tensor.
  const std::array<JoinedTensor, 2> second{{{In::kTensor, 0, 0}, {In::kTensor, 0, 0}}};
  EXPECT_EQ(join({part, second}, whole), 2U);
  EXPECT_TRUE(whole.tensors[0].written);
  EXPECT_FALSE(whole.tensors[0].in_place_of);
}

TEST(JoinTest, SetsReferToTheTensorsOfTheWhole) {
  ProgramDesc whole = empty_whole(1);
  const ProgramDesc part = two_passes(4);
  constexpr std::array kNumbers{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const std::array<JoinedTensor, 2> tensors{{{In::kTensor, 0, 32}, {In::kWorkspace, 0, 1024}}};
  const std::array<JoinedTensor, 2> with_numbers{{{In::kNumbers, 0, 0}, {In::kTensor, 0, 0}}};
  (void)join({part, tensors, 4096}, whole);
  (void)join({part, with_numbers, 0, false, kNumbers, 768}, whole);
  ASSERT_EQ(whole.sets.size(), 2U);
  const auto& bindings = whole.sets[0].bindings;
  EXPECT_EQ(bindings[0].from, From::kTensor);
  EXPECT_EQ(bindings[0].first_byte, 40U);
  EXPECT_EQ(bindings[1].from, From::kInWorkspace);
  EXPECT_EQ(bindings[1].first_byte, 1032U);
  EXPECT_EQ(bindings[2].workspace_byte, 4352U);
  EXPECT_EQ(whole.sets[1].bindings[0].from, From::kParameters);
  EXPECT_TRUE(std::equal(kNumbers.begin(), kNumbers.end(), whole.sets[1].parameters.begin(),
                         whole.sets[1].parameters.end()));
  EXPECT_EQ(whole.sets[1].parameters_byte, 768U);
}

TEST(JoinTest, StepsAndLayoutsAreCountedOn) {
  ProgramDesc whole = empty_whole(2);
  const std::array<JoinedTensor, 2> tensors{{{In::kTensor, 0, 0}, {In::kTensor, 1, 0}}};
  (void)join({two_passes(4), tensors}, whole);
  (void)join({two_passes(8), tensors}, whole);
  (void)join({two_passes(4), tensors}, whole);
  EXPECT_EQ(whole.layouts.size(), 2U) << "the third part has that of the first";
  ASSERT_EQ(whole.steps.size(), 6U);
  EXPECT_EQ(whole.steps[5].pass, 5U);
  EXPECT_EQ(whole.steps[5].set, 2U);
  EXPECT_EQ(whole.passes[3].layout, 1U);
  EXPECT_EQ(whole.sets[1].layout, 1U);
  EXPECT_EQ(whole.passes[4].layout, 0U);
}

TEST(JoinTest, APartThatWaitsBeginsWithABarrier) {
  ProgramDesc whole = empty_whole(2);
  const std::array<JoinedTensor, 2> tensors{{{In::kTensor, 0, 0}, {In::kTensor, 1, 0}}};
  ProgramDesc part = two_passes(4);
  part.passes[0].barrier =
      part.passes[1].barrier;  // such a barrier would be useless before a program's first pass
  (void)join({part, tensors}, whole);
  (void)join({part, tensors, 0, true}, whole);
  EXPECT_FALSE(whole.passes[0].barrier);
  ASSERT_TRUE(whole.passes[1].barrier);
  EXPECT_EQ(whole.passes[1].barrier->to, VkAccessFlags{VK_ACCESS_SHADER_READ_BIT});
  for (const std::size_t pass : {2U, 3U}) {
    ASSERT_TRUE(whole.passes[pass].barrier) << pass;
    EXPECT_EQ(whole.passes[pass].barrier->to, kReadAndWrite)
        << pass << ": it waits where those before it are left out";
  }
}

// The first pass is skipped, for example by an append without keys.
TEST(JoinTest, TheFirstPassWithStepsWaits) {
  ProgramDesc whole = empty_whole(2);
  const std::array<JoinedTensor, 2> tensors{{{In::kTensor, 0, 0}, {In::kTensor, 1, 0}}};
  ProgramDesc part = two_passes(4);
  part.steps.erase(part.steps.begin());
  (void)join({part, tensors, 0, true}, whole);
  EXPECT_FALSE(whole.passes[0].barrier);
  ASSERT_TRUE(whole.passes[1].barrier);
  EXPECT_EQ(whole.passes[1].barrier->to, kReadAndWrite);
}

TEST(JoinTest, APartWithoutStepsAddsNone) {
  ProgramDesc whole = empty_whole(2);
  ProgramDesc part = two_passes(4);
  part.steps.clear();
  const std::array<JoinedTensor, 2> tensors{{{In::kTensor, 0, 0}, {In::kTensor, 1, 0}}};
  (void)join({part, tensors}, whole);
  EXPECT_TRUE(whole.passes.empty() && whole.sets.empty() && whole.layouts.empty());
  EXPECT_EQ(whole.tensors[0].bytes, 64U) << "it asks for its tensors all the same";
}

}  // namespace
}  // namespace vkattn::detail

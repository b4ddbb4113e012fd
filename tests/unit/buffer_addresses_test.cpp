// Storage buffers by addresses in the build's shaders, as drivers get them.
#include "spirv/buffer_addresses.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "shared/attention_constants.h"
#include "spirv/loops.hpp"
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

constexpr std::array kOne{AddressWord{1, 8}};
constexpr std::array kKeysAndValues{AddressWord{VKATTN_BINDING_KEY, 128},
                                    AddressWord{VKATTN_BINDING_VALUE, 136}};

// A shader with a uint of push constants (variable 4) and a buffer of floats at binding 1 (variable 9).
const Words kBegin{op(17, 2), 1, op(14, 3), 0, 1, op(71, 4), 9, 33, 1};
const Words kWord{op(21, 4), 1, 32, 0};
const Words kBlock{op(30, 3), 2, 1};
const Words kPlaces{op(32, 4), 3, 9, 2, op(59, 4), 3, 4, 9};
const Words kBuffer{op(22, 3), 5, 32, op(29, 3), 6,         5,  op(30, 3), 7, 6,         op(32, 4), 8,  12, 7,
                    op(59, 4), 8, 9,  12,        op(32, 4), 10, 12,        5, op(43, 4), 1,         11, 0};
const Words kFunction{op(54, 5), 20, 21, 0, 22, op(248, 2), 23};
const Words kReach{op(65, 6), 10, 12, 9, 11, 11};
const Words kEnd{op(253, 1), op(56, 1)};

Words module_with(const Words& body) {
  return joined({tests::spirv_module(), kBegin, kWord, kBlock, kPlaces, kBuffer, kFunction, body, kEnd});
}

TEST(BufferAddressesTest, ElementsAreReachedFromAnAddress) {
  Words words =
      module_with(joined({kReach, {op(61, 4), 5, 13, 12}, {op(62, 4), 12, 13, 4}, {op(62, 3), 14, 13}}));
  ASSERT_TRUE(use_buffer_addresses(words, kOne));
  // 99 is uvec2, 100 a pointer to one of push constants, 101 and 102 are pointers by addresses, 103 a
  // member's number.
  Words header = tests::spirv_module();
  header[3] = 107;
  EXPECT_EQ(words, joined({header,
                           {op(17, 2), 1, op(17, 2), 5347},
                           {op(10, 9), 0x5f565053, 0x5f52484b, 0x73796870, 0x6c616369, 0x6f74735f, 0x65676172,
                            0x6675625f, 0x726566},
                           {op(14, 3), 5348, 1, op(71, 4), 9, 33, 1},
                           {op(72, 5), 2, 1, 35, 8},
                           {op(21, 4), 1, 32, 0, op(23, 4), 99, 1, 2},
                           {op(30, 4), 2, 1, 99},
                           kPlaces,
                           kBuffer,
                           {op(32, 4), 100, 9, 99, op(32, 4), 101, 5349, 7, op(32, 4), 102, 5349, 5},
                           {op(43, 4), 1, 103, 1},
                           kFunction,
                           {op(65, 5), 100, 104, 4, 103, op(61, 4), 99, 105, 104, op(124, 4), 101, 106, 105},
                           {op(65, 6), 102, 12, 106, 11, 11},
                           {op(61, 6), 5, 13, 12, 2, 4},
                           {op(62, 5), 12, 13, 6, 4},
                           {op(62, 3), 14, 13},
                           kEnd}));
}

TEST(BufferAddressesTest, WhatHasNoLikeByAddressesStaysAsItIs) {
  const Words torn = [] {
    Words words = module_with(kReach);
    words.back() = op(56, 7);
    return words;
  }();
  const Words cases[] = {
      module_with({op(68, 5), 1, 12, 9, 0}),                      // the length of the buffer
      module_with(joined({kReach, {op(57, 5), 5, 13, 20, 12}})),  // an element's pointer goes to a function
      module_with({op(61, 4), 7, 12, 9}),                         // all of it at once
      module_with(joined({{op(65, 5), 15, 12, 9, 11}, {op(61, 4), 5, 13, 12}})),  // an unknown type
      module_with({}),
      joined({tests::spirv_module(), kBegin, kWord, kBuffer, kFunction, kReach, kEnd}),  // no push constants
      torn,
      {},
      {1, 2, 3},
      tests::spirv_module(),
  };
  for (std::size_t i = 0; i < std::size(cases); ++i) {
    SCOPED_TRACE(i);
    Words words = cases[i];
    // A buffer that no instruction reaches is no reason against addresses.
    EXPECT_EQ(use_buffer_addresses(words, kOne), i == 4);
    if (i != 4) {
      EXPECT_EQ(words, cases[i]);
    }
  }
  constexpr std::array kOtherBinding{AddressWord{2, 8}};
  Words words = module_with(kReach);
  EXPECT_FALSE(use_buffer_addresses(words, kOtherBinding));
}

/// Whether an instruction takes an element of 32 bits or more of one of these bindings by its descriptor.
bool uses_descriptors(const Words& spirv, std::span<const AddressWord> addresses) {
  constexpr std::uint32_t kBinding = 33;
  std::unordered_set<std::uint32_t> variables, narrow;
  for (const auto& instruction : instructions_of(spirv)) {
    const auto words = instruction.words;
    if (instruction.opcode() == spirv_op::kTypeInt && words[2] < 32) narrow.insert(words[1]);
    if (instruction.opcode() == spirv_op::kTypePointer && narrow.count(words[3]) != 0)
      narrow.insert(words[1]);
    if (instruction.opcode() == spirv_op::kDecorate && words[2] == kBinding &&
        std::ranges::any_of(addresses, [&](const AddressWord& each) { return each.binding == words[3]; })) {
      variables.insert(words[1]);
    }
    if (instruction.opcode() == spirv_op::kAccessChain && variables.count(words[3]) != 0 &&
        narrow.count(words[1]) == 0) {
      return true;
    }
  }
  return false;
}

TEST(BufferAddressesTest, ShadersOfTheBuildStayValid) {
  const bool has_validator = !std::string(tests::build::kSpirvVal).empty();
  const tests::Validator validator;
  std::size_t changed = 0;
  for (const ShaderBinary& shader : shader_binaries()) {
    if (!shader.is_built()) continue;
    SCOPED_TRACE(shader.name);
    Words words = tests::must(shader.code().words());
    const bool reaches = uses_descriptors(words, kKeysAndValues) && shader.name.starts_with("attention_") &&
                         !has_matrices(words);
    const bool is_used = shader.name.starts_with("attention_lane_wide");
    if (!reaches) continue;
    const bool done = use_buffer_addresses(words, kKeysAndValues);
    EXPECT_TRUE(done || !is_used);
    if (!done) continue;
    ++changed;
    EXPECT_FALSE(uses_descriptors(words, kKeysAndValues));
    if (has_validator) {
      EXPECT_TRUE(validator.accepts(words));
    }
  }
  EXPECT_GE(changed, 4U);
}

}  // namespace
}  // namespace vkattn::detail

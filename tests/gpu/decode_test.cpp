// The decode kernel on problems of its own.
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Decode : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    return reason_against(runtime(), "decode", "1x64 d64 f16");
  }
  static testing::AssertionResult right(std::string_view problem, std::uint32_t kv_splits = 0) {
    return runs_right(runtime(), problem, {.kernel = "decode", .kv_splits = kv_splits});
  }
};

TEST_F(Decode, EveryNumberOfRows) {
  for (const int rows : part_of({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})) {
    EXPECT_TRUE(right("hq" + std::to_string(rows) + " hkv1 1x201 d24 f16 lse"));
    EXPECT_TRUE(right(std::to_string(rows) + "x75 d8 dv40 lse causal align=bottom-right"));
  }
  EXPECT_TRUE(right("b2 hq10 hkv2 3x150 d64 f16 lse causal align=bottom-right"));
}

// From 1024 keys on, a pass before the kernel finds the steps to leave out.
TEST_F(Decode, LongMasks) {
  for (const char* problem : part_of(
           {"b2 hq8 hkv2 1x1500 d64 f16 mask=bits:bhqk hidden=0.9 block=64 lse",
            "hq4 hkv1 3x1300 d40 f16 mask=bytes:qk hidden=0.7 block=100 causal align=bottom-right sinks lse",
            "hq6 hkv2 2x2048 d24 mask=bits hidden=0 page=16 lse"})) {
    EXPECT_TRUE(right(problem));
    EXPECT_TRUE(right(problem, 5));
  }
  const auto plan = must(make_plan(runtime(), parsed("1x1024 d16 f16 mask=bits").desc, {"decode"}));
  EXPECT_EQ(plan.dispatches().front().pass, "block_mask");
}

/// The form in which keys of the next step are asked for while a step is computed. The last step asks for
/// none that do not exist, and steps behind and before full ones follow in any order.
TEST_F(Decode, KeysReadAStepAhead) {
  constexpr TileSizes kTiles[] = {{128, 0, 0, 2, 4, 256}, {128, 0, 0, 2, 2, 256}, {256, 0, 0, 16, 1, 256}};
  for (const TileSizes& tile : kTiles) {
    RunOptions options{.kernel = "decode", .tile = tile};
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_TRUE(has(plan.describe(), "keys read a step ahead")) << plan.describe();
    };
    for (const char* problem : part_of(
             {"hq4 hkv1 1x1 d64 f16 lse", "b4 hq8 hkv2 1x512 d64 f16 lse kv_lengths=512,1,0,129",
              "hq6 hkv2 3x700 d40 dv24 causal align=bottom-right lse", "b2 hq4 hkv4 1x601 d33 dv17 lse sinks",
              "hq8 hkv2 2x900 d64 cache=q8_0 page=16 window=500,20 align=bottom-right lse",
              "b2 hq4 hkv1 1x1000 d128 bf16 ring=700 lse",
              "hq4 hkv1 3x1300 d40 f16 mask=bytes:qk hidden=0.7 block=100 causal align=bottom-right lse",
              "hq4 hkv2 2x300 d24 mask=bits:hqk hidden=0.5 block=16 dropout=0.2"})) {
      for (const std::uint32_t parts : {1U, 3U}) {
        options.kv_splits = parts;
        EXPECT_TRUE(runs_right(runtime(), problem, options)) << to_string(tile) << ", parts " << parts;
      }
    }
  }
  EXPECT_TRUE(is_refused(AttentionPlan::create(runtime().device(), parsed("1x64 d257").desc,
                                               {.kernel = "decode", .tile = kTiles[0]}),
                         ErrorCode::kUnsupported, {"decode", "a step ahead", "257"}));
}

/// Groups of threads lie in one subgroup of any size, if the device lets a plan ask for a size.
TEST_F(Decode, EverySubgroupSize) {
  const Capabilities& c = capabilities();
  if (!c.required_subgroup_size || !c.compute_full_subgroups || !c.subgroup_shuffle) {
    GTEST_SKIP() << "the device takes no subgroup size";
  }
  for (std::uint32_t size = c.min_subgroup_size; size <= c.max_subgroup_size; size *= 2) {
    RunOptions options = seen_as("decode", [&](Capabilities& changed) {
      changed.subgroup_size = changed.min_subgroup_size = changed.max_subgroup_size = size;
    });
    const std::string words = "subgroups of " + std::to_string(size);
    options.inspect = [&](const AttentionPlan& plan) { EXPECT_TRUE(has(plan.describe(), words)); };
    for (const char* problem : part_of({"hq4 hkv1 2x300 d16 f16 lse", "hq8 hkv1 2x300 d64 f16 lse causal"})) {
      options.kv_splits = 1;
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << "in subgroups of " << size;
      options.kv_splits = 3;
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << "in 3 parts, in subgroups of " << size;
    }
  }
}

/// If subgroups cannot shuffle or have no known size, decode refuses by name and tile takes the problem.
TEST_F(Decode, TileTakesDevicesWithoutKnownSubgroups) {
  const std::pair<const char*, std::function<void(Capabilities&)>> devices[] = {
      {"subgroup shuffles", [](Capabilities& c) { c.subgroup_shuffle = false; }},
      {"known size",
       [](Capabilities& c) {
         c.max_subgroup_size = c.min_subgroup_size * 2;
         c.required_subgroup_size = c.compute_full_subgroups = false;
       }},
  };
  for (const auto& [word, change] : devices) {
    RunOptions options = seen_as("decode", [&, &weaken = change](Capabilities& c) {
      weaken(c);
      c.device_type = DeviceType::kOther;  // makes the order of preference that of GPUs
    });
    EXPECT_TRUE(is_refused(make_plan(runtime(), parsed("hq4 hkv1 2x300 d64 f16 lse").desc, options),
                           ErrorCode::kUnsupported, {"decode", word}));
    options.kernel.clear();
    const auto chosen = must(make_plan(runtime(), parsed("hq4 hkv1 2x300 d64 f16 lse").desc, options));
    EXPECT_EQ(chosen.kernel_name(), "tile");
    options.kernel = "tile";
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv1 2x300 d64 f16 lse", options));
  }
}

/// If a workgroup has no room for all rows, they are cut into several tiles.
TEST_F(Decode, SmallSharedMemoryTakesTiles) {
  RunOptions options = seen_as("decode", [](Capabilities& c) {
    c.max_shared_memory_bytes = 16384;
    c.max_workgroup_invocations = 128;
  });
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_LE(plan.shared_memory_bytes(), 16384U);
    EXPECT_GT(plan.dispatches().front().tile_count, 1U);
  };
  options.kv_splits = 1;
  // A thread's share of a row decides. In subgroups of 4, rows of half the width have that share, and wider
  // rows are refused.
  const bool wide = capabilities().max_subgroup_size >= 8;
  const char* const problem = wide ? "hq4 hkv1 4x70 lse causal align=bottom-right d576 dv512"
                                   : "hq4 hkv1 4x70 lse causal align=bottom-right d288 dv256";
  EXPECT_TRUE(runs_right(runtime(), problem, options));
}

TEST_F(Decode, RefusesManyRowsByName) {
  for (const char* problem : {"17x40 d16", "hq6 hkv2 6x40 d16"}) {
    EXPECT_TRUE(is_refused(make_plan(runtime(), parsed(problem).desc, {"decode"}), ErrorCode::kUnsupported,
                           {"decode", "16", "query rows"}));
  }
}

}  // namespace
}  // namespace vkattn::tests

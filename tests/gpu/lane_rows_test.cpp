// Numbers of rows in lanes: this device's matrices are probed, and attention runs by what the probe found.
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/support.hpp"
#include "kernels/row_layout.hpp"
#include "runtime/probed_rows.hpp"

namespace vkattn::tests {
namespace {

class LaneRows : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    const std::string reason = reason_against_lanes(runtime(), parsed("64x64 d64 f16").desc);
    return reason.empty() ? "" : "matrix2 cannot run with rows in lanes here: " + reason;
  }

  /// The tile with as many columns as lanes share a row here. Heads of up to `dims` dims have scores computed
  /// a tile ahead.
  [[nodiscard]] static TileSizes tile(std::uint32_t subgroups, std::uint32_t rows, std::uint32_t keys,
                                      std::uint32_t dims = 0) {
    return {0, subgroups, tiles_with_rows_in_lanes(capabilities()).front().columns, rows, keys, dims};
  }
  [[nodiscard]] static RunOptions in(const TileSizes& tile) { return {.kernel = "matrix2", .tile = tile}; }

  /// Whether the self-test of the problem's plan on the device finds results right.
  [[nodiscard]] static bool passes_self_test(const Device& device, const AttentionDesc& desc,
                                             const TileSizes& tile) {
    const auto plan = must(AttentionPlan::create(device, desc, {.kernel = "matrix2", .tile = tile}));
    const SelfTest test = must(SelfTest::create(device, plan));
    std::vector<std::byte> memory(static_cast<std::size_t>(test.buffer_bytes()));
    must(test.fill(memory));
    const Buffer buffer = filled_buffer(runtime(), memory);
    const auto bindings = must(test.make_bindings(buffer.range()));
    must(runtime().execute([&](VkCommandBuffer commands) { test.record(commands, bindings); }));
    memory = elements_of<std::byte>(runtime(), buffer, memory.size());
    return must(test.check(memory)).empty();
  }
};

class LaneRowsProbe : public GpuTest {};

/// The tests of rows in lanes are skipped where none is found, so lavapipe must have some.
TEST_F(LaneRowsProbe, FindsLayoutsOnCpus) {
  const AttentionDesc desc = parsed("64x64 d64 f16").desc;
  if (!capabilities().is_cpu() || !reason_against(capabilities(), "matrix2", desc).empty()) {
    GTEST_SKIP() << "only lavapipe's matrices are known to lie so";
  }
  EXPECT_EQ(reason_against_lanes(runtime(), desc), "");
}

/// Subgroups have half of the lanes that the device says they have: then the probe finds no layout.
TEST_F(LaneRows, SubgroupsOfAnotherSize) {
  const Device& device = runtime().device();
  Capabilities c = device.capabilities();
  const auto known = std::ranges::find_if(c.row_layouts, detail::is_usable);
  ASSERT_NE(known, c.row_layouts.end());
  if (c.subgroup_size != known->lanes) GTEST_SKIP() << "the driver's own choice may be other lanes";
  RowLayout sizes{known->rows, known->score_columns, known->sum_columns, known->lanes};
  EXPECT_EQ(must(detail::run_row_probe(runtime(), device, sizes)), *known);
  c.required_subgroup_size = false;
  sizes.lanes *= 2;
  const Device wrong = device.state().seen_through(std::move(c));
  EXPECT_EQ(must(detail::run_row_probe(runtime(), wrong, sizes)), sizes);
}

TEST_F(LaneRows, EveryTileIsRight) {
  using Sizes = std::pair<TileSizes, const char*>;
  // Few registers are left for queries of wide heads and large tiles, so some of their dims are staged.
  for (const auto& [sizes, problem] :
       part_of<Sizes>({{tile(1, 8, 8), "h2 33x7 d16 f16 lse"},
                       {tile(4, 8, 32), "hq4 hkv2 37x129 d64 f16 causal align=bottom-right lse"},
                       {tile(2, 16, 16), "b2 h3 40x75 d40 dv24 f16 sinks lse"},
                       {tile(1, 16, 32), "hq6 hkv2 70x100 d17 dv13 f16 causal lse layout=bshd pad=3 shift=1"},
                       {tile(2, 16, 8), "b2 hq4 hkv2 40x70 d128 f16 kv_lengths=70,0 causal align=20 lse"},
                       {tile(1, 32, 32), "hq4 hkv1 45x77 d24 f16 window=20,10 softcap=4 lse"},
                       {tile(2, 32, 16), "h2 70x129 d72 f16 alibi sinks dropout=0.2 lse"},
                       {tile(1, 32, 8), "h2 50x200 d32 f16 mask=bits:hqk hidden=0.8 block=16 lse"},
                       {tile(4, 32, 16), "b2 h2 33x129 d31 dv33 f16 page=17 kv_lengths=3,129"},
                       {tile(1, 32, 16), "h2 50x70 d64 f16 cache=e4m3 causal output=f32"},
                       {tile(2, 16, 16, 64), "hq4 hkv2 70x200 d64 f16 causal align=bottom-right lse"},
                       {tile(4, 8, 32, 64), "h2 37x160 d64 f16 lse"},
                       {tile(4, 16, 8, 32), "b2 hq4 hkv2 70x90 d32 f16 kv_lengths=90,0 window=9,4 sinks lse"},
                       {tile(1, 32, 16, 24), "h2 40x100 d24 dv40 f16 mask=bits:hqk hidden=0.9 block=16 lse"},
                       {tile(2, 8, 16, 128), "h2 33x17 d96 dv24 f16 page=17 softcap=4 dropout=0.2"},
                       {tile(2, 8, 8, 64), "h2 50x75 d50 f16 cache=e4m3 causal output=f32"}})) {
    probe_rows_of(runtime(), sizes);
    RunOptions options = in(sizes);
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_TRUE(has(plan.describe(), "rows in a lane")) << plan.describe();
      EXPECT_EQ(has(plan.describe(), "scores a tile ahead"), plan.tile().dims != 0) << plan.describe();
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options)) << to_string(sizes);
  }
}

TEST_F(LaneRows, InParts) {
  for (const std::uint32_t dims : {0U, 16U}) {
    RunOptions options = in(tile(2, 16, 16, dims));
    options.kv_splits = 4;
    EXPECT_TRUE(runs_right(runtime(), "h2 5x193 d16 f16 lse sinks", options)) << dims;
  }
}

/// The first tile is the last, or one before it, or there is none. Some subgroups have no row, or see the
/// next tile but not this one.
TEST_F(LaneRows, FewTilesWithScoresAhead) {
  for (const char* const problem :
       {"h2 20x16 d16 f16 lse", "20x17 d16 f16 lse", "33x48 d16 f16 causal lse",
        "33x48 d16 f16 window=0,3 lse", "b3 7x40 d16 f16 kv_lengths=0,1,33 lse sinks", "40x1 d16 f16 lse"})
    EXPECT_TRUE(runs_right(runtime(), problem, in(tile(2, 16, 16, 16))));
}

/// Some blocks of the queries' dims are in registers, the others in shared memory.
TEST_F(LaneRows, QueriesInTwoPlaces) {
  for (const auto& [dims, held] : {std::pair{0U, "64"}, {112U, "48"}}) {
    const TileSizes sizes = tile(2, 8, 8, dims);
    probe_rows_of(runtime(), sizes);
    RunOptions options = in(sizes);
    options.inspect = [held = held](const AttentionPlan& plan) {
      if (capabilities().subgroup_size != 8) return;  // more lanes have room for all
      const std::string words = "queries of " + std::string(held) + " of 112 dims in registers";
      EXPECT_TRUE(has(plan.describe(), words)) << plan.describe();
    };
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 20x40 d112 f16 causal align=bottom-right lse", options));
  }
}

/// The device with another layout of all matrices.
template <class Change>
Device device_of_layout(const Runtime& runtime, Change change) {
  Capabilities c = runtime.device().capabilities();
  for (RowLayout& layout : c.row_layouts) change(layout);
  return runtime.device().state().seen_through(std::move(c));
}

std::uint32_t with_first_bits_swapped(std::uint32_t bits) {
  return (bits & ~255U) | (bits & 15U) << 4U | (bits >> 4U & 15U);
}

/// Rows of a lane may stand in any order, if it is the same for scores and sums. In another order, or in the
/// wrong lanes, results are wrong: the self-test that each configuration passes before its first use tells.
TEST_F(LaneRows, PermutedLayouts) {
  const AttentionDesc desc = parsed("h2 64x64 d32 f16 lse").desc;
  for (const TileSizes& sizes : {tile(2, 16, 16), tile(2, 16, 16, 32)}) {
    EXPECT_TRUE(passes_self_test(runtime().device(), desc, sizes));
    RunOptions options = in(sizes);
    options.device = device_of_layout(runtime(), [](RowLayout& layout) {
      layout.score_row_bits = with_first_bits_swapped(layout.score_row_bits);
      layout.sum_row_bits = with_first_bits_swapped(layout.sum_row_bits);
    });
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 37x129 d32 f16 causal lse sinks", options));
    EXPECT_TRUE(passes_self_test(*options.device, desc, sizes));
    const Device swapped = device_of_layout(runtime(), [](RowLayout& layout) {
      layout.score_row_bits = with_first_bits_swapped(layout.score_row_bits);
    });
    EXPECT_FALSE(passes_self_test(swapped, desc, sizes));
  }
}

TEST_F(LaneRows, TheRuntimeProbesWhatAPlanNeeds) {
  const AttentionDesc desc = parsed("h2 64x64 d32 f16").desc;
  const TileSizes sizes = tile(2, 16, 16);
  const Runtime own = must(Runtime::create({.pipeline_cache = false}));
  EXPECT_TRUE(own.device().capabilities().row_layouts.empty());
  EXPECT_TRUE(has(must(own.make_plan(desc, {.kernel = "matrix2"})).describe(), "matrix2"));
  EXPECT_TRUE(own.device().capabilities().row_layouts.empty()) << "nobody needs to know it";
  const auto plan = must(own.make_plan(desc, {.kernel = "matrix2", .tile = sizes}));
  EXPECT_TRUE(has(plan.describe(), "rows in a lane"));
  EXPECT_EQ(own.device().capabilities().row_layouts.size(), 1U);
  EXPECT_TRUE(plan.is_on(own.device()));
  must(own.make_plan(desc, {.kernel = "matrix2", .tile = sizes}));
  EXPECT_EQ(own.device().capabilities().row_layouts.size(), 1U) << "it is known";
  must(own.probe_row_layouts(desc));
  const std::vector<RowLayout>& all = own.device().capabilities().row_layouts;
  EXPECT_GT(all.size(), 3U) << "of each size in the tile table";
  for (const RowLayout& layout : all) EXPECT_TRUE(detail::is_usable(layout)) << layout.rows;
  // Others lanes than these.
  TileSizes others = sizes;
  others.columns *= 2;
  EXPECT_TRUE(is_refused(own.make_plan(desc, {.kernel = "matrix2", .tile = others}), ErrorCode::kUnsupported,
                         {"lanes share a row"}));

  const Runtime untested = must(Runtime::create({.pipeline_cache = false, .self_tests = false}));
  EXPECT_TRUE(is_refused(untested.make_plan(desc, {.kernel = "matrix2", .tile = sizes}),
                         ErrorCode::kUnsupported, {"need a probe"}));
}

}  // namespace
}  // namespace vkattn::tests

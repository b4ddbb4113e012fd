// Keys are cut into parts, whose results are merged by log-sum-exp. Every number of parts gives the right
// result.
#include <cstdint>
#include <numeric>
#include <vector>

#include "common/integers.hpp"
#include "gpu/support.hpp"
#include "kernels/kernel.hpp"
#include "kernels/select.hpp"
#include "vulkan/buffer_usage.hpp"

namespace vkattn::tests {
namespace {

class Split : public KernelTest {
 protected:
  static RunOptions in_parts(std::uint32_t parts) { return {.kernel = kernel(), .kv_splits = parts}; }
  /// decode can combine its parts itself: last_part_test.cpp.
  static void expect_parts(const AttentionPlan& plan) {
    const std::string_view last = plan.dispatches().back().pass;
    EXPECT_TRUE(last == "combine" || (last == "decode" && has(plan.describe(), "split over keys")))
        << plan.describe();
  }
  /// Bytes that so many tiles of rows have to themselves.
  static std::uint64_t tile_bytes(const AttentionPlan& plan, std::uint64_t tiles) {
    if (std::string_view(kernel()) != "lane_decode") return 0;
    const auto config = must(detail::configure_lane_decode(plan.desc(), capabilities(), {&plan.tile(), 1}));
    return tiles * config.tile_workspace_bytes;
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, Split, testing::ValuesIn(kKernelNames), kernel_test_name);

/// All numbers if long tests are wanted, otherwise some. Each number is a plan of its own, which a CPU
/// implementation compiles anew.
TEST_P(Split, FromOnePartToNinetySeven) {
  std::vector<std::uint32_t> all(97);
  std::iota(all.begin(), all.end(), 1U);
  for (const std::uint32_t parts :
       long_tests_are_wanted() ? all : part_of<std::uint32_t>({1, 2, 3, 5, 8, 13, 32, 96, 97})) {
    EXPECT_TRUE(runs_right(runtime(), "hq6 hkv2 1x3110 d24 lse", in_parts(parts))) << parts << " parts";
  }
}

/// The rule decides the number of parts, also if the parts consist of pages.
TEST_P(Split, LongKeys) {
  for (const char* problem :
       part_of({"1x131072 d64 f16 lse", "hq2 hkv1 1x20000 d40 page=16 kv_lengths=19999"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, {kernel()}));
  }
}

TEST_P(Split, PartsAreWhatWasAskedFor) {
  RunOptions options = in_parts(7);
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_EQ(plan.dispatches().front().pass, kernel());
    EXPECT_EQ(plan.dispatches().size(), plan.dispatches().back().pass == "combine" ? 2U : 1U);
    expect_parts(plan);
    const std::uint64_t results = 2U * 4U * 3U * 7U * (16U + 1U) * 4U, tiles = tile_bytes(plan, 2U * 4U * 7U);
    EXPECT_EQ(plan.workspace_bytes(),
              tiles == 0 ? results : detail::round_up(results, std::uint64_t{64}) + tiles);
    EXPECT_EQ(plan.requirements().workspace_usage, detail::storage_usage(capabilities().buffer_addresses));
  };
  EXPECT_TRUE(runs_right(runtime(), "b2 h4 3x896 d16 lse", options));
}

/// With long keys only the range that the rows see is cut. Each tile of rows has its own first part.
TEST_P(Split, OfWhatAWindowShows) {
  for (const char* problem :
       part_of({"hq4 hkv2 7x3000 d16 causal align=bottom-right window=300,-1 lse sinks",
                "b3 h2 40x2900 d16 f16 window=90,33 align=700 lse kv_lengths=2900,0,730",
                "b2 h2 5x2900 d16 ring=257 kv_lengths=2900,400 lse",
                "h2 3x2500 d32 cache=q8_0 page=16 window=600,20 align=bottom-right lse"})) {
    for (const std::uint32_t parts : {2U, 5U}) {
      RunOptions options = in_parts(parts);
      options.inspect = [&](const AttentionPlan& plan) {
        expect_parts(plan);
        const std::uint64_t row = 4U * static_cast<std::uint64_t>(plan.desc().value_dim + 1);
        const auto rows = static_cast<std::uint64_t>(plan.desc().batch * plan.desc().query_heads *
                                                     plan.desc().query_length);
        EXPECT_LE(plan.workspace_bytes(), (rows * row + tile_bytes(plan, rows)) * (parts + 1) + 4096)
            << plan.describe();
      };
      EXPECT_TRUE(runs_right(runtime(), fitted(problem), options));
    }
  }
}

/// The plan cuts the keys by itself if a driver would end the loops of a single part:
/// Capabilities::max_loop_iterations.
TEST_P(Split, KeysThatAreTooManyForOnePart) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_loop_iterations = 65535; });
  options.inspect = expect_parts;
  for (const char* problem : part_of({"hq4 hkv1 1x70000 d128 f16", "7x32768 d128", "1x20000 d256 lse"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

/// Some drivers end loops early without an error: see Capabilities::max_loop_iterations. The largest number
/// of keys, to a sixteenth, that is not refused with the limit of Mesa 22.3 gives right results, also on a
/// driver that has the limit.
TEST_P(Split, AsManyKeysAsTheLoopsOfADriverDo) {
  if (capabilities().max_loop_iterations == 0 && wanted_test_part().count > 1) {
    GTEST_SKIP() << "this driver has no such limit, and a part of the tests runs";
  }
  Capabilities limited = capabilities();
  limited.max_loop_iterations = 65535;
  for (const char* words : part_of({" d256", " d64 mask=f32:k", " d16 dropout=0.1"})) {
    const auto problem = [&](std::int64_t keys) { return "1x" + std::to_string(keys) + words; };
    std::int64_t keys = 256;
    const auto is_taken = [&](std::int64_t number) {
      PlanOptions one_part;
      one_part.kernel = GetParam();
      one_part.kv_splits = 1;
      return detail::select_kernel(parsed(problem(number)).desc.resolved(), limited, one_part).ok();
    };
    while (keys < 1 << 20 && is_taken(keys + keys / 16)) keys += keys / 16;
    ASSERT_LT(keys, 1 << 20) << "nothing is refused: " << words;
    EXPECT_TRUE(runs_right(runtime(), problem(keys), in_parts(1)));
  }
}

}  // namespace
}  // namespace vkattn::tests

// Steps of lane that the tile table takes from many rows on, and on some devices only: all keys in one step,
// and steps of 64 keys. Here each device takes them, for problems that are small, but for their rows.
#include <array>
#include <cstdint>
#include <string>

#include "gpu/hidden_rows.hpp"
#include "gpu/support.hpp"
#include "kernels/kernel.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

struct StepCase {
  std::uint32_t rows, keys;  ///< of a step of one invocation
  std::uint32_t kv_splits;
  const char* problem;
};

/// Keys that are fewer than those of a step, or as many. Steps of more than 32 and 64 keys compute scores in
/// two and three loops. Most cases have one row an invocation, as drivers take long to compile many.
constexpr std::array kInOneStep{
    StepCase{2, 80, 0, "b2 hq4 hkv2 70x70 d20 dv12 f16 kv_lengths=45,0 lse"},
    StepCase{1, 48, 0, "h2 65x48 d7 dv5 lse"},
    StepCase{1, 64, 0, "hq4 hkv2 70x33 d3 dv2 f16 output=bf16 aligned=0 lse"},
    StepCase{1, 48, 0, "b3 hq4 hkv2 64x44 d20 dv12 f16 page=7 kv_lengths=40,0,5 lse"},
    StepCase{2, 16, 0, "b2 hq4 hkv2 70x14 d32 f16 cache=q8_0 kv_lengths=14,5"},
    StepCase{1, 96, 0, "b2 h2 70x90 d24 dv20 f16 ring=100 kv_lengths=80,3 sinks lse"},
    StepCase{1, 80, 0, "h2 70x80 d20 mask=bits:hqk hidden=0.5 block=16 lse"},
    StepCase{1, 96, 3, "b2 h2 70x90 d20 dv12 bf16 kv_lengths=90,40 lse"},
    StepCase{1, 64, 0, "h2 70x60 d20 dv12 f16 softcap=4 dropout=0.2 alibi lse layout=bshd pad=3 shift=1"},
    StepCase{1, 48, 1, "b2 h2 70x40 d20 dv12 f16 kv_lengths=39,0 output=f32 aligned=0"},
    StepCase{1, 80, 0, "b2 hq4 hkv2 70x75 d32 f16 cache=q8_0 kv_lengths=75,37 lse"},
};

constexpr std::array kInLongSteps{
    StepCase{2, 64, 0, "hq4 hkv2 70x600 d20 dv12 f16 lse"},
    StepCase{1, 64, 1, "b2 hq4 hkv2 70x600 d20 dv14 f16 kv_lengths=590,130"},
    StepCase{2, 64, 0, "h2 150x330 d20 dv12 f16 causal align=bottom-right lse"},
    StepCase{1, 64, 0, "b2 h2 70x400 d20 dv12 window=180,9 align=300 kv_lengths=400,350 lse"},
    StepCase{1, 64, 0, "h2 70x600 d20 dv12 f16 mask=bits:hk hidden=0.3 block=16 lse"},
    StepCase{1, 64, 3, "hq4 hkv2 70x600 d20 dv14 f16 causal align=bottom-right lse"},
};

class LaneSteps : public GpuTest {
 protected:
  /// Runs the problem with NaN in each key and value that no row sees.
  static void run(const StepCase& each, bool in_one_step, const Runtime& on = runtime()) {
    RunOptions options{.kernel = "lane", .kv_splits = each.kv_splits};
    options.tile = TileSizes{0, 0, 0, each.rows, each.keys, 0};
    options.prepare = [&](const harness::ProblemRun& run) {
      (void)poison_hidden_keys(on, run, true, Bad::kNotANumber);
    };
    options.inspect = [&](const AttentionPlan& plan) {
      EXPECT_EQ(takes_one_step(plan), in_one_step) << plan.describe();
    };
    EXPECT_TRUE(runs_right(on, each.problem, options)) << each.rows << " x " << each.keys;
  }

 private:
  static bool takes_one_step(const AttentionPlan& plan) {
    const auto config = must(detail::configure_lane(plan.desc(), capabilities(), {&plan.tile(), 1}));
    for (const auto& constant : config.constants) {
      if (constant.id == VKATTN_SPEC_LANE_ONE_STEP) return constant.value != 0;
    }
    return false;
  }
};

TEST_F(LaneSteps, AllKeysInOneStep) {
  for (const StepCase& each : kInOneStep) run(each, true);
}

// Programs whose buffers have no addresses.
TEST_F(LaneSteps, ByDescriptors) {
  if (!capabilities().buffer_addresses) GTEST_SKIP() << "buffers have no addresses on this device";
  RuntimeOptions options{.device = capabilities().device_name};
  options.disabled_extensions = "bufferDeviceAddress";
  const Runtime other = must(Runtime::create(options));
  ASSERT_FALSE(other.device().capabilities().buffer_addresses);
  for (const StepCase& each : kInOneStep) run(each, true, other);
  for (const StepCase& each : kInLongSteps) run(each, false, other);
}

TEST_F(LaneSteps, LongSteps) {
  for (const StepCase& each : kInLongSteps) run(each, false);
}

}  // namespace
}  // namespace vkattn::tests

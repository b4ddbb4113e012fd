// The lane_decode kernel on problems of its own.
#include "gpu/hidden_rows.hpp"
#include "gpu/support.hpp"
#include "kernels/kernel.hpp"

namespace vkattn::tests {
namespace {

class LaneDecode : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (!capabilities().is_cpu()) return "only CPUs read cache lines ahead, or vectors";
    return reason_against(runtime(), "lane_decode", "1x64 d64");
  }
  /// The form by gathers, on a device whose buffers have no addresses.
  static void run_by_gathers(const char* problem, RunOptions options) {
    options.device = device_with([](Capabilities& c) { c.buffer_addresses = false; });
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
  [[nodiscard]] static bool reads_vectors() {
    return capabilities().subgroup_size == 8 && detail::reads_by_address(capabilities(), 5);
  }
  /// NaN in each key and value that no row sees; the form is what is expected.
  static RunOptions with_form(bool by_vectors) {
    RunOptions options{.kernel = "lane_decode"};
    options.prepare = [](const harness::ProblemRun& run) {
      (void)poison_hidden_keys(runtime(), run, true, Bad::kNotANumber);
    };
    options.inspect = [=](const AttentionPlan& plan) {
      EXPECT_EQ(has(plan.describe(), "vectors by addresses"), by_vectors) << plan.describe();
    };
    return options;
  }
};

/// Without them all tests of vectors would be skipped.
TEST_F(LaneDecode, BuffersOfTheRuntimeHaveAddresses) {
  EXPECT_EQ(capabilities().buffer_addresses, capabilities().buffer_device_address);
}

/// A step reads each cache line of its keys ahead if all of them together are more than caches hold: rows of
/// pages, of blocks with scales, and of odd lengths.
TEST_F(LaneDecode, ReadsCacheLinesOfLongKeysFirst) {
  RunOptions options{.kernel = "lane_decode"};
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_TRUE(has(plan.describe(), "cache lines first")) << plan.describe();
  };
  for (const char* problem :
       part_of({"hq8 hkv8 1x10007 d64 page=16 kv_lengths=9999", "hq8 hkv8 1x24001 d64 cache=q8_0 page=16 lse",
                "hq6 hkv6 1x20011 d37 mask=bits"})) {
    run_by_gathers(problem, options);
  }
}

TEST_F(LaneDecode, ReadsFewKeysWhereTheyLie) {
  RunOptions options{.kernel = "lane_decode"};
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_FALSE(has(plan.describe(), "cache lines first")) << plan.describe();
  };
  run_by_gathers("hq8 hkv8 1x1007 d64 page=16 kv_lengths=999", options);
}

/// Each number of rows; rows of one vector and of many, of numbers of vectors that have few divisors; each
/// type, alone and mixed; each way to find a key; hidden keys on both sides; parts; what changes scores and
/// weights.
TEST_F(LaneDecode, ReadsVectorsAtAddresses) {
  if (!reads_vectors()) GTEST_SKIP() << "the device reads no vectors by addresses";
  for (const char* problem :
       part_of({"hq2 hkv2 1x200 d8 lse", "hq2 hkv1 1x203 d136 dv16 kv_lengths=130",
                "hq3 hkv1 1x333 d88 causal align=bottom-right", "hq8 hkv2 1x1000 d128 f16 lse",
                "hq4 hkv1 1x200 d40 f16 lse", "hq5 hkv1 1x130 d48 dv80 bf16 sinks lse",
                "hq6 hkv1 1x257 d64 key=f16 value=bf16",
                "hq7 hkv1 1x300 d40 dv256 key=f32 page=16 kv_lengths=291",
                "hq8 hkv1 1x300 d576 dv512 f16 softcap=20 alibi",
                "b3 hq4 hkv2 2x500 d64 ring=96 kv_lengths=500,33,0",
                "b2 hq4 hkv2 3x700 d32 f16 window=90,33 align=500 lse",
                "hq4 hkv1 1x999 d64 mask=f16:hqk hidden=0.4", "hq4 hkv2 2x260 d64 dropout=0.3 lse",
                "b2 hq4 hkv2 4x260 d64 causal align=bottom-right "
                "kv_lengths=260,2"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, with_form(true)));
  }
}

/// Each quantised type, alone, with another one and with whole elements; tensors that do not begin with their
/// buffer; odd numbers of blocks; the scales of heads; as above.
TEST_F(LaneDecode, ReadsVectorsOfQuantisedRows) {
  if (!reads_vectors()) GTEST_SKIP() << "the device reads no vectors by addresses";
  for (const char* problem : part_of(
           {"hq2 hkv2 1x200 d32 cache=q8_0 lse", "hq4 hkv1 1x303 d96 f16 cache=q8_0 shift=2 aligned=0",
            "hq3 hkv1 1x131 d160 dv64 cache=q8_0 page=16 kv_lengths=130",
            "hq8 hkv1 1x300 d128 cache=q8_0 lse",
            "b3 hq4 hkv2 2x500 d64 cache=q8_0 ring=96 kv_lengths=500,33,0",
            "hq2 hkv1 1x200 d32 dv96 cache=q4_0", "hq5 hkv1 1x333 d128 bf16 cache=q4_0 shift=1 aligned=0 lse",
            "hq4 hkv1 1x999 d64 cache=q4_0 mask=f16:hqk hidden=0.4", "hq6 hkv2 1x257 d64 cache=e4m3 lse",
            "hq7 hkv1 1x130 d96 dv32 f16 cache=e4m3 page=16", "hq4 hkv1 1x300 d64 key=q8_0 value=q4_0 sinks",
            "hq4 hkv2 2x260 d64 key=q4_0 value=e4m3 dropout=0.3", "hq4 hkv1 1x300 d64 key=e4m3 value=f32",
            "hq4 hkv1 1x300 d64 key=f16 value=q8_0 softcap=20", "hq13 hkv1 1x300 d64 cache=q8_0 lse",
            "b2 hq4 hkv2 4x260 d64 cache=q8_0 causal align=bottom-right kv_lengths=260,2"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, with_form(true)));
  }
}

/// Tiles of several windows, which share what lies behind their results.
TEST_F(LaneDecode, ReadsVectorsInWindows) {
  if (!reads_vectors()) GTEST_SKIP() << "the device reads no vectors by addresses";
  RunOptions options = with_form(true);
  const auto inspect = options.inspect;
  options.inspect = [&](const AttentionPlan& plan) {
    inspect(plan);
    EXPECT_GT(plan.dispatches().size(), 1U);
  };
  options.device = device_with([](Capabilities& c) { c.max_storage_buffer_range = 256 * 1024; });
  for (const char* problem : part_of({"1x4001 d64 lse", "b3 hq4 hkv4 2x900 d64 causal align=bottom-right"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_F(LaneDecode, OnePartTakesNoWorkspace) {
  RunOptions options{.kernel = "lane_decode", .kv_splits = 1};
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_EQ(plan.workspace_bytes(), 0U) << plan.describe();
  };
  EXPECT_TRUE(runs_right(runtime(), "hq4 hkv1 1x200 d64 lse", options));
}

/// Rows that are no whole vectors, lie apart or begin elsewhere.
TEST_F(LaneDecode, GathersOtherRows) {
  for (const char* problem : part_of(
           {"hq4 hkv1 1x200 d12 lse", "hq4 hkv1 1x200 d40 bf16", "hq4 hkv1 1x200 d64 f16 aligned=0 shift=1",
            "hq4 hkv1 1x200 d80 cache=e4m3", "hq4 hkv1 1x200 d64 cache=e4m3 aligned=0 shift=1"})) {
    EXPECT_TRUE(runs_right(runtime(), problem, with_form(false)));
  }
}

}  // namespace
}  // namespace vkattn::tests

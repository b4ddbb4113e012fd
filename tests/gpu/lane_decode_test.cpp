// The lane_decode kernel on problems of its own.
#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class LaneDecode : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (!capabilities().is_cpu()) return "only CPUs read cache lines ahead";
    return reason_against(runtime(), "lane_decode", "1x64 d64");
  }
};

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
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_F(LaneDecode, ReadsFewKeysWhereTheyLie) {
  RunOptions options{.kernel = "lane_decode"};
  options.inspect = [](const AttentionPlan& plan) {
    EXPECT_FALSE(has(plan.describe(), "cache lines first")) << plan.describe();
  };
  EXPECT_TRUE(runs_right(runtime(), "hq8 hkv8 1x1007 d64 page=16 kv_lengths=999", options));
}

}  // namespace
}  // namespace vkattn::tests

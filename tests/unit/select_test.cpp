// Kernel selection from made-up capabilities: order, refusals and their reasons. Limits that are refused, and
// the smallest device, are in tests/gpu/limits_test.cpp.
#include <vkattn/plan.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/select.hpp"
#include "made_up_device.hpp"

namespace vkattn::tests {
namespace {

std::string reason_against(const char* kernel, const AttentionDesc& desc, const Capabilities& capabilities) {
  for (const KernelSupport& support : kernel_support(desc, capabilities)) {
    if (support.kernel == kernel) return support.reason;
  }
  return "not listed";
}

TEST(Select, TheOrderFollowsTheDevice) {
  const auto order = [](const char* problem, const Capabilities& device) {
    std::vector<std::string_view> names;
    for (const KernelSupport& support : kernel_support(desc_of(problem), device))
      names.push_back(support.kernel);
    EXPECT_EQ(std::set<std::string_view>(names.begin(), names.end()).size(), 5U) << "each kernel once";
    return names;
  };
  const Capabilities cpu = small_device(VK_PHYSICAL_DEVICE_TYPE_CPU);
  Capabilities gpu = small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  EXPECT_EQ(order("128x128 d64", cpu).front(), "lane");
  EXPECT_EQ(order("128x128 d64", cpu).back(), "matrix2") << "CPUs emulate matrices";
  EXPECT_EQ(order("128x128 d64", gpu)[0], "matrix2");
  EXPECT_EQ(order("128x128 d64", gpu)[1], "matrix");
  EXPECT_NE(reason_against("decode", desc_of("128x128 d64"), gpu), "");
  const AttentionDesc few_rows = desc_of("hq8 hkv2 1x4096 d64");
  EXPECT_EQ(order("hq8 hkv2 1x4096 d64", gpu)[0], "decode") << "a few rows fill no matrix";
  EXPECT_EQ(order("hq8 hkv2 1x4096 d64", gpu)[1], "tile");
  EXPECT_EQ(reason_against("decode", few_rows,
                           changed(with_lanes(gpu, 32), [](auto& c) { c.subgroup_shuffle = true; })),
            "");
  // 24 rows of each of 8 KV heads: matrix, which does not split the keys, would have 8 workgroups.
  gpu.compute_units = 96;
  EXPECT_EQ(order("hq64 hkv8 3x131072 d128 f16", gpu)[1], "tile");
  EXPECT_EQ(order("hq64 hkv8 3x1024 d128 f16", gpu)[1], "matrix");
  EXPECT_EQ(order("b4 hq64 hkv8 3x131072 d128 f16", gpu)[1], "matrix");
}

TEST(Select, ABrokenDescriptorIsEachKernelsReason) {
  AttentionDesc desc = desc_of("hq8 hkv2 1x4096 d64");
  desc.value_dim = 0;
  const Capabilities device = small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  for (const KernelSupport& support : kernel_support(desc, device)) {
    EXPECT_TRUE(has(support.reason, "value_dim is 0")) << support.kernel;
  }
  EXPECT_TRUE(tuning_candidates(desc, device).empty());
  AttentionDesc unset;
  unset.query_heads = 8;
  unset.kv_heads = 2;
  for (const KernelSupport& support : kernel_support(unset, device)) {
    EXPECT_TRUE(has(support.reason, "query_length is not set")) << support.kernel;
  }
}

/// llvmpipe of Mesa 22.3: problems of usual sizes run, those whose loops might be cut short are refused.
TEST(Select, LoopsThatADriverMightEndAreRefusedByName) {
  Capabilities capabilities = with_lanes(small_device(VK_PHYSICAL_DEVICE_TYPE_CPU), 8);
  capabilities.max_stage_storage_buffers = 32;
  capabilities.max_shared_memory_bytes = 32768;
  capabilities.subgroup_shuffle = true;
  capabilities.driver_name = "llvmpipe";
  capabilities.driver_info = "Mesa 22.3.6";
  capabilities.max_loop_iterations = 65535;
  for (const char* problem :
       {"h8 2048x2048 d128 causal", "2048x2048 d128 mask=bits", "1x4096 d128 mask=bytes", "2048x16384 d64",
        "1x8192 d256", "h2 300x100000 d64 window=255,0", "1x1000000 d64 ring=512"}) {
    EXPECT_EQ(reason_against("lane", desc_of(problem), capabilities), "") << problem;
  }
  EXPECT_EQ(reason_against("tile", desc_of("2048x2048 d128 dropout=0.1"), capabilities), "");
  EXPECT_EQ(reason_against("decode", desc_of("hq8 hkv1 1x4096 d128"), capabilities), "");
  const std::pair<const char*, const char*> long_ones[] = {{"lane", "1x16384 d256"},
                                                           {"lane", "2048x2048 d128 dropout=0.1"},
                                                           {"lane", "1x40000 d64 weights=scores"},
                                                           {"tile", "64x16384 d128"},
                                                           {"decode", "1x1000000 d64"}};
  for (const auto& [kernel, problem] : long_ones) {
    const std::string reason = reason_against(kernel, desc_of(problem), capabilities);
    for (const char* words : {"Mesa before 25", "after 65535 iterations", "may take ", "needs Mesa 25"})
      EXPECT_TRUE(has(reason, words)) << kernel << ", " << problem;
    Capabilities newer = capabilities;
    newer.max_loop_iterations = 0;
    EXPECT_EQ(reason_against(kernel, desc_of(problem), newer), "") << kernel << ": " << problem;
  }
}

}  // namespace
}  // namespace vkattn::tests

// Kernel selection from made-up capabilities: order, refusals and their reasons.
#include <vkattn/plan.hpp>

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>

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
  const AttentionDesc desc = desc_of("128x128 d64");
  const auto on_cpu = kernel_support(desc, small_device(VK_PHYSICAL_DEVICE_TYPE_CPU));
  const auto on_gpu = kernel_support(desc, small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU));
  ASSERT_GE(on_cpu.size(), 2U);
  ASSERT_EQ(on_cpu.size(), on_gpu.size());
  EXPECT_EQ(on_cpu.front().kernel, "lane");
  EXPECT_EQ(on_gpu[0].kernel, "matrix2");
  EXPECT_EQ(on_gpu[1].kernel, "matrix");
  EXPECT_EQ(on_cpu.back().kernel, "matrix2") << "CPUs emulate matrices";
  Capabilities shuffling = with_lanes(small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU), 32);
  shuffling.subgroup_shuffle = true;
  const auto few_rows = kernel_support(desc_of("hq8 hkv2 1x4096 d64"), shuffling);
  EXPECT_EQ(few_rows.front().kernel, "decode") << "a few rows fill no matrix";
  EXPECT_EQ(few_rows.front().reason, "");
  EXPECT_EQ(few_rows[1].kernel, "tile");
  EXPECT_NE(reason_against("decode", desc, small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU)), "");
  // 24 rows of each of 8 KV heads: matrix, which does not split the keys, would have 8 workgroups.
  Capabilities gpu = small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  gpu.compute_units = 96;
  EXPECT_EQ(kernel_support(desc_of("hq64 hkv8 3x131072 d128 f16"), gpu)[1].kernel, "tile");
  EXPECT_EQ(kernel_support(desc_of("hq64 hkv8 3x1024 d128 f16"), gpu)[1].kernel, "matrix");
  EXPECT_EQ(kernel_support(desc_of("b4 hq64 hkv8 3x131072 d128 f16"), gpu)[1].kernel, "matrix");
  std::set<std::string_view> names;
  for (const KernelSupport& support : on_gpu) names.insert(support.kernel);
  EXPECT_EQ(names.size(), on_gpu.size()) << "each kernel once";
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

// That it refuses matrix kernels is in the tests on a device.
TEST(Select, StrictNonfiniteLeavesOtherKernels) {
  detail::SelectionRequest request;
  request.strict_nonfinite = true;
  for (const char* const kernel : {"lane", "tile"}) {
    request.kernel = kernel;
    const auto chosen = detail::select_kernel(desc_of("128x128 d64 causal"),
                                              small_device(VK_PHYSICAL_DEVICE_TYPE_CPU), request);
    ASSERT_TRUE(chosen.ok()) << chosen.error().message;
    EXPECT_EQ(chosen->kernel.name, kernel);
  }
}

TEST(Select, TheSmallestDeviceTakesEveryProblem) {
  for (const auto type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                          VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, VK_PHYSICAL_DEVICE_TYPE_OTHER}) {
    for (const char* problem : {"1x1 d1", "512x512 d64 causal", "1x4096 d576 dv512", "203x113 d111 query=f16",
                                "b3 hq8 hkv2 7x9 d3 bf16 kv_lengths=1,2,3 lse output=f32", "5x5 d33 dv576"}) {
      for (const char* kernel : {"lane", "tile"}) {
        EXPECT_EQ(reason_against(kernel, desc_of(problem), small_device(type)), "")
            << kernel << ": " << problem;
      }
    }
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

TEST(Select, SharedMemoryIsNamedWithBothNumbers) {
  Capabilities capabilities = small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  capabilities.max_shared_memory_bytes = 4096;
  const AttentionDesc desc = desc_of("128x128 d64");
  const std::string reason = reason_against("tile", desc, capabilities);
  EXPECT_TRUE(has(reason, "maxComputeSharedMemorySize"));
  EXPECT_TRUE(has(reason, "4096"));
  EXPECT_EQ(reason_against("lane", desc, capabilities), "") << "lane uses none";
}

TEST(Select, StorageBuffersAreNamedWithBothNumbers) {
  Capabilities capabilities = small_device(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  capabilities.max_stage_storage_buffers = 4;
  for (const char* kernel : {"lane", "tile"}) {
    const std::string reason = reason_against(kernel, desc_of("128x128 d64"), capabilities);
    EXPECT_TRUE(has(reason, "maxPerStageDescriptorStorageBuffers"));
    EXPECT_TRUE(has(reason, "4"));
  }
}

}  // namespace
}  // namespace vkattn::tests

// Plans for weaker devices: folded grids, windows of large tensors, split dispatches, and refusals that name
// the limit and the need in numbers. The device is made to look weaker than it is.

#include <algorithm>

#include "gpu/any_kernel.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/shared_pipelines.hpp"

namespace vkattn::tests {
namespace {

class Limits : public AnyKernelTest {
 protected:
  /// On a device that binds so little that problems of about 33 x 65 are cut into windows.
  static RunOptions in_windows() {
    const std::uint64_t range = is_on_matrix_units() ? 12 * 1024 : 24 * 1024;
    RunOptions options = seen_as(kernel(), [&](Capabilities& c) { c.max_storage_buffer_range = range; });
    options.inspect = [](const AttentionPlan& plan) { EXPECT_GT(plan.dispatches().size(), 1U); };
    return options;
  }
};

/// Expects grids of at most 3 x 1000 workgroups.
void expect_folded(const AttentionPlan& plan) {
  ASSERT_FALSE(plan.dispatches().empty());
  for (const DispatchInfo& dispatch : plan.dispatches()) {
    EXPECT_LE(dispatch.workgroups[0], 3U);
    EXPECT_LE(dispatch.workgroups[1], 1000U);
    EXPECT_GT(dispatch.workgroups[1], 1U);
  }
}

/// Expects several dispatches of at most 4 tiles, one after the other.
void expect_consecutive(const AttentionPlan& plan) {
  EXPECT_GT(plan.dispatches().size(), 1U);
  std::uint64_t next = 0;
  for (const DispatchInfo& dispatch : plan.dispatches()) {
    EXPECT_EQ(dispatch.first_tile, next);
    EXPECT_LE(dispatch.tile_count, 4U);
    next += dispatch.tile_count;
  }
}

/// Expects that the keys of one head are in several windows.
void expect_cut_keys(const AttentionPlan& plan) {
  EXPECT_EQ(plan.dispatches().back().pass, "combine");
  EXPECT_GT(plan.dispatches().size(), 3U);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Limits, testing::ValuesIn(kEveryFormName), kernel_test_name);

TEST_P(Limits, GridsAreFolded) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_workgroup_count = {3, 1000, 1}; });
  options.inspect = expect_folded;
  EXPECT_TRUE(runs_right(runtime(), typed("b2 h5 203x33 d16 causal lse"), options));
}

TEST_P(Limits, GridsAreSplitWhereFoldingIsNotEnough) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_workgroup_count = {2, 2, 1}; });
  options.inspect = expect_consecutive;
  EXPECT_TRUE(runs_right(runtime(), typed("b4 hq6 hkv2 203x33 d16 causal align=bottom-right lse"), options));
}

TEST_P(Limits, LongWorkIsSplitOnDevicesThatAreNoCpu) {
  if (is_on_matrix_units()) GTEST_SKIP() << "CPU implementations cannot run the form for GPUs";
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.device_type = DeviceType::kDiscreteGpu; });
  const Problem problem = parsed(typed("b2 h4 257x129 d32 lse"));
  double whole_ns = 0;
  options.inspect = [&](const AttentionPlan& plan) {
    ASSERT_EQ(plan.dispatches().size(), 1U);
    whole_ns = plan.dispatches().front().estimated_ns;
  };
  EXPECT_TRUE(runs_right(runtime(), problem, options)) << "unsplit, as a discrete GPU";
  options.max_dispatch_ns = static_cast<std::uint64_t>(whole_ns / 3);
  options.inspect = [&](const AttentionPlan& plan) {
    EXPECT_GT(plan.dispatches().size(), 1U);
    for (const DispatchInfo& dispatch : plan.dispatches()) {
      EXPECT_TRUE(dispatch.estimated_ns <= whole_ns / 3 || dispatch.tile_count == 1);
    }
  };
  EXPECT_TRUE(runs_right(runtime(), problem, options)) << "split, as a discrete GPU";
}

TEST_P(Limits, TensorsBeyondTheBufferRangeAreCutIntoWindows) {
  run_part({"b3 hq4 hkv2 33x65 d32 lse", "b3 hq4 hkv2 33x65 d32 f16 layout=bshd causal lse",
            "b3 hq4 hkv2 33x65 d32 kv_lengths=65,0,20 causal align=bottom-right",
            "b4 hq8 hkv1 203x65 d32 causal align=7 pad=8"},
           in_windows());
}

/// Which head's mask a head has depends on its number in the whole problem.
TEST_P(Limits, MasksOfFewerHeadsInSeveralWindows) {
  EXPECT_TRUE(
      runs_right(runtime(), typed("b2 hq6 hkv3 33x65 d32 mask=f16:h3qk alibi=times-mask lse"), in_windows()));
}

/// Whether an element is dropped depends on its place in the whole problem.
TEST_P(Limits, DropoutOfRowsInSeveralWindows) {
  if (kernel() == "decode") GTEST_SKIP() << "takes too few rows to cut them";
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_storage_buffer_range = 8 * 1024; });
  options.inspect = [](const AttentionPlan& plan) { EXPECT_GT(plan.dispatches().size(), 1U); };
  EXPECT_TRUE(runs_right(runtime(), typed("100x20 d64 dropout=0.3"), options));
}

TEST_P(Limits, KeysOfOneHeadBeyondTheBufferRangeAreCutToo) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_storage_buffer_range = 16 * 1024; });
  options.inspect = expect_cut_keys;
  run_part({"h2 4x300 d32 lse", "hq4 hkv2 70x301 d32 f16 layout=bshd causal lse",
            "b2 hq4 hkv2 33x289 d33 dv17 lse",
            "b3 hq4 hkv2 3x300 d32 kv_lengths=300,0,150 causal align=bottom-right lse",
            "h2 3x300 d32 shift=3 pad=5 causal align=200", "h2 3x300 d20 layout=bshd f16 causal align=298"},
           options);
}

TEST_P(Limits, KeysInWindowsCanBeSplitFurther) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) { c.max_storage_buffer_range = 32 * 1024; });
  options.kv_splits = 11;
  EXPECT_TRUE(runs_right(runtime(), typed("hq4 hkv2 5x700 d32 causal align=bottom-right lse"), options));
}

TEST_P(Limits, AreRefusedByName) {
  const auto refuses = [](const char* problem, const std::vector<std::string>& words,
                          const std::function<void(Capabilities&)>& change) {
    EXPECT_TRUE(is_refused(make_plan(runtime(), parsed(typed(problem)).desc, seen_as(kernel(), change)),
                           ErrorCode::kLimitExceeded, words));
  };
  refuses("h2 4x300 d32 output=f32", {"key", "maxStorageBufferRange", "1000"},
          [](Capabilities& c) { c.max_storage_buffer_range = 1000; });
  refuses("4x4 d8", {"maxPushConstantsSize", "64"}, [](Capabilities& c) { c.max_push_constants_bytes = 64; });
  refuses("4x4 d8 lse", {"4", "maxPerStageDescriptorStorageBuffers", "3"},
          [](Capabilities& c) { c.max_stage_storage_buffers = 3; });
  if (is_on_matrix_units()) return;
  refuses("h2 4x300 d32", {"key", "76800", "maxBufferSize", "50000"},
          [](Capabilities& c) { c.max_buffer_size = 50'000; });
  refuses("h32 16x4 d32", {"query", "65536", "maxMemoryAllocationSize", "50000"},
          [](Capabilities& c) { c.max_memory_allocation_bytes = 50'000; });
  // The plan refuses before memory is allocated: 2^30 rows of 576 floats, 2.5 TB in each of four tensors.
  refuses("1073741824x1073741824 d576", {"2473901162496", "is "},
          [](Capabilities& c) { c.max_loop_iterations = 0; });  // this limit would be checked first
}

/// The minimum that Vulkan guarantees: 128 invocations and 16 KiB.
TEST_P(Limits, TheSmallestDeviceRunsEverything) {
  if (is_on_matrix_units()) GTEST_SKIP() << "has no matrix units";
  for (const char* problem :
       part_of({"b2 h2 65x65 d64 causal lse", "33x129 d576 dv512", "33x33 d33 dv576 f16"})) {
    RunOptions options = seen_as(kernel(), [](Capabilities& c) {
      c.max_workgroup_invocations = 128;
      c.max_workgroup_size = {128, 128, 64};
      c.max_shared_memory_bytes = 16384;
      c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = 1;
      c.subgroup_arithmetic = c.subgroup_shuffle = c.subgroup_size_control = false;
      c.shader_int16 = c.shader_int64 = c.shader_float16 = false;
      c.device_type = DeviceType::kOther;
    });
    options.inspect = [](const AttentionPlan& plan) { EXPECT_LE(plan.shared_memory_bytes(), 16384U); };
    if (kernel().ends_with("decode")) {  // needs shuffles; another test shows that tile runs such problems
      EXPECT_TRUE(is_refused(make_plan(runtime(), parsed(fitted(problem)).desc, options),
                             ErrorCode::kUnsupported, {kernel(), "subgroup shuffles"}));
      continue;
    }
    EXPECT_TRUE(runs_right(runtime(), fitted(problem), options)) << "on the smallest device";
  }
}

using LimitsOfOneKernel = GpuTest;

/// Only lane runs this: 70000 workgroups with barriers take minutes on SwiftShader. GridsAreFolded tests the
/// other kernels.
TEST_F(LimitsOfOneKernel, BatchTimesHeadsBeyond65535) {
  RunOptions options = seen_as("lane", [](Capabilities& c) {
    c.max_workgroup_count = {65535, 65535, 65535};
  });
  options.inspect = [](const AttentionPlan& plan) {
    ASSERT_EQ(plan.dispatches().size(), 1U);
    EXPECT_EQ(plan.dispatches()[0].tile_count, 70000U);
    EXPECT_GT(plan.dispatches()[0].workgroups[1], 1U);
  };
  EXPECT_TRUE(runs_right(runtime(), "b700 h100 1x5 d4 lse", options));
}

TEST_F(LimitsOfOneKernel, TheNextKernelIsAskedWhereOneDoesNotFit) {
  // As a GPU, which prefers matrix2 if it exists. With tensor addressing matrix2 cannot cut the keys.
  RunOptions options;
  options.device = device_with([](Capabilities& c) {
    c.device_type = DeviceType::kDiscreteGpu;
    c.max_storage_buffer_range = 16 * 1024;
    c.matrix2_tensor_addressing = c.matrix2_workgroup_scope = true;
    c.flexible_matrices = {{16, 16, 16, "f16", "f16", "f32", "f32", "workgroup", 128}};
    c.max_flexible_matrix_dimension = c.max_matrix_workgroup_size = 1024;
  });
  // With this many rows every subgroup of matrix passes the same barriers, which lavapipe needs.
  const Problem problem = parsed("h2 64x600 d32 f16 lse");
  const auto plan = must(make_plan(runtime(), problem.desc, options));
  EXPECT_NE(plan.kernel_name(), "matrix2");
  for (const KernelSupport& support : kernel_support(problem.desc, options.device->capabilities())) {
    if (support.kernel != "matrix2" || !support.reason.empty()) continue;
    EXPECT_TRUE(has(plan.describe(), "refused: matrix2: one head of the key tensor"));
  }
  // In the matrix kernel's form for GPUs, subgroups without rows pass fewer barriers. CPU implementations
  // cannot do that.
  if (plan.kernel_name() == "matrix") return;
  harness::ProblemRun run = ready_run(problem);
  ASSERT_TRUE(run.execute(plan).ok());
  expect_right(run);
}

TEST_F(LimitsOfOneKernel, AWorkspaceForSumsIsDoneWithoutWhereItDoesNotFit) {
  RunOptions options{"lane"};
  // Q takes 25,600 bytes, and the sums 51,200.
  const Problem problem = parsed("h8 100x20 d16 f16 lse");
  options.device = device_with([](Capabilities& c) { c.max_memory_allocation_bytes = 40'000; });
  options.inspect = [](const AttentionPlan& plan) { EXPECT_EQ(plan.workspace_bytes(), 0U); };
  EXPECT_TRUE(runs_right(runtime(), problem, options));
}

TEST_F(LimitsOfOneKernel, SumsOfPackedSequencesLiveElsewhereToo) {
  RunOptions options{"lane"};
  // Q fits, with 32 bytes in a row. The sums, with 64, do not.
  options.device = device_with([](Capabilities& c) { c.max_storage_buffer_range = 6 * 1024; });
  options.inspect = [](const AttentionPlan& plan) { EXPECT_LT(plan.workspace_bytes(), 2048U); };
  EXPECT_TRUE(runs_right(
      runtime(), parsed("b3 100x20 d16 f16 sequences query_lengths=30,100,7 kv_lengths=20,3,9"), options));
}

// Rows that belong to no sequence take no workspace.
TEST_F(LimitsOfOneKernel, WorkspacesOfPackedQueriesArePackedToo) {
  RunOptions options;
  options.kv_splits = 3;
  // lane_decode by vectors has memory for all tiles that there may be.
  options.device = device_with([](Capabilities& c) { c.buffer_addresses = false; });
  options.inspect = [](const AttentionPlan& plan) {
    constexpr std::uint64_t kPartials = 2 * 9 * 3 * (16 + 1) * 4;
    EXPECT_GE(plan.workspace_bytes(), kPartials);
    EXPECT_LT(plan.workspace_bytes(), kPartials + 2048);
  };
  for (const char* kernel : {"lane", "lane_decode", "tile", "decode"}) {
    options.kernel = kernel;
    for (const char* words : {"kv_lengths=129,40,3 sequences", "page=16 sequences=queries"}) {
      const std::string problem = "b3 h2 8x129 d16 query_lengths=1,8,0 causal align=bottom-right lse ";
      EXPECT_TRUE(runs_right(runtime(), problem + words, options));
    }
  }
}

TEST_F(LimitsOfOneKernel, PackedSequencesMayBeToldToBeLongerThanAllTogether) {
  Problem problem = parsed("b2 hq4 hkv1 40x50 d16 sequences query_lengths=40,3 kv_lengths=50,20 causal lse");
  problem.desc.query_length = std::int64_t{1} << 30;
  for (const char* kernel : {"lane", "tile"}) {
    EXPECT_TRUE(runs_right(runtime(), problem, {kernel})) << "4 x 2^30 rows of a KV head do not fit 32 bits";
  }
}

TEST_F(LimitsOfOneKernel, PackedQueriesAreCutWithTheKeysOfTheirEntries) {
  const std::string words = "b3 h2 d16 kv_lengths=100,3,77 causal align=bottom-right sequences=queries ";
  for (const char* kernel : {"lane", "tile"}) {
    RunOptions options = seen_as(kernel, [](Capabilities& c) { c.max_storage_buffer_range = 16 * 1024; });
    options.inspect = [](const AttentionPlan& plan) {
      const auto is_kernels = [&](const DispatchInfo& info) { return info.pass == plan.kernel_name(); };
      const std::vector<DispatchInfo> dispatches = plan.dispatches();
      EXPECT_EQ(std::count_if(dispatches.begin(), dispatches.end(), is_kernels), 6)
          << "one for each entry and head";
    };
    EXPECT_TRUE(runs_right(
        runtime(), words + "40x100 query_lengths=40,0,30 weights=probabilities mask=bytes:bq", options));
    // One head has more keys than fit.
    options.device = device_with([](Capabilities& c) { c.max_storage_buffer_range = 5 * 1024; });
    options.inspect = {};
    EXPECT_TRUE(runs_right(runtime(), words + "20x100 query_lengths=20,0,11 lse", options));
  }
}

TEST_F(LimitsOfOneKernel, PassesBesideTheKernelAreSplitToo) {
  for (const char* problem :
       {"2x300 d32 weights=probabilities", "70x600 d32 mask=bits hidden=0.5 block=64"}) {
    RunOptions options = seen_as("lane", [](Capabilities& c) { c.device_type = DeviceType::kDiscreteGpu; });
    options.max_dispatch_ns = 100;
    options.inspect = [](const AttentionPlan& plan) {
      for (const std::string_view pass : {"weights", "block_mask"}) {
        const auto is_of_pass = [&](const DispatchInfo& info) { return info.pass == pass; };
        const std::vector<DispatchInfo> dispatches = plan.dispatches();
        const auto count = std::count_if(dispatches.begin(), dispatches.end(), is_of_pass);
        EXPECT_NE(count, 1) << pass << " in one dispatch";
      }
    };
    EXPECT_TRUE(runs_right(runtime(), parsed(problem), options));
  }
}

TEST_F(LimitsOfOneKernel, KeysOfOneBlockOfRowsAreCutWhereTheyTakeTooLong) {
  const Problem problem = parsed("hq32 hkv2 4x5000 d32 causal align=bottom-right lse");
  const auto is_kernels = [](const DispatchInfo& info) { return info.pass == "tile" || info.pass == "lane"; };
  for (const char* const kernel : {"lane", "tile"}) {
    RunOptions options{kernel};
    // So small a GPU that no keys are cut to keep it busy.
    options.device = device_with([](Capabilities& c) {
      c.device_type = DeviceType::kDiscreteGpu;
      c.compute_units = 1;
    });
    options.kv_splits = 1;
    options.max_dispatch_ns = 1;
    const auto whole = must(make_plan(runtime(), problem.desc, options));
    const std::vector<DispatchInfo> blocks = whole.dispatches();
    ASSERT_EQ(blocks.front().tile_count, 1U) << "a block of rows each, over all keys";
    const double limit_ns = blocks.front().estimated_ns / 3;
    options.kv_splits = 0;
    options.max_dispatch_ns = static_cast<std::uint64_t>(limit_ns);
    options.inspect = [&](const AttentionPlan& plan) {
      for (const DispatchInfo& dispatch : plan.dispatches()) {
        EXPECT_TRUE(!is_kernels(dispatch) || dispatch.estimated_ns <= limit_ns) << dispatch.estimated_ns;
      }
      EXPECT_GE(plan.dispatches().size(), 2 * blocks.size());
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options));
    // The results of parts need no buffer of their own.
    options.device = device_with([](Capabilities& c) {
      c.device_type = DeviceType::kDiscreteGpu;
      c.compute_units = 1;
      c.max_stage_storage_buffers = 4;
    });
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_F(LimitsOfOneKernel, TileNamesTheSharedMemoryItNeeds) {
  RunOptions options = seen_as("tile", [](Capabilities& c) { c.max_shared_memory_bytes = 1024; });
  EXPECT_TRUE(is_refused(make_plan(runtime(), parsed("4x4 d8").desc, options), ErrorCode::kLimitExceeded,
                         {"tile", "maxComputeSharedMemorySize", "1024"}));
  options.kernel = "lane";
  EXPECT_TRUE(runs_right(runtime(), "4x4 d8", options)) << "lane needs none";
}

/// Makes the driver refuse to compile the next `left` pipelines.
struct Stubborn {
  inline static int left = 0;
  inline static PFN_vkCreateComputePipelines compile = nullptr;

  static void become(const Device& device) {
    detail::DeviceFunctions& vk = own_state(device).vk;
    compile = vk.vkCreateComputePipelines;
    // A store of its own, without the pipelines of other devices' plans.
    own_state(device).pipelines = std::make_shared<detail::SharedPipelines>();
    vk.vkCreateComputePipelines = [](VkDevice handle, VkPipelineCache cache, std::uint32_t count,
                                     const VkComputePipelineCreateInfo* infos,
                                     const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
      if (left == 0) return compile(handle, cache, count, infos, allocator, pipelines);
      --left;
      return VK_ERROR_UNKNOWN;
    };
  }
};

TEST_F(LimitsOfOneKernel, PipelinesThatADriverRefusesMakeTheNextKernelRun) {
  const Problem problem = parsed("h2 33x40 d16 f16 causal");
  RunOptions options;
  options.device = device_with([](Capabilities&) {});
  const auto first = must(make_plan(runtime(), problem.desc, options));
  Stubborn::become(*options.device);
  Stubborn::left = 1;
  {
    const auto next = must(make_plan(runtime(), problem.desc, options));
    EXPECT_NE(next.kernel_name(), first.kernel_name());
    EXPECT_TRUE(has(next.describe(), "the driver did not compile attention_"));
    EXPECT_TRUE(matches_reference(runtime(), problem, next, options));
  }

  Stubborn::left = 1000;
  EXPECT_TRUE(is_refused(make_plan(runtime(), problem.desc, options), ErrorCode::kUnsupported,
                         {"lane", "tile", "VK_ERROR_UNKNOWN"}));
  Stubborn::left = 1;
  options.kernel = "tile";
  const auto forced = make_plan(runtime(), problem.desc, options);
  ASSERT_TRUE(is_refused(forced, ErrorCode::kUnsupported, {"attention_tile", "VK_ERROR_UNKNOWN"}));
  EXPECT_EQ(forced.error().vk_result, VK_ERROR_UNKNOWN);
}

/// Tensors larger than any buffer range of lavapipe (128 MiB), in allocated memory. It takes minutes, so it
/// only runs on request.
TEST_F(LimitsOfOneKernel, TensorsBeyond128MiB) {
  if (!long_tests_are_wanted()) GTEST_SKIP() << "runs with VKATTN_LONG_TESTS=1";
  RunOptions options{"lane"};
  EXPECT_TRUE(runs_right(runtime(), "h4 2x150001 d64 lse data=uniform", options));
  EXPECT_TRUE(runs_right(runtime(), "b3 h2 3x100003 d64 f16 layout=bshd data=uniform", options));
  EXPECT_TRUE(runs_right(runtime(), "2x700001 d64 lse data=uniform", options)) << "one head of 179 MB";
}

}  // namespace
}  // namespace vkattn::tests

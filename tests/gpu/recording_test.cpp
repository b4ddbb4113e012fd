// Uses a plan as an engine does: compiles it later, records it in slices, takes descriptor sets from few
// pools, and runs it on a device with few storage buffers.
#include <vkattn/frame_budget.hpp>

#include "gpu/any_kernel.hpp"
#include "support/by_threads.hpp"
#include "vulkan/buffer_usage.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

class RecordingTest : public AnyKernelTest {
 protected:
  struct Ready {
    Problem problem;
    AttentionPlan plan;
    harness::ProblemRun run;
    Buffer workspace;
  };

  static Ready ready(std::string_view text, const PlanOptions& options,
                     const std::optional<Device>& device = std::nullopt) {
    const Problem problem = parsed(typed(text));
    PlanOptions all = options;
    all.kernel = kernel();
    const UnrolledLoops unrolled(kernel().starts_with("lane") && problem.desc.kv_length > 500);
    auto plan = must(AttentionPlan::create(device ? *device : runtime().device(), problem.desc, all));
    harness::ProblemRun run = ready_run(problem);
    run.set_probability_type(plan.probability_type());
    Buffer workspace = must(runtime().create_workspace(plan));
    return {problem, std::move(plan), std::move(run), std::move(workspace)};
  }

  static std::vector<std::byte> outputs(const harness::ProblemRun& run) {
    std::vector<std::byte> all = read_back(runtime(), run.output());
    const std::vector<std::byte> lse = read_back(runtime(), run.lse());
    all.insert(all.end(), lse.begin(), lse.end());
    return all;
  }
};

INSTANTIATE_TEST_SUITE_P(Kernels, RecordingTest, testing::ValuesIn(kEveryKernelName), kernel_test_name);

/// Each slice has its own submission, so no state of an earlier slice remains.
TEST_P(RecordingTest, SlicesGiveTheBitsOfTheWhole) {
  for (const char* text : {"b2 h4 70x96 d32 lse causal", "h2 40x1200 d32 lse mask=bytes"}) {
    for (const bool push : {false, true}) {
      if (push && !capabilities().push_descriptors) continue;
      PlanOptions options;
      options.max_dispatch_ns = 1;  // one dispatch for each workgroup
      options.push_descriptors = push;
      Ready it = ready(text, options);
      std::optional<Bindings> bindings;
      if (!push) bindings.emplace(it.plan.make_bindings(it.run.tensors(), it.workspace.range()).value());
      const auto execute = [&](const RecordOptions& slice) {
        must(runtime().execute([&](VkCommandBuffer commands) {
          if (push) return must(it.plan.record(commands, it.run.tensors(), it.workspace.range(), slice));
          it.plan.record(commands, *bindings, slice);
        }));
      };
      execute({});
      expect_right(it.run);
      const std::vector<std::byte> whole = outputs(it.run);
      const auto count = static_cast<std::uint32_t>(it.plan.dispatches().size());
      EXPECT_EQ(it.plan.requirements().dispatches, count);
      EXPECT_GT(count, 2U) << text;
      const std::uint32_t step = std::max(count / 5, 1U);
      ASSERT_TRUE(it.run.poison_outputs().ok());
      for (std::uint32_t first = 0; first < count; first += step) {
        execute({.first_dispatch = first, .dispatch_count = step});
        EXPECT_EQ(outputs(it.run) == whole, first + step >= count) << text << ", slice from " << first;
      }
      EXPECT_EQ(outputs(it.run), whole) << text << (push ? ", push descriptors" : "");
      ASSERT_TRUE(it.run.poison_outputs().ok());
      const std::vector<std::byte> poison = outputs(it.run);
      execute({.first_dispatch = count});
      execute({.dispatch_count = 0});
      EXPECT_EQ(outputs(it.run), poison) << "slices without dispatches record nothing";
    }
  }
}

TEST_P(RecordingTest, PlansAreCompiledLaterByManyThreads) {
  Ready it = ready("h2 33x40 d24 lse", {.deferred_compilation = true});
  EXPECT_FALSE(it.plan.is_compiled());
  const auto bindings = must(it.plan.make_bindings(it.run.tensors(), it.workspace.range()));
#ifndef VKATTN_CHECKED  // a Debug build of the core asserts there
  const std::vector<std::byte> poison = outputs(it.run);
  ASSERT_TRUE(runtime().execute([&](VkCommandBuffer c) { it.plan.record(c, bindings); }).ok());
  EXPECT_EQ(outputs(it.run), poison) << "nothing is recorded before the plan is compiled";
#endif
  by_threads(4, [&](std::size_t) {
    const AttentionPlan copy = it.plan;
    must(copy.compile());
  });
  EXPECT_TRUE(it.plan.is_compiled());
  ASSERT_TRUE(runtime().execute(it.plan, bindings).ok());
  expect_right(it.run);
}

/// Vulkan guarantees four storage buffers for a stage.
TEST_P(RecordingTest, NoMoreStorageBuffersThanAProblemUses) {
  struct Case {
    const char* problem;
    std::uint32_t buffers;
  };
  constexpr Case kCases[] = {{"h2 9x700 d32", 4},
                             {"h2 9x40 d32 lse", 5},
                             {"h2 9x40 d32 softcap=5", 5},
                             {"h2 9x700 d32 mask=bytes", 6},
                             {"b2 h2 9x40 d32 kv_lengths=3,40 sinks alibi lse", 8}};
  for (const Case& each : part_of<Case>(kCases)) {
    const std::string problem = typed(each.problem);
    RunOptions options =
        seen_as(kernel(), [&](Capabilities& c) { c.max_stage_storage_buffers = each.buffers; });
    options.inspect = [&](const AttentionPlan& plan) {
      EXPECT_EQ(plan.requirements().storage_buffers, each.buffers) << problem;
    };
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

/// Counts the creation of pools, and forwards the calls.
struct PoolCount {
  inline static PFN_vkCreateDescriptorPool real = nullptr;
  inline static int pools = 0;
  static VKAPI_ATTR VkResult VKAPI_CALL create(VkDevice device, const VkDescriptorPoolCreateInfo* info,
                                               const VkAllocationCallbacks* allocator,
                                               VkDescriptorPool* pool) {
    ++pools;
    return real(device, info, allocator, pool);
  }
};

TEST_P(RecordingTest, ManyBindingsTakeFewPools) {
  const Device device = device_with([](Capabilities&) {});
  auto& functions = own_state(device).vk;
  PoolCount::real = functions.vkCreateDescriptorPool;
  functions.vkCreateDescriptorPool = &PoolCount::create;
  PoolCount::pools = 0;
  Ready it = ready("h2 9x20 d32 lse", {}, device);
  for (int round = 0; round < 3; ++round) {
    std::vector<Bindings> all;
    for (int i = 0; i < 100; ++i) {
      auto bindings = must(it.plan.make_bindings(it.run.tensors(), it.workspace.range()));
      all.push_back(std::move(bindings));
    }
    ASSERT_TRUE(runtime().execute(it.plan, all.back()).ok());
    expect_right(it.run);
  }
  EXPECT_LE(PoolCount::pools, 8) << "each as large as all before it";
}

TEST_P(RecordingTest, SetsComeFromAPoolOfTheCallers) {
  Ready it = ready("h2 9x20 d32 lse", {});
  const PlanRequirements needs = it.plan.requirements();
  const detail::DeviceState& device = runtime().device().state();
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  needs.storage_buffers * needs.descriptor_sets};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = needs.descriptor_sets;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  ASSERT_EQ(device.vk.vkCreateDescriptorPool(device.device, &info, nullptr, &pool), VK_SUCCESS);
  {
    const auto bindings = must(it.plan.make_bindings(it.run.tensors(), it.workspace.range(), pool));
    ASSERT_TRUE(runtime().execute(it.plan, bindings).ok());
    expect_right(it.run);
  }
  device.vk.vkDestroyDescriptorPool(device.device, pool, nullptr);
}

TEST_P(RecordingTest, RequirementsNameTheWorkspace) {
  const AttentionPlan plan = ready("h2 9x700 d32", {.kv_splits = 2}).plan;
  const PlanRequirements needs = plan.requirements();
  EXPECT_EQ(needs.workspace_bytes, plan.workspace_bytes());
  EXPECT_GT(needs.workspace_bytes, 0U);
  EXPECT_EQ(needs.workspace_alignment, capabilities().min_storage_offset_alignment);
  EXPECT_EQ(needs.workspace_usage, detail::storage_usage(capabilities().buffer_addresses));
  EXPECT_EQ(needs.tensor_usage, needs.workspace_usage);
  EXPECT_EQ(needs.first_stages, static_cast<VkPipelineStageFlags>(VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT));
  // decode can combine the parts itself, by counts in the memory of parameters.
  const bool counts = plan.dispatches().back().pass == "decode";
  EXPECT_EQ(needs.dispatches, counts ? 1U : 2U);
  EXPECT_EQ(needs.storage_buffers, counts ? 6U : 5U);
  EXPECT_EQ(needs.parameter_bytes != 0, counts);
  EXPECT_EQ(needs.descriptor_sets, 1U);
  // Up to five addresses come behind what every device has.
  EXPECT_LE(needs.push_constant_bytes, capabilities().buffer_addresses ? 128U + 40U : 128U);
}

}  // namespace
}  // namespace vkattn::tests

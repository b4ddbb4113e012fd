// Many threads on one device, and many devices in one process. Each thread has its own command buffers and
// bindings. Only the queue is locked, as Vulkan requires.
#include <mutex>
#include <vector>

#include "gpu/support.hpp"
#include "runtime/runtime_state.hpp"
#include "support/by_threads.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

/// A command buffer of one thread.
class OwnCommands {
 public:
  explicit OwnCommands(const Runtime& runtime) : state_(detail::RuntimeState::of(runtime)) {
    VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    pool_info.queueFamilyIndex = state_.queue_family;
    EXPECT_EQ(state_.vk.vkCreateCommandPool(state_.handle, &pool_info, nullptr, &pool_), VK_SUCCESS);
    VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    info.commandPool = pool_;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    EXPECT_EQ(state_.vk.vkAllocateCommandBuffers(state_.handle, &info, &commands_), VK_SUCCESS);
    const VkFenceCreateInfo fence_info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    EXPECT_EQ(state_.vk.vkCreateFence(state_.handle, &fence_info, nullptr, &fence_), VK_SUCCESS);
  }
  OwnCommands(const OwnCommands&) = delete;
  OwnCommands& operator=(const OwnCommands&) = delete;
  ~OwnCommands() {
    state_.vk.vkDestroyFence(state_.handle, fence_, nullptr);
    state_.vk.vkDestroyCommandPool(state_.handle, pool_, nullptr);
  }

  [[nodiscard]] VkResult execute(const AttentionPlan& plan, const Bindings& bindings, std::mutex& queue) {
    VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    if (const VkResult result = state_.vk.vkBeginCommandBuffer(commands_, &info); result != VK_SUCCESS) {
      return result;
    }
    plan.record(commands_, bindings);
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
    state_.vk.vkCmdPipelineBarrier(commands_, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                   VK_PIPELINE_STAGE_HOST_BIT | VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                                   &barrier, 0, nullptr, 0, nullptr);
    if (const VkResult result = state_.vk.vkEndCommandBuffer(commands_); result != VK_SUCCESS) return result;
    VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands_;
    {
      const std::lock_guard lock(queue);
      const VkResult result = state_.vk.vkQueueSubmit(state_.queue, 1, &submit, fence_);
      if (result != VK_SUCCESS) return result;
    }
    const VkResult done = state_.vk.vkWaitForFences(state_.handle, 1, &fence_, VK_TRUE, ~std::uint64_t{0});
    return done == VK_SUCCESS ? state_.vk.vkResetFences(state_.handle, 1, &fence_) : done;
  }

 private:
  detail::RuntimeState& state_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
};

class ThreadsTest : public GpuTest {
 protected:
  /// Runs the problem on a runtime and returns its output.
  static std::vector<std::byte> output_of(const Problem& problem, const Runtime& on) {
    harness::ProblemRun run = ready_run(problem, on);
    const auto plan = must(on.make_plan(problem.desc));
    for (int round = 0; round < 5; ++round) must(run.execute(plan));
    expect_right(run);
    return read_back(on, run.output());
  }
};

TEST_F(ThreadsTest, MakePlansBindRecordAndExecuteOnOneDevice) {
  constexpr const char* kProblems[] = {"h2 9x40 d16 lse softcap=3", "b2 h2 q2 kv90 d16 f16 causal"};
  constexpr std::size_t kThreads = 8;
  std::vector<harness::ProblemRun> runs;  // a single thread makes a runtime's buffers
  std::vector<Buffer> workspaces;
  for (std::size_t i = 0; i < kThreads; ++i) {
    runs.push_back(ready_run(parsed(kProblems[i % 2])));
    workspaces.push_back(must(runtime().create_buffer(1U << 20U)));
  }
  std::mutex queue;
  by_threads(kThreads, [&](std::size_t i) {
    OwnCommands commands(runtime());
    for (const char* kernel : {"lane", "decode"}) {
      if (!reason_against(runtime(), kernel, to_string(runs[i].problem())).empty()) continue;
      const auto plan = must(AttentionPlan::create(runtime().device(), runs[i].problem().desc,
                                                   {.kernel = kernel, .kv_splits = 2}));
      EXPECT_FALSE(plan.describe().empty());
      for (int round = 0; round < 5; ++round) {
        const auto bindings = must(plan.make_bindings(runs[i].tensors(), workspaces[i].range()));
        EXPECT_EQ(commands.execute(plan, bindings, queue), VK_SUCCESS);
      }
    }
  });
  for (std::size_t i = 0; i < kThreads; ++i) {
    expect_right(runs[i]);
    EXPECT_EQ(read_back(runtime(), runs[i].output()), read_back(runtime(), runs[i % 2].output()));
  }
}

/// All runtimes keep their caches in one folder.
TEST_F(ThreadsTest, MakeRuntimesOfTheirOwnAgainAndAgain) {
  const TempFolder folder;
  std::vector<std::vector<std::byte>> outputs(3);
  by_threads(outputs.size(), [&](std::size_t i) {
    for (int round = 0; round < 3; ++round) {
      outputs[i] = output_of(parsed("h2 9x40 d16 lse"), must(Runtime::create({.cache_dir = folder.path()})));
    }
  });
  for (const auto& output : outputs) EXPECT_EQ(output, outputs[0]);
}

/// Plans of one device must not affect the other device.
TEST_F(ThreadsTest, MeanwhileOfTwoDevicesBothAreUsed) {
  const Runtime second = must(Runtime::create({.pipeline_cache = false}));
  const Runtime* const runtimes[] = {&runtime(), &second};
  std::vector<std::vector<std::byte>> outputs(2);
  by_threads(
      2, [&](std::size_t i) { outputs[i] = output_of(parsed("h2 9x40 d16 lse softcap=3"), *runtimes[i]); });
  EXPECT_EQ(outputs[0], outputs[1]);
}

}  // namespace
}  // namespace vkattn::tests

// One device and one plan, two threads. Each thread records and submits its own executions, with its own
// bindings, command pool and buffers. The only lock is the one that Vulkan requires around the queue. The
// results have the same bits as one thread's.
#include <array>
#include <mutex>
#include <thread>

#include "common.hpp"

namespace {

using example::Buffer;
using example::check;
using example::checked;
using example::Gpu;

constexpr std::size_t kHeads = 2, kQueries = 24, kKeys = 300, kDim = 32;
constexpr std::size_t kQueryFloats = kHeads * kQueries * kDim, kKeyFloats = kHeads * kKeys * kDim;
constexpr std::size_t kInputs = 3, kExecutions = 60, kBatch = 4;  // command buffers in one submission

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  std::uint32_t family = 0;
  std::mutex mutex;  // one thread at a time may use a VkQueue
};

// The objects of one thread.
class Worker {
 public:
  Worker(const Gpu& gpu, Queue& queue, const vkattn::AttentionPlan& plan)
      : gpu_(gpu), queue_(queue), plan_(plan), pool_(gpu, queue.family) {
    for (std::size_t i = 0; i < kInputs; ++i) {
      Buffer& buffer = inputs_.emplace_back(gpu, (kQueryFloats + 2 * kKeyFloats) * sizeof(float),
                                            plan.requirements().tensor_usage);
      for (std::size_t j = 0; j < buffer.values().size(); ++j)
        buffer.values()[j] = std::sin(static_cast<float>(i + 1) + 0.61F * static_cast<float>(j));
    }
    for (std::size_t i = 0; i < kBatch; ++i) {
      outputs_.emplace_back(gpu, kQueryFloats * sizeof(float), plan.requirements().tensor_usage);
      workspaces_.push_back(example::make_workspace(gpu, plan));
      commands_.push_back(pool_.allocate());
      // Another thread may make bindings of this plan at the same time.
      bindings_.push_back(checked(plan.make_bindings(tensors(i, 0), workspaces_[i].range())));
    }
    const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    check(vkCreateFence(gpu.device, &info, nullptr, &fence_), "vkCreateFence");
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { vkDestroyFence(gpu_.device, fence_, nullptr); }

  // Execution i works on input i modulo kInputs. Returns all outputs, one after the other.
  std::vector<float> run() {
    std::vector<float> all;
    for (std::size_t first = 0; first < kExecutions; first += kBatch) {
      for (std::size_t i = 0; i < kBatch; ++i) record(i, (first + i) % kInputs);
      submit_and_wait();
      for (const Buffer& output : outputs_)
        all.insert(all.end(), output.values().begin(), output.values().end());
    }
    return all;
  }

  // The largest difference of the outputs of the first executions from the plain formula.
  [[nodiscard]] double difference(std::span<const float> outputs) const {
    double largest = 0;
    for (std::size_t row = 0; row < kInputs * kHeads * kQueries; ++row) {
      const std::span<const float> input = inputs_[row / (kHeads * kQueries)].values();
      const std::size_t in_input = row % (kHeads * kQueries);
      const std::size_t first_key = kQueryFloats + in_input / kQueries * kKeys * kDim;
      const std::vector<double> expected = example::plain_attention(
          input.subspan(in_input * kDim, kDim), input.subspan(first_key, kKeys * kDim),
          input.subspan(first_key + kKeyFloats, kKeys * kDim));
      const double each = example::largest_difference(outputs.subspan(row * kDim, kDim), expected);
      if (!(each <= largest)) largest = each;
    }
    return largest;
  }

 private:
  [[nodiscard]] vkattn::AttentionTensors tensors(std::size_t slot, std::size_t input) const {
    const VkBuffer buffer = inputs_[input].handle();
    vkattn::AttentionTensors all;
    all.query = {buffer, 0, kQueryFloats * sizeof(float)};
    all.key = {buffer, kQueryFloats * sizeof(float), kKeyFloats * sizeof(float)};
    all.value = {buffer, (kQueryFloats + kKeyFloats) * sizeof(float), kKeyFloats * sizeof(float)};
    all.output = outputs_[slot].range();
    return all;
  }

  void record(std::size_t slot, std::size_t input) {
    // These bindings are idle: run() has waited for earlier submissions.
    checked(plan_.rewrite(bindings_[slot], tensors(slot, input), workspaces_[slot].range()));
    const vkattn::PlanRequirements needs = plan_.requirements();
    example::begin(commands_[slot]);
    plan_.record(commands_[slot], bindings_[slot]);
    example::barrier(commands_[slot], needs.last_stages, needs.last_access, VK_PIPELINE_STAGE_HOST_BIT,
                     VK_ACCESS_HOST_READ_BIT);
    check(vkEndCommandBuffer(commands_[slot]), "vkEndCommandBuffer");
  }

  void submit_and_wait() {
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = kBatch;
    info.pCommandBuffers = commands_.data();
    {
      const std::lock_guard lock(queue_.mutex);
      check(vkQueueSubmit(queue_.handle, 1, &info, fence_), "vkQueueSubmit");
    }
    check(vkWaitForFences(gpu_.device, 1, &fence_, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    check(vkResetFences(gpu_.device, 1, &fence_), "vkResetFences");
  }

  const Gpu& gpu_;
  Queue& queue_;
  vkattn::AttentionPlan plan_;
  example::CommandPool pool_;
  std::vector<Buffer> inputs_, outputs_, workspaces_;
  std::vector<VkCommandBuffer> commands_;
  std::vector<vkattn::Bindings> bindings_;
  VkFence fence_ = VK_NULL_HANDLE;
};

bool run() {
  Gpu gpu(VK_API_VERSION_1_1);
  const std::optional<std::uint32_t> family = gpu.family(VK_QUEUE_COMPUTE_BIT);
  if (!family) example::skip("no Vulkan device with a compute queue");
  const float priority = 1;
  VkDeviceQueueCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  info.queueFamilyIndex = *family;
  info.queueCount = 1;
  info.pQueuePriorities = &priority;
  gpu.open({&info, 1});
  Queue queue;
  queue.family = *family;
  vkGetDeviceQueue(gpu.device, *family, 0, &queue.handle);

  vkattn::AttentionDesc desc;
  desc.query_heads = kHeads;
  desc.query_length = kQueries;
  desc.kv_length = kKeys;
  desc.head_dim = kDim;
  const auto plan = checked(vkattn::AttentionPlan::create(gpu.attention(), desc));

  Worker alone(gpu, queue, plan);
  const std::vector<float> expected = alone.run();
  const double difference = alone.difference(expected);
  std::printf("one thread: %zu executions, largest difference from the formula %.1e\n", kExecutions,
              difference);

  std::array<std::vector<float>, 2> results;
  std::array<std::thread, 2> threads;
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads[i] = std::thread([&, i] { results[i] = Worker(gpu, queue, plan).run(); });
  for (std::thread& thread : threads) thread.join();
  bool right = difference < 1e-5;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const bool same = results[i].size() == expected.size() &&
                      std::memcmp(results[i].data(), expected.data(), expected.size() * sizeof(float)) == 0;
    std::printf("thread %zu: %zu executions, bits %s\n", i, kExecutions, same ? "the same" : "differ");
    right = right && same;
  }
  return right;
}

}  // namespace

int main() {
  return example::exit_code(run());
}

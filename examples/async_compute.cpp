// Attention on a compute queue beside a graphics queue: while attention of one frame runs, graphics writes
// the inputs of the next. Each queue counts on its own timeline semaphore, and buffers change owner if the
// queues have different families. A device with one queue runs the same code on that queue.
//
// Copies stand in for graphics: inputs from the host, and the output back to it.
#include <array>
#include <deque>

#include "common.hpp"

namespace {

using example::Buffer;
using example::check;
using example::checked;
using example::Gpu;

constexpr std::size_t kHeads = 4, kQueries = 32, kKeys = 80, kDim = 32;
constexpr std::size_t kQueryFloats = kHeads * kQueries * kDim, kKeyFloats = kHeads * kKeys * kDim;
constexpr std::size_t kInputFloats = kQueryFloats + 2 * kKeyFloats;
constexpr std::size_t kFrames = 12, kFramesInFlight = 2;

// A queue and its progress: each submission signals the next value.
class Queue {
 public:
  Queue(const Gpu& gpu, std::uint32_t family, std::uint32_t index)
      : family_(family), pool_(gpu, family), timeline_(gpu) {
    vkGetDeviceQueue(gpu.device, family, index, &handle_);
  }

  [[nodiscard]] std::uint32_t family() const { return family_; }
  [[nodiscard]] const example::CommandPool& pool() const { return pool_; }
  [[nodiscard]] const example::Timeline& timeline() const { return timeline_; }

  // Submits behind `value` of the other queue's timeline: `stages` wait, as they use that queue's results.
  // Returns the value that this queue's timeline will have.
  std::uint64_t submit(VkCommandBuffer commands, const Queue& other, std::uint64_t value,
                       VkPipelineStageFlags stages) {
    ++value_;
    const VkSemaphore wait = other.timeline_.handle(), signal = timeline_.handle();
    VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    values.waitSemaphoreValueCount = values.signalSemaphoreValueCount = 1;
    values.pWaitSemaphoreValues = &value;
    values.pSignalSemaphoreValues = &value_;
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
    info.waitSemaphoreCount = info.signalSemaphoreCount = 1;
    info.pWaitSemaphores = &wait;
    info.pWaitDstStageMask = &stages;
    info.pSignalSemaphores = &signal;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    check(vkQueueSubmit(handle_, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    return value_;
  }

 private:
  std::uint32_t family_;
  example::CommandPool pool_;
  example::Timeline timeline_;
  VkQueue handle_ = VK_NULL_HANDLE;
  std::uint64_t value_ = 0;
};

// One half of handing a buffer over: a release on the old owner's queue, or the acquire, with the same
// families, on the new owner's. Within a family the semaphore is enough.
void hand_over(VkCommandBuffer commands, const Buffer& buffer, const Queue& from, const Queue& to,
               VkPipelineStageFlags before, VkAccessFlags written, VkPipelineStageFlags after,
               VkAccessFlags used) {
  if (from.family() == to.family()) return;
  VkBufferMemoryBarrier barrier{VK_STRUCTURE_TYPE_BUFFER_MEMORY_BARRIER};
  barrier.srcAccessMask = written;
  barrier.dstAccessMask = used;
  barrier.srcQueueFamilyIndex = from.family();
  barrier.dstQueueFamilyIndex = to.family();
  barrier.buffer = buffer.handle();
  barrier.size = VK_WHOLE_SIZE;
  vkCmdPipelineBarrier(commands, before, after, 0, 0, nullptr, 1, &barrier, 0, nullptr);
}

vkattn::AttentionPlan make_plan(const Gpu& gpu) {
  vkattn::AttentionDesc desc;
  desc.query_heads = kHeads;
  desc.query_length = kQueries;
  desc.kv_length = kKeys;
  desc.head_dim = kDim;
  return checked(vkattn::AttentionPlan::create(gpu.attention(), desc));
}

// The objects of one frame in flight.
struct Frame {
  Frame(const Gpu& gpu, const Queue& graphics, const Queue& compute, const vkattn::AttentionPlan& plan)
      : upload(gpu, kInputFloats * 4, VK_BUFFER_USAGE_TRANSFER_SRC_BIT),
        inputs(gpu, kInputFloats * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        output(gpu, kQueryFloats * 4, VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_STORAGE_BUFFER_BIT),
        download(gpu, kQueryFloats * 4, VK_BUFFER_USAGE_TRANSFER_DST_BIT),
        workspace(example::make_workspace(gpu, plan)),
        bindings(checked(plan.make_bindings(tensors(), workspace.range()))) {
    write = graphics.pool().allocate();
    attend = compute.pool().allocate();
    read = graphics.pool().allocate();
  }
  [[nodiscard]] vkattn::AttentionTensors tensors() const {
    vkattn::AttentionTensors all;
    all.query = {inputs.handle(), 0, kQueryFloats * 4};
    all.key = {inputs.handle(), kQueryFloats * 4, kKeyFloats * 4};
    all.value = {inputs.handle(), (kQueryFloats + kKeyFloats) * 4, kKeyFloats * 4};
    all.output = output.range();
    return all;
  }
  Buffer upload, inputs, output, download, workspace;
  vkattn::Bindings bindings;
  VkCommandBuffer write = VK_NULL_HANDLE, attend = VK_NULL_HANDLE, read = VK_NULL_HANDLE;
  std::uint64_t attended = 0, finished = 0;  // values of the compute timeline, and of the graphics timeline
};

void copy(VkCommandBuffer commands, const Buffer& from, const Buffer& to) {
  const VkBufferCopy region{0, 0, from.range().size};
  vkCmdCopyBuffer(commands, from.handle(), to.handle(), 1, &region);
}

class Frames {
 public:
  Frames(const Gpu& gpu, Queue& graphics, Queue& compute)
      : graphics_(graphics), compute_(compute), plan_(make_plan(gpu)), needs_(plan_.requirements()) {
    for (std::size_t i = 0; i < kFramesInFlight; ++i) frames_.emplace_back(gpu, graphics, compute, plan_);
  }

  bool run() {
    bool right = true;
    for (std::size_t n = 0; n < kFrames; ++n) {
      if (n >= kFramesInFlight) right = is_right(n - kFramesInFlight) && right;
      submit_inputs(n);  // graphics writes one frame ahead of the one it reads
      if (n > 0) submit_reading(n - 1);
    }
    submit_reading(kFrames - 1);
    for (std::size_t n = kFrames - kFramesInFlight; n < kFrames; ++n) right = is_right(n) && right;
    return right;
  }

 private:
  [[nodiscard]] Frame& frame(std::size_t n) { return frames_[n % kFramesInFlight]; }
  static float input(std::size_t n, std::size_t i) {
    return std::sin(static_cast<float>(1 + 7 * n) + 0.37F * static_cast<float>(i));
  }

  // Graphics writes, compute attends.
  void submit_inputs(std::size_t n) {
    Frame& it = frame(n);
    for (std::size_t i = 0; i < kInputFloats; ++i) it.upload.values()[i] = input(n, i);
    example::begin(it.write);
    // Nothing of compute's old contents is kept, so compute need not release the buffer.
    copy(it.write, it.upload, it.inputs);
    hand_over(it.write, it.inputs, graphics_, compute_, VK_PIPELINE_STAGE_TRANSFER_BIT,
              VK_ACCESS_TRANSFER_WRITE_BIT, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0);
    check(vkEndCommandBuffer(it.write), "vkEndCommandBuffer");
    const std::uint64_t written =
        graphics_.submit(it.write, compute_, 0, VK_PIPELINE_STAGE_TRANSFER_BIT);  // 0: no wait

    example::begin(it.attend);
    hand_over(it.attend, it.inputs, graphics_, compute_, needs_.first_stages, 0, needs_.first_stages,
              needs_.first_access);
    plan_.record(it.attend, it.bindings);
    hand_over(it.attend, it.output, compute_, graphics_, needs_.last_stages, needs_.last_access,
              VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0);
    check(vkEndCommandBuffer(it.attend), "vkEndCommandBuffer");
    it.attended = compute_.submit(it.attend, graphics_, written, needs_.first_stages);
  }

  // Graphics uses the results of attention.
  void submit_reading(std::size_t n) {
    Frame& it = frame(n);
    example::begin(it.read);
    hand_over(it.read, it.output, compute_, graphics_, VK_PIPELINE_STAGE_TRANSFER_BIT, 0,
              VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
    copy(it.read, it.output, it.download);
    example::barrier(it.read, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                     VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    check(vkEndCommandBuffer(it.read), "vkEndCommandBuffer");
    it.finished = graphics_.submit(it.read, compute_, it.attended, VK_PIPELINE_STAGE_TRANSFER_BIT);
  }

  // Waits for the frame and checks it. Its buffers are free afterwards.
  bool is_right(std::size_t n) {
    Frame& it = frame(n);
    graphics_.timeline().wait(it.finished);
    std::vector<float> inputs;
    for (std::size_t i = 0; i < kInputFloats; ++i) inputs.push_back(input(n, i));
    const std::span<const float> all(inputs);
    double largest = 0;
    for (std::size_t row = 0; row < kHeads * kQueries; ++row) {
      const std::size_t first_key = kQueryFloats + row / kQueries * kKeys * kDim;
      const std::vector<double> expected =
          example::plain_attention(all.subspan(row * kDim, kDim), all.subspan(first_key, kKeys * kDim),
                                   all.subspan(first_key + kKeyFloats, kKeys * kDim));
      const double each =
          example::largest_difference(it.download.values().subspan(row * kDim, kDim), expected);
      if (!(each <= largest)) largest = each;
    }
    std::printf("frame %zu: graphics at %llu, compute at %llu, largest difference %.1e\n", n,
                static_cast<unsigned long long>(it.finished), static_cast<unsigned long long>(it.attended),
                largest);
    return largest < 1e-5;
  }

  Queue& graphics_;
  Queue& compute_;
  vkattn::AttentionPlan plan_;
  vkattn::PlanRequirements needs_;
  std::deque<Frame> frames_;
};

struct Choice {
  std::uint32_t graphics_family, compute_family, compute_index;
};

// Two families if the device has them, otherwise two queues of one family, otherwise one queue for both.
Choice choose(const Gpu& gpu) {
  const auto graphics = gpu.family(VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT);
  const auto compute = gpu.family(VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT);
  if (!graphics && !compute) example::skip("no Vulkan device with a compute queue");
  if (graphics && compute) {
    std::printf("graphics on a queue of family %u, compute on one of family %u\n", *graphics, *compute);
    return {*graphics, *compute, 0};
  }
  const std::uint32_t family = graphics ? *graphics : *compute;
  const bool two = gpu.families[family].queueCount > 1;
  std::printf(two ? "two queues of family %u\n" : "one queue of family %u for both\n", family);
  return {family, family, two ? 1U : 0U};
}

bool run() {
  Gpu gpu(VK_API_VERSION_1_2);
  const Choice choice = choose(gpu);
  const float priorities[] = {1, 1};
  std::vector<VkDeviceQueueCreateInfo> queues(1);
  queues[0].sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queues[0].queueFamilyIndex = choice.graphics_family;
  queues[0].queueCount = choice.compute_index + 1;
  queues[0].pQueuePriorities = priorities;
  if (choice.compute_family != choice.graphics_family) {
    queues.push_back(queues[0]);
    queues[1].queueFamilyIndex = choice.compute_family;
  }
  VkPhysicalDeviceVulkan12Features features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  features.timelineSemaphore = VK_TRUE;
  gpu.open(queues, &features);
  Queue graphics(gpu, choice.graphics_family, 0);
  Queue compute(gpu, choice.compute_family, choice.compute_index);
  return Frames(gpu, graphics, compute).run();
}

}  // namespace

int main() {
  return example::exit_code(run());
}

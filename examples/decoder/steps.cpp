#include "decoder/steps.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "decoder/terminal.hpp"
#include "engine/make_pipelines.hpp"

namespace decoder {

namespace {

constexpr std::uint32_t kSets = 256;           // of a pool
constexpr std::uint32_t kMostBuffers = 5;      // the most of a shader
constexpr std::uint32_t kMostColumns = 32768;  // of workgroups; every device has 65535

}  // namespace

std::vector<vkattn::DispatchInfo> dispatches_of(const Steps& steps) {
  std::vector<vkattn::DispatchInfo> all;
  for (const Step& step : steps) all.insert(all.end(), step.dispatches.begin(), step.dispatches.end());
  return all;
}

void record_all(VkCommandBuffer commands, const Steps& steps, vkattn::RecordOptions slice) {
  for (const Step& step : steps) {
    const auto count = static_cast<std::uint32_t>(step.dispatches.size());
    if (slice.dispatch_count == 0) return;
    if (slice.first_dispatch >= count) {
      slice.first_dispatch -= count;
      continue;
    }
    vkattn::RecordOptions part = slice;
    part.dispatch_count = std::min(slice.dispatch_count, count - slice.first_dispatch);
    step.record(commands, part);
    slice.dispatch_count -= part.dispatch_count;
    slice.first_dispatch = 0;
  }
}

double execute(const vkattn::Runtime& runtime, const Steps& steps, const vkattn::RecordOptions& slice) {
  return checked(runtime.execute([&](VkCommandBuffer commands) { record_all(commands, steps, slice); }))
      .front();
}

void compile_all(const std::vector<std::function<vkattn::Result<void>()>>& plans) {
  std::atomic<std::size_t> begun = 0;
  const auto work = [&] {
    vkattn::Result<void> status;
    for (std::size_t plan = begun++; status && plan < plans.size(); plan = begun++) status = plans[plan]();
    if (!status) begun = plans.size();  // nobody begins another
    return status;
  };
  const std::size_t most = std::max(std::thread::hardware_concurrency(), 1U);
  std::vector<std::future<vkattn::Result<void>>> workers;
  for (std::size_t i = 0; i < std::min(plans.size(), most); ++i)
    workers.push_back(std::async(std::launch::async, work));
  ProgressLine line;
  const auto tell = [&](std::size_t count) {
    line.update(static_cast<double>(count) / static_cast<double>(plans.size()),
                "compiling " + std::to_string(count) + " of " + std::to_string(plans.size()) + " plans");
  };
  for (const auto& worker : workers) {
    while (worker.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
      tell(std::min(begun.load(), plans.size()));
  }
  vkattn::Result<void> status;
  for (auto& worker : workers) {  // all end before a refusal ends the program
    vkattn::Result<void> result = worker.get();
    if (status) status = std::move(result);
  }
  checked(status);
}

Shaders::~Shaders() {
  for (const auto& [code, each] : pipelines_) {
    vkDestroyPipeline(device_, each.pipeline, nullptr);
    vkDestroyPipelineLayout(device_, each.layout, nullptr);
    vkDestroyDescriptorSetLayout(device_, each.set_layout, nullptr);
  }
  for (VkDescriptorPool pool : pools_) vkDestroyDescriptorPool(device_, pool, nullptr);
}

Step Shaders::make_step(const Shader& shader, std::initializer_list<vkattn::BufferRange> buffers,
                        std::int64_t groups, const Words& push) {
  Pipeline& made = pipelines_[shader.code.data()];
  if (made.pipeline == VK_NULL_HANDLE) {
    const auto count = static_cast<std::uint32_t>(buffers.size());
    made.set_layout = engine::make_set_layout(device_, count, VK_SHADER_STAGE_COMPUTE_BIT);
    made.layout = engine::make_layout(device_, made.set_layout, VK_SHADER_STAGE_COMPUTE_BIT, sizeof(Words));
    made.pipeline = engine::make_compute(device_, made.layout, shader.code, runtime_.pipeline_cache());
  }
  if (sets_left_ == 0) {
    pools_.push_back(engine::make_set_pool(device_, kMostBuffers, kSets));
    sets_left_ = kSets;
  }
  --sets_left_;
  std::vector<VkDescriptorBufferInfo> ranges;
  for (const vkattn::BufferRange& range : buffers) ranges.push_back({range.buffer, range.offset, range.size});
  VkDescriptorSet set = engine::make_set(device_, pools_.back(), made.set_layout, ranges);
  const auto count = static_cast<std::uint32_t>(groups);
  const std::uint32_t columns = std::min(count, kMostColumns), rows = (count + columns - 1) / columns;
  const auto record = [=, made = made](VkCommandBuffer commands, const vkattn::RecordOptions&) {
    // Later reads and writes wait for earlier writes, and later writes for earlier reads.
    example::barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                     VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                     VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, made.pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, made.layout, 0, 1, &set, 0, nullptr);
    vkCmdPushConstants(commands, made.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Words), push.data());
    vkCmdDispatch(commands, columns, rows, 1);
  };
  return {record, {{.pass = shader.name, .tile_count = 1}}};
}

}  // namespace decoder

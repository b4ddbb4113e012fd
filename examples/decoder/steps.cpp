#include "decoder/steps.hpp"

#include <mutex>
#include <optional>
#include <thread>

namespace decoder {

namespace {

constexpr std::uint32_t kSets = 256;           // of a pool
constexpr std::uint32_t kMostBuffers = 5;      // the most of a shader
constexpr std::uint32_t kMostColumns = 32768;  // of workgroups; every device has 65535

// Later reads and writes wait for earlier writes, and later writes for earlier reads.
void record_barrier(VkCommandBuffer commands) {
  const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

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

void compile_all(const std::vector<std::function<vkattn::Result<void>()>>& plans,
                 const OnCompile& on_compile) {
  std::mutex mutex;
  std::size_t begun = 0;
  std::optional<vkattn::Error> error;
  const auto work = [&] {
    for (;;) {
      std::unique_lock lock(mutex);
      if (begun == plans.size() || error) return;
      const std::size_t plan = begun++;
      if (on_compile) on_compile(begun, plans.size());
      lock.unlock();
      const vkattn::Result<void> status = plans[plan]();
      lock.lock();
      if (!status && !error) error = status.error();
    }
  };
  std::vector<std::thread> threads;
  const std::size_t count = std::min<std::size_t>(plans.size(), std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& each : threads) each.join();
  if (error) checked(vkattn::Result<void>(*error));
}

Shaders::Shaders(const vkattn::Runtime& runtime, std::span<const ShaderRow> table)
    : Shaders(runtime.device().handle()) {
  table_ = table;
  pipelines_.resize(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) create(pipelines_[i], table[i], runtime.pipeline_cache());
}

Shaders::~Shaders() {
  for (const Pipeline& each : pipelines_) {
    vkDestroyPipeline(device_, each.pipeline, nullptr);
    vkDestroyPipelineLayout(device_, each.layout, nullptr);
    vkDestroyDescriptorSetLayout(device_, each.set_layout, nullptr);
  }
  for (VkDescriptorPool pool : pools_) vkDestroyDescriptorPool(device_, pool, nullptr);
}

void Shaders::create(Pipeline& pipeline, const ShaderRow& row, VkPipelineCache cache) const {
  std::array<VkDescriptorSetLayoutBinding, kMostBuffers> bindings{};
  for (std::uint32_t i = 0; i < row.buffers; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set_info.bindingCount = row.buffers;
  set_info.pBindings = bindings.data();
  check(vkCreateDescriptorSetLayout(device_, &set_info, nullptr, &pipeline.set_layout),
        "vkCreateDescriptorSetLayout");
  const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Words)};
  VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &pipeline.set_layout;
  layout_info.pushConstantRangeCount = 1;
  layout_info.pPushConstantRanges = &push;
  check(vkCreatePipelineLayout(device_, &layout_info, nullptr, &pipeline.layout), "vkCreatePipelineLayout");
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = row.code.size_bytes();
  module_info.pCode = row.code.data();
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = "main";
  info.layout = pipeline.layout;
  check(vkCreateShaderModule(device_, &module_info, nullptr, &info.stage.module), "vkCreateShaderModule");
  const VkResult result = vkCreateComputePipelines(device_, cache, 1, &info, nullptr, &pipeline.pipeline);
  vkDestroyShaderModule(device_, info.stage.module, nullptr);
  check(result, "vkCreateComputePipelines");
}

Shaders::Dispatch Shaders::dispatch_of(std::size_t number, std::span<const vkattn::BufferRange> buffers,
                                       std::int64_t groups) {
  const Pipeline& pipeline = pipelines_[number];
  const auto count = static_cast<std::uint32_t>(groups);
  const std::uint32_t columns = std::min(count, kMostColumns);
  Dispatch dispatch{pipeline.pipeline, pipeline.layout, VK_NULL_HANDLE, columns,
                    (count + columns - 1) / columns};
  if (pools_.empty() || sets_ == kSets) {
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kSets * kMostBuffers};
    VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool.maxSets = kSets;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device_, &pool, nullptr, &pools_.emplace_back()), "vkCreateDescriptorPool");
    sets_ = 0;
  }
  ++sets_;
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pools_.back();
  info.descriptorSetCount = 1;
  info.pSetLayouts = &pipeline.set_layout;
  check(vkAllocateDescriptorSets(device_, &info, &dispatch.set), "vkAllocateDescriptorSets");
  std::vector<VkDescriptorBufferInfo> ranges;
  for (const vkattn::BufferRange& range : buffers) ranges.push_back({range.buffer, range.offset, range.size});
  VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = dispatch.set;
  write.descriptorCount = static_cast<std::uint32_t>(ranges.size());  // consecutive bindings
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = ranges.data();
  vkUpdateDescriptorSets(device_, 1, &write, 0, nullptr);
  return dispatch;
}

void Shaders::Dispatch::record(VkCommandBuffer commands, const Words& push) const {
  record_barrier(commands);
  vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Words), push.data());
  vkCmdDispatch(commands, columns, rows, 1);
}

}  // namespace decoder

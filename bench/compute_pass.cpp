// Descriptors and recording of a ComputePass; the pipeline itself is the core library's.
#include "compute_pass.hpp"

#include <utility>
#include <vector>

#include "common/message.hpp"

namespace vkattn::bench {

ComputePass::ComputePass(ComputePass&& other) noexcept
    : device_(std::move(other.device_)),
      pipeline_(std::move(other.pipeline_)),
      pool_(std::exchange(other.pool_, VK_NULL_HANDLE)),
      set_(std::exchange(other.set_, VK_NULL_HANDLE)) {}

ComputePass::~ComputePass() {
  if (pool_ != VK_NULL_HANDLE) device_->vk.vkDestroyDescriptorPool(device_->device, pool_, nullptr);
}

VkResult ComputePass::create_descriptors(std::span<const BufferRange> buffers) {
  const detail::DeviceFunctions& vk = device_->vk;
  const auto count = static_cast<std::uint32_t>(buffers.size());
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, count};
  VkDescriptorPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
  pool_info.maxSets = 1;
  pool_info.poolSizeCount = 1;
  pool_info.pPoolSizes = &size;
  VkResult result = vk.vkCreateDescriptorPool(device_->device, &pool_info, nullptr, &pool_);
  if (result != VK_SUCCESS) return result;

  const VkDescriptorSetLayout layout = pipeline_.set_layout();
  VkDescriptorSetAllocateInfo set_info{};
  set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
  set_info.descriptorPool = pool_;
  set_info.descriptorSetCount = 1;
  set_info.pSetLayouts = &layout;
  result = vk.vkAllocateDescriptorSets(device_->device, &set_info, &set_);
  if (result != VK_SUCCESS) return result;

  std::vector<VkDescriptorBufferInfo> infos;
  for (const BufferRange& range : buffers) infos.push_back({range.buffer, 0, range.size});
  VkWriteDescriptorSet write{};
  write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
  write.dstSet = set_;
  write.descriptorCount = count;  // runs on over the bindings after 0
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = infos.data();
  vk.vkUpdateDescriptorSets(device_->device, 1, &write, 0, nullptr);
  return VK_SUCCESS;
}

Result<ComputePass> ComputePass::create(const Runtime& runtime, std::span<const std::uint32_t> spirv,
                                        std::span<const detail::SpecializationValue> specialization,
                                        std::span<const BufferRange> buffers,
                                        std::uint32_t push_constant_bytes) {
  ComputePass pass;
  pass.device_ = runtime.device().share();
  detail::PipelineDesc desc;
  desc.words = spirv;
  desc.specialization = specialization;
  desc.storage_buffers = static_cast<std::uint32_t>(buffers.size());
  desc.push_constant_bytes = push_constant_bytes;
  desc.cache = runtime.pipeline_cache();
  Result<detail::Pipeline> pipeline = detail::Pipeline::create(pass.device_, desc);
  if (!pipeline.ok()) return pipeline.error();
  pass.pipeline_ = std::move(*pipeline);
  const VkResult result = pass.create_descriptors(buffers);
  if (result != VK_SUCCESS) return detail::vulkan_error(result, "creating descriptors");
  return pass;
}

void ComputePass::record(VkCommandBuffer commands, std::span<const std::byte> push_constants,
                         std::uint32_t groups) const {
  const detail::DeviceFunctions& vk = device_->vk;
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &barrier, 0, nullptr, 0, nullptr);
  vk.vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.handle());
  vk.vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline_.layout(), 0, 1, &set_, 0,
                             nullptr);
  vk.vkCmdPushConstants(commands, pipeline_.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        static_cast<std::uint32_t>(push_constants.size()), push_constants.data());
  vk.vkCmdDispatch(commands, groups, 1, 1);
}

}  // namespace vkattn::bench

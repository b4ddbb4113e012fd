// Compute pipelines from embedded SPIR-V and specialization values.
#include "vulkan/pipeline.hpp"

#include <utility>
#include <vector>

#include "common/message.hpp"
#include "spirv/live_code.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/shader_code.hpp"

namespace vkattn::detail {

Result<ShaderCode> built_shader(std::span<const ShaderBinary> set, std::string_view name) {
  const ShaderBinary* const binary = find_shader(set, name);
  if (binary != nullptr && binary->is_built()) return binary->code();
  return unsupported("this build left the shader ", name,
                     " out: ", binary != nullptr ? binary->reason : "there is none of that name");
}

ExecutionModes offered_modes(const Capabilities& capabilities) {
  ExecutionModes modes;
  modes.maximal_reconvergence = capabilities.maximal_reconvergence;
  modes.subgroup_uniform_control_flow =
      capabilities.subgroup_uniform_control_flow && !capabilities.maximal_reconvergence;
  modes.float16_to_nearest = capabilities.rounds_float16_to_nearest;
  return modes;
}

PipelineLayout& PipelineLayout::operator=(PipelineLayout&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(desc_, other.desc_);
  std::swap(set_layout_, other.set_layout_);
  std::swap(layout_, other.layout_);
  return *this;
}

void PipelineLayout::destroy() noexcept {
  if (!device_) return;
  device_->vk.vkDestroyPipelineLayout(device_->device, layout_, device_->allocator.get());
  device_->vk.vkDestroyDescriptorSetLayout(device_->device, set_layout_, device_->allocator.get());
}

VkResult PipelineLayout::create_handles() {
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  bindings.reserve(desc_.storage_buffers);
  for (std::uint32_t i = 0; i < desc_.storage_buffers; ++i) {
    bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  }
  VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  if (desc_.push_descriptors) set_info.flags = VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR;
  set_info.bindingCount = desc_.storage_buffers;
  set_info.pBindings = bindings.data();
  const DeviceFunctions& vk = device_->vk;
  if (VkResult result = null_on_failure(
          vk.vkCreateDescriptorSetLayout(device_->device, &set_info, device_->allocator.get(), &set_layout_),
          set_layout_);
      result != VK_SUCCESS) {
    return result;
  }
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, desc_.push_constant_bytes};
  VkPipelineLayoutCreateInfo layout_info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout_info.setLayoutCount = 1;
  layout_info.pSetLayouts = &set_layout_;
  layout_info.pushConstantRangeCount = desc_.push_constant_bytes != 0 ? 1 : 0;
  layout_info.pPushConstantRanges = &range;
  return null_on_failure(
      vk.vkCreatePipelineLayout(device_->device, &layout_info, device_->allocator.get(), &layout_), layout_);
}

Result<PipelineLayout> PipelineLayout::create(Shared<const DeviceState> device,
                                              const PipelineLayoutDesc& desc) {
  PipelineLayout layout;
  layout.device_ = std::move(device);
  layout.desc_ = desc;
  if (VkResult result = layout.create_handles(); result != VK_SUCCESS) {
    return vulkan_error(result, "creating the pipeline layout");
  }
  name_object(*layout.device_, VK_OBJECT_TYPE_PIPELINE_LAYOUT, layout.layout_, "pipeline layout");
  name_object(*layout.device_, VK_OBJECT_TYPE_DESCRIPTOR_SET_LAYOUT, layout.set_layout_, "set layout");
  return layout;
}

Pipeline& Pipeline::operator=(Pipeline&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(layout_, other.layout_);
  std::swap(pipeline_, other.pipeline_);
  return *this;
}

void Pipeline::destroy() noexcept {
  if (device_) device_->vk.vkDestroyPipeline(device_->device, pipeline_, device_->allocator.get());
}

VkResult Pipeline::create_handle(const PipelineDesc& desc) {
  const DeviceFunctions& vk = device_->vk;
  const std::vector<std::uint32_t> code = live_code(desc.words, desc.specialization);
  std::vector<VkSpecializationMapEntry> entries;
  std::vector<std::uint32_t> values;
  entries.reserve(desc.specialization.size());
  values.reserve(desc.specialization.size());
  for (const SpecializationValue& constant : desc.specialization) {
    const auto offset = static_cast<std::uint32_t>(values.size() * sizeof(std::uint32_t));
    entries.push_back({constant.id, offset, sizeof(std::uint32_t)});
    values.push_back(constant.value);
  }
  const VkSpecializationInfo specialization{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                            values.size() * sizeof(std::uint32_t), values.data()};
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &specialization;
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroup_size{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  subgroup_size.requiredSubgroupSize = desc.required_subgroup_size;
  if (desc.required_subgroup_size != 0) {
    info.stage.pNext = &subgroup_size;
    info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.layout = desc.layout->handle();
  if (desc.capture_statistics) {
    info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                 VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  }
  // The module is made after everything that may throw.
  VkShaderModuleCreateInfo module_info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  module_info.codeSize = code.size() * sizeof(std::uint32_t);
  module_info.pCode = code.data();
  VkResult result =
      vk.vkCreateShaderModule(device_->device, &module_info, device_->allocator.get(), &info.stage.module);
  if (result != VK_SUCCESS) return result;
  result = null_on_failure(vk.vkCreateComputePipelines(device_->device, desc.cache, 1, &info,
                                                       device_->allocator.get(), &pipeline_),
                           pipeline_);
  vk.vkDestroyShaderModule(device_->device, info.stage.module, device_->allocator.get());
  return result;
}

Result<Pipeline> Pipeline::create(Shared<const DeviceState> device, const PipelineDesc& desc) {
  Pipeline pipeline;
  pipeline.device_ = std::move(device);
  pipeline.layout_ = desc.layout;
  if (VkResult result = pipeline.create_handle(desc); result != VK_SUCCESS) {
    Error error = vulkan_error(result, "creating the compute pipeline");
    if (error.code != ErrorCode::kVulkan) return error;
    // The shader is valid, so this driver cannot compile it.
    return Error{ErrorCode::kUnsupported, result,
                 message("the driver did not compile ", desc.name, " (", to_string(result), ")")};
  }
  name_object(*pipeline.device_, VK_OBJECT_TYPE_PIPELINE, pipeline.pipeline_, desc.name);
  return pipeline;
}

}  // namespace vkattn::detail

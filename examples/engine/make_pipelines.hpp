// Pipelines of a renderer whose shaders share one set of storage buffers.
#pragma once

#include "common.hpp"

namespace engine {

using example::check;

inline VkDescriptorSetLayout make_set_layout(VkDevice device, std::uint32_t buffers,
                                             VkShaderStageFlags stages) {
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (std::uint32_t i = 0; i < buffers; ++i)
    bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, stages, nullptr});
  VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  info.bindingCount = buffers;
  info.pBindings = bindings.data();
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  check(vkCreateDescriptorSetLayout(device, &info, nullptr, &layout), "vkCreateDescriptorSetLayout");
  return layout;
}

// A pool of that many sets, each with that many buffers.
inline VkDescriptorPool make_set_pool(VkDevice device, std::uint32_t buffers, std::uint32_t sets) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, buffers * sets};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = sets;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkDescriptorPool pool = VK_NULL_HANDLE;
  check(vkCreateDescriptorPool(device, &info, nullptr, &pool), "vkCreateDescriptorPool");
  return pool;
}

// A set with these ranges of buffers at bindings 0, 1, 2 and so on.
inline VkDescriptorSet make_set(VkDevice device, VkDescriptorPool pool, VkDescriptorSetLayout layout,
                                std::span<const VkDescriptorBufferInfo> ranges) {
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool;
  info.descriptorSetCount = 1;
  info.pSetLayouts = &layout;
  VkDescriptorSet set = VK_NULL_HANDLE;
  check(vkAllocateDescriptorSets(device, &info, &set), "vkAllocateDescriptorSets");
  VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set;
  write.descriptorCount = static_cast<std::uint32_t>(ranges.size());  // consecutive bindings
  write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  write.pBufferInfo = ranges.data();
  vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
  return set;
}

// The same with whole buffers.
inline VkDescriptorSet make_set(VkDevice device, VkDescriptorPool pool, VkDescriptorSetLayout layout,
                                std::span<const VkBuffer> buffers) {
  std::vector<VkDescriptorBufferInfo> ranges;
  for (const VkBuffer each : buffers) ranges.push_back({each, 0, VK_WHOLE_SIZE});
  return make_set(device, pool, layout, ranges);
}

inline VkPipelineLayout make_layout(VkDevice device, VkDescriptorSetLayout set_layout,
                                    VkShaderStageFlags stages, std::uint32_t push_bytes) {
  const VkPushConstantRange push{stages, 0, push_bytes};
  VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  info.setLayoutCount = 1;
  info.pSetLayouts = &set_layout;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &push;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  check(vkCreatePipelineLayout(device, &info, nullptr, &layout), "vkCreatePipelineLayout");
  return layout;
}

// The stage has a shader module, which the caller destroys.
inline VkPipelineShaderStageCreateInfo make_stage(VkDevice device, VkShaderStageFlagBits which,
                                                  std::span<const std::uint32_t> code) {
  VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  info.codeSize = code.size_bytes();
  info.pCode = code.data();
  VkPipelineShaderStageCreateInfo made{VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  made.stage = which;
  made.pName = "main";
  check(vkCreateShaderModule(device, &info, nullptr, &made.module), "vkCreateShaderModule");
  return made;
}

inline VkPipeline make_compute(VkDevice device, VkPipelineLayout layout, std::span<const std::uint32_t> code,
                               VkPipelineCache cache = VK_NULL_HANDLE) {
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = make_stage(device, VK_SHADER_STAGE_COMPUTE_BIT, code);
  info.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = vkCreateComputePipelines(device, cache, 1, &info, nullptr, &pipeline);
  vkDestroyShaderModule(device, info.stage.module, nullptr);
  check(result, "vkCreateComputePipelines");
  return pipeline;
}

// Draws triangle strips without vertex buffers. Viewport and scissor are set while recording.
struct GraphicsDesc {
  VkPipelineLayout layout = VK_NULL_HANDLE;
  std::span<const std::uint32_t> vertex, fragment;
  VkRenderPass render_pass = VK_NULL_HANDLE;  // null: dynamic rendering to `format`
  VkFormat format = VK_FORMAT_UNDEFINED;
  bool blends = false;  // by the colour's alpha
};

inline VkPipeline make_graphics(VkDevice device, const GraphicsDesc& desc) {
  const VkPipelineShaderStageCreateInfo stages[] = {
      make_stage(device, VK_SHADER_STAGE_VERTEX_BIT, desc.vertex),
      make_stage(device, VK_SHADER_STAGE_FRAGMENT_BIT, desc.fragment)};
  const VkPipelineVertexInputStateCreateInfo input{VK_STRUCTURE_TYPE_PIPELINE_VERTEX_INPUT_STATE_CREATE_INFO};
  VkPipelineInputAssemblyStateCreateInfo assembly{
      VK_STRUCTURE_TYPE_PIPELINE_INPUT_ASSEMBLY_STATE_CREATE_INFO};
  assembly.topology = VK_PRIMITIVE_TOPOLOGY_TRIANGLE_STRIP;
  VkPipelineViewportStateCreateInfo viewport{VK_STRUCTURE_TYPE_PIPELINE_VIEWPORT_STATE_CREATE_INFO};
  viewport.viewportCount = viewport.scissorCount = 1;
  VkPipelineRasterizationStateCreateInfo raster{VK_STRUCTURE_TYPE_PIPELINE_RASTERIZATION_STATE_CREATE_INFO};
  raster.lineWidth = 1;
  VkPipelineMultisampleStateCreateInfo samples{VK_STRUCTURE_TYPE_PIPELINE_MULTISAMPLE_STATE_CREATE_INFO};
  samples.rasterizationSamples = VK_SAMPLE_COUNT_1_BIT;
  VkPipelineColorBlendAttachmentState attachment{};
  attachment.colorWriteMask = 0xF;
  attachment.blendEnable = desc.blends ? VK_TRUE : VK_FALSE;
  attachment.srcColorBlendFactor = VK_BLEND_FACTOR_SRC_ALPHA;
  attachment.dstColorBlendFactor = attachment.dstAlphaBlendFactor = VK_BLEND_FACTOR_ONE_MINUS_SRC_ALPHA;
  attachment.srcAlphaBlendFactor = VK_BLEND_FACTOR_ONE;
  VkPipelineColorBlendStateCreateInfo blend{VK_STRUCTURE_TYPE_PIPELINE_COLOR_BLEND_STATE_CREATE_INFO};
  blend.attachmentCount = 1;
  blend.pAttachments = &attachment;
  const VkDynamicState states[] = {VK_DYNAMIC_STATE_VIEWPORT, VK_DYNAMIC_STATE_SCISSOR};
  VkPipelineDynamicStateCreateInfo dynamic{VK_STRUCTURE_TYPE_PIPELINE_DYNAMIC_STATE_CREATE_INFO};
  dynamic.dynamicStateCount = 2;
  dynamic.pDynamicStates = states;
  VkPipelineRenderingCreateInfo rendering{VK_STRUCTURE_TYPE_PIPELINE_RENDERING_CREATE_INFO};
  rendering.colorAttachmentCount = 1;
  rendering.pColorAttachmentFormats = &desc.format;
  VkGraphicsPipelineCreateInfo info{VK_STRUCTURE_TYPE_GRAPHICS_PIPELINE_CREATE_INFO};
  if (desc.render_pass == VK_NULL_HANDLE) info.pNext = &rendering;
  info.stageCount = 2;
  info.pStages = stages;
  info.pVertexInputState = &input;
  info.pInputAssemblyState = &assembly;
  info.pViewportState = &viewport;
  info.pRasterizationState = &raster;
  info.pMultisampleState = &samples;
  info.pColorBlendState = &blend;
  info.pDynamicState = &dynamic;
  info.layout = desc.layout;
  info.renderPass = desc.render_pass;
  VkPipeline pipeline = VK_NULL_HANDLE;
  const VkResult result = vkCreateGraphicsPipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  for (const auto& each : stages) vkDestroyShaderModule(device, each.module, nullptr);
  check(result, "vkCreateGraphicsPipelines");
  return pipeline;
}

// Draws within a rectangle of the target.
inline void set_viewport(VkCommandBuffer commands, VkRect2D area) {
  const VkViewport viewport{static_cast<float>(area.offset.x),
                            static_cast<float>(area.offset.y),
                            static_cast<float>(area.extent.width),
                            static_cast<float>(area.extent.height),
                            0,
                            1};
  vkCmdSetViewport(commands, 0, 1, &viewport);
  vkCmdSetScissor(commands, 0, 1, &area);
}

}  // namespace engine

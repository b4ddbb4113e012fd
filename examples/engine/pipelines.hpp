// The pipelines of engine_frame.cpp, one of compute and one of graphics, which share one set of storage
// buffers.
#pragma once

#include "common.hpp"

namespace engine {

using example::check;

constexpr VkFormat kFormat = VK_FORMAT_R8G8B8A8_UNORM;
constexpr std::uint32_t kBindings = 5;  // query, key, value, output, bars

struct ComputePush {
  std::uint32_t stage, position;
};
struct BarPush {
  float color[4];
  float height;  // below 0: the buffer has the heights
  std::uint32_t count;
};

class Pipelines {
 public:
  Pipelines(const example::Gpu& gpu, VkExtent2D extent, std::uint32_t sets) : device_(gpu.device) {
    create_set_layout(sets);
    compute_layout = create_layout(VK_SHADER_STAGE_COMPUTE_BIT, sizeof(ComputePush));
    graphics_layout = create_layout(VK_SHADER_STAGE_VERTEX_BIT, sizeof(BarPush));
    create_compute();
    create_graphics(extent);
  }
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;
  ~Pipelines() {
    for (const VkPipeline each : {compute, graphics}) vkDestroyPipeline(device_, each, nullptr);
    for (const VkPipelineLayout each : {compute_layout, graphics_layout})
      vkDestroyPipelineLayout(device_, each, nullptr);
    vkDestroyDescriptorPool(device_, pool_, nullptr);
    vkDestroyDescriptorSetLayout(device_, set_layout_, nullptr);
  }

  [[nodiscard]] VkDescriptorSet make_set(std::span<const VkBuffer, kBindings> buffers) const {
    VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    info.descriptorPool = pool_;
    info.descriptorSetCount = 1;
    info.pSetLayouts = &set_layout_;
    VkDescriptorSet set = VK_NULL_HANDLE;
    check(vkAllocateDescriptorSets(device_, &info, &set), "vkAllocateDescriptorSets");
    VkDescriptorBufferInfo ranges[kBindings];
    for (std::uint32_t i = 0; i < kBindings; ++i) ranges[i] = {buffers[i], 0, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    write.dstSet = set;
    write.descriptorCount = kBindings;  // consecutive bindings
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = ranges;
    vkUpdateDescriptorSets(device_, 1, &write, 0, nullptr);
    return set;
  }

  VkPipelineLayout compute_layout = VK_NULL_HANDLE, graphics_layout = VK_NULL_HANDLE;
  VkPipeline compute = VK_NULL_HANDLE, graphics = VK_NULL_HANDLE;

 private:
  void create_set_layout(std::uint32_t sets) {
    VkDescriptorSetLayoutBinding bindings[kBindings]{};
    for (std::uint32_t i = 0; i < kBindings; ++i) {
      bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                     VK_SHADER_STAGE_COMPUTE_BIT | VK_SHADER_STAGE_VERTEX_BIT, nullptr};
    }
    VkDescriptorSetLayoutCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    info.bindingCount = kBindings;
    info.pBindings = bindings;
    check(vkCreateDescriptorSetLayout(device_, &info, nullptr, &set_layout_), "vkCreateDescriptorSetLayout");
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kBindings * sets};
    VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
    pool.maxSets = sets;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    check(vkCreateDescriptorPool(device_, &pool, nullptr, &pool_), "vkCreateDescriptorPool");
  }

  [[nodiscard]] VkPipelineLayout create_layout(VkShaderStageFlags stages, std::uint32_t push_bytes) const {
    const VkPushConstantRange push{stages, 0, push_bytes};
    VkPipelineLayoutCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    info.setLayoutCount = 1;
    info.pSetLayouts = &set_layout_;
    info.pushConstantRangeCount = 1;
    info.pPushConstantRanges = &push;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    check(vkCreatePipelineLayout(device_, &info, nullptr, &layout), "vkCreatePipelineLayout");
    return layout;
  }

  [[nodiscard]] VkPipelineShaderStageCreateInfo stage(VkShaderStageFlagBits which,
                                                      std::span<const std::uint32_t> code) const {
    VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    info.codeSize = code.size_bytes();
    info.pCode = code.data();
    VkPipelineShaderStageCreateInfo made{VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
    made.stage = which;
    made.pName = "main";
    check(vkCreateShaderModule(device_, &info, nullptr, &made.module), "vkCreateShaderModule");
    return made;
  }

  void create_compute();
  void create_graphics(VkExtent2D extent);

  VkDevice device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

}  // namespace engine

#include "train_text/steps.hpp"

#include <algorithm>

// SPIR-V of the shaders, which glslang writes as arrays of words.
#include "adamw_comp.h"
#include "cross_entropy_comp.h"
#include "embed_comp.h"
#include "embed_gradient_comp.h"
#include "gelu_comp.h"
#include "gelu_gradient_comp.h"
#include "norm_comp.h"
#include "norm_gradient_comp.h"

namespace train_text {

namespace {

constexpr std::uint32_t kMostSets = 512;       // a model has at most 32 layers, each with fewer than 12
constexpr std::uint32_t kMostBuffers = 5;      // the most of a shader
constexpr std::uint32_t kWorkgroup = 64;       // item.glsl
constexpr std::uint32_t kMostColumns = 32768;  // of workgroups; every device has 65535

struct ShaderRow {
  std::span<const std::uint32_t> code;
  std::uint32_t buffers;
};

// The rows have the order of Shader.
const std::array<ShaderRow, kShaders>& shader_table() {
  static const std::array<ShaderRow, kShaders> table = {{{embed_comp, 5},
                                                         {embed_gradient_comp, 4},
                                                         {norm_comp, 3},
                                                         {norm_gradient_comp, 4},
                                                         {gelu_comp, 2},
                                                         {gelu_gradient_comp, 2},
                                                         {cross_entropy_comp, 3},
                                                         {adamw_comp, 4}}};
  return table;
}

void check(VkResult result, const char* call) {
  if (result >= VK_SUCCESS) return;
  std::fprintf(stderr, "%s failed: VkResult %d\n", call, static_cast<int>(result));
  std::exit(1);
}

// Later reads and writes wait for earlier writes, and later writes for earlier reads.
void record_barrier(VkCommandBuffer commands) {
  const VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, VK_ACCESS_SHADER_WRITE_BIT,
                                VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                       0, 1, &barrier, 0, nullptr, 0, nullptr);
}

}  // namespace

Shaders::Shaders(const vkattn::Runtime& runtime) : device_(runtime.device().handle()) {
  const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, kMostSets * kMostBuffers};
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = kMostSets;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  check(vkCreateDescriptorPool(device_, &info, nullptr, &pool_), "vkCreateDescriptorPool");
  for (std::size_t i = 0; i < kShaders; ++i)
    create(pipelines_[i], shader_table()[i].code, shader_table()[i].buffers, runtime.pipeline_cache());
}

Shaders::~Shaders() {
  for (const Pipeline& each : pipelines_) {
    vkDestroyPipeline(device_, each.pipeline, nullptr);
    vkDestroyPipelineLayout(device_, each.layout, nullptr);
    vkDestroyDescriptorSetLayout(device_, each.set_layout, nullptr);
  }
  vkDestroyDescriptorPool(device_, pool_, nullptr);
}

void Shaders::create(Pipeline& pipeline, std::span<const std::uint32_t> code, std::uint32_t buffers,
                     VkPipelineCache cache) const {
  std::array<VkDescriptorSetLayoutBinding, kMostBuffers> bindings{};
  for (std::uint32_t i = 0; i < buffers; ++i)
    bindings[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  VkDescriptorSetLayoutCreateInfo set_info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set_info.bindingCount = buffers;
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
  module_info.codeSize = code.size_bytes();
  module_info.pCode = code.data();
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = "main";
  info.layout = pipeline.layout;
  check(vkCreateShaderModule(device_, &module_info, nullptr, &info.stage.module), "vkCreateShaderModule");
  check(vkCreateComputePipelines(device_, cache, 1, &info, nullptr, &pipeline.pipeline),
        "vkCreateComputePipelines");
  vkDestroyShaderModule(device_, info.stage.module, nullptr);
}

Shaders::Dispatch Shaders::make_dispatch(Shader shader, std::span<const vkattn::BufferRange> buffers,
                                         std::int64_t items) {
  const Pipeline& pipeline = pipelines_[static_cast<std::size_t>(shader)];
  const auto groups = static_cast<std::uint32_t>((items + kWorkgroup - 1) / kWorkgroup);
  const std::uint32_t columns = std::min(groups, kMostColumns);
  Dispatch dispatch{pipeline.pipeline, pipeline.layout, VK_NULL_HANDLE, columns,
                    (groups + columns - 1) / columns};
  VkDescriptorSetAllocateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  info.descriptorPool = pool_;
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

Step Shaders::make_step(Shader shader, std::initializer_list<vkattn::BufferRange> buffers, std::int64_t items,
                        const Words& push) {
  return [dispatch = make_dispatch(shader, buffers, items), push](VkCommandBuffer commands) {
    dispatch.record(commands, push);
  };
}

template <class Desc, class Plan>
Plans::Made<Desc, Plan>& Plans::plan_for(std::vector<Made<Desc, Plan>>& all, const Desc& desc) {
  const auto made = std::ranges::find(all, desc, &Made<Desc, Plan>::desc);
  if (made != all.end()) return *made;
  Plan plan = checked(runtime_->make_plan(desc));
  vkattn::Buffer workspace = checked(runtime_->create_workspace(plan));
  all.push_back({desc, std::move(plan), std::move(workspace)});
  return all.back();
}

namespace {

template <class Made, class Tensors>
Step step_of(const Made& made, const Tensors& tensors) {
  auto bindings = checked(made.plan.make_bindings(tensors, made.workspace.range()));
  return [plan = made.plan, bindings = std::make_shared<decltype(bindings)>(std::move(bindings))](
             VkCommandBuffer commands) { plan.record(commands, *bindings, {.wait_for_earlier = true}); };
}

}  // namespace

Step Plans::matmul(const vkattn::MatmulDesc& desc, const vkattn::MatmulTensors& tensors) {
  return step_of(plan_for(matmuls_, desc), tensors);
}

Plans::Made<vkattn::MultiHeadAttentionDesc, vkattn::MultiHeadAttentionPlan>& Plans::made_layer(
    const vkattn::MultiHeadAttentionDesc& desc) {
  return plan_for(layers_, desc);
}

const vkattn::MultiHeadAttentionPlan& Plans::layer(const vkattn::MultiHeadAttentionDesc& desc) {
  return made_layer(desc).plan;
}

Step Plans::layer_step(const vkattn::MultiHeadAttentionDesc& desc,
                       const vkattn::MultiHeadAttentionTensors& tensors) {
  return step_of(made_layer(desc), tensors);
}

Step Plans::layer_backward(const vkattn::MultiHeadAttentionBackwardDesc& desc,
                           const vkattn::MultiHeadAttentionBackwardTensors& tensors) {
  return step_of(plan_for(layer_backwards_, desc), tensors);
}

}  // namespace train_text

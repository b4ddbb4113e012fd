// The contents of a command buffer: passes of the library and of this folder's own shaders. Each waits for
// the passes that were recorded before it.
#pragma once

#include <vulkan/vulkan.h>

#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "train_text/arrays.hpp"

namespace train_text {

using Step = std::function<void(VkCommandBuffer)>;
using Steps = std::vector<Step>;

inline void record_all(VkCommandBuffer commands, const Steps& steps) {
  for (const Step& step : steps) step(commands);
}

// This folder's shaders, in the order of their table in steps.cpp.
enum class Shader {
  kEmbed,
  kEmbedGradient,
  kNorm,
  kNormGradient,
  kGelu,
  kGeluGradient,
  kCrossEntropy,
  kAdamw
};
inline constexpr std::size_t kShaders = 8;

// Push constants: words that hold the shader's numbers.
using Words = std::array<std::uint32_t, 8>;

// Pipelines of the shaders, and descriptor sets for their dispatches. The Runtime outlives it.
class Shaders {
 public:
  explicit Shaders(const vkattn::Runtime& runtime);
  Shaders(const Shaders&) = delete;
  Shaders& operator=(const Shaders&) = delete;
  ~Shaders();

  // A dispatch on these buffers, which have the order of the shader's bindings.
  struct Dispatch {
    VkPipeline pipeline;
    VkPipelineLayout layout;
    VkDescriptorSet set;
    std::uint32_t columns, rows;  // of workgroups
    void record(VkCommandBuffer commands, const Words& push) const;
  };
  [[nodiscard]] Dispatch make_dispatch(Shader shader, std::span<const vkattn::BufferRange> buffers,
                                       std::int64_t items);
  // Makes a dispatch whose push constants do not change.
  [[nodiscard]] Step make_step(Shader shader, std::initializer_list<vkattn::BufferRange> buffers,
                               std::int64_t items, const Words& push);

 private:
  struct Pipeline {
    VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
    VkPipelineLayout layout = VK_NULL_HANDLE;
    VkPipeline pipeline = VK_NULL_HANDLE;
  };
  void create(Pipeline& pipeline, std::span<const std::uint32_t> code, std::uint32_t buffers,
              VkPipelineCache cache) const;
  VkDevice device_;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  std::array<Pipeline, kShaders> pipelines_{};
};

// Plans of the library: equal layers share a plan and its workspace, as steps run one after the other. The
// Runtime outlives it.
class Plans {
 public:
  explicit Plans(const vkattn::Runtime& runtime) : runtime_(&runtime) {}

  [[nodiscard]] Step matmul(const vkattn::MatmulDesc& desc, const vkattn::MatmulTensors& tensors);
  // The plan of multi-head attention with its projections; the plan tells what else the layer needs.
  [[nodiscard]] const vkattn::MultiHeadAttentionPlan& layer(const vkattn::MultiHeadAttentionDesc& desc);
  [[nodiscard]] Step layer_step(const vkattn::MultiHeadAttentionDesc& desc,
                                const vkattn::MultiHeadAttentionTensors& tensors);
  [[nodiscard]] Step layer_backward(const vkattn::MultiHeadAttentionBackwardDesc& desc,
                                    const vkattn::MultiHeadAttentionBackwardTensors& tensors);

 private:
  template <class Desc, class Plan>
  struct Made {
    Desc desc;
    Plan plan;
    vkattn::Buffer workspace;
  };
  // The plan that was made for this descriptor, or a new one.
  template <class Desc, class Plan>
  Made<Desc, Plan>& plan_for(std::vector<Made<Desc, Plan>>& all, const Desc& desc);
  [[nodiscard]] Made<vkattn::MultiHeadAttentionDesc, vkattn::MultiHeadAttentionPlan>& made_layer(
      const vkattn::MultiHeadAttentionDesc& desc);

  const vkattn::Runtime* runtime_;
  std::vector<Made<vkattn::MatmulDesc, vkattn::MatmulPlan>> matmuls_;
  std::vector<Made<vkattn::MultiHeadAttentionDesc, vkattn::MultiHeadAttentionPlan>> layers_;
  std::vector<Made<vkattn::MultiHeadAttentionBackwardDesc, vkattn::MultiHeadAttentionBackwardPlan>>
      layer_backwards_;
};

}  // namespace train_text

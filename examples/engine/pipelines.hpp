// The pipelines of engine_frame.cpp, one of compute and one of graphics, which share one set of storage
// buffers.
#pragma once

#include "make_pipelines.hpp"

namespace engine {

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
  Pipelines(const example::Gpu& gpu, std::uint32_t sets);
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
    return engine::make_set(device_, pool_, set_layout_, buffers);
  }

  VkPipelineLayout compute_layout = VK_NULL_HANDLE, graphics_layout = VK_NULL_HANDLE;
  VkPipeline compute = VK_NULL_HANDLE, graphics = VK_NULL_HANDLE;

 private:
  VkDevice device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

}  // namespace engine

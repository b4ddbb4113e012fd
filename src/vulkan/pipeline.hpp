// A compute pipeline with its layouts, destroyed together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <vkattn/plan.hpp>

#include "kernels/kernel.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

struct PipelineDesc {
  std::span<const std::uint32_t> words;  ///< SPIR-V
  std::span<const SpecializationValue> specialization;
  std::uint32_t storage_buffers = 0;  ///< bindings 0 .. n-1 of set 0
  std::uint32_t push_constant_bytes = 0;
  std::uint32_t required_subgroup_size = 0;  ///< with full subgroups; 0: any
  bool push_descriptors = false;
  bool capture_statistics = false;  ///< for read_statistics()
  VkPipelineCache cache = VK_NULL_HANDLE;
};

/// What the driver says of a pipeline that was made with capture_statistics; `name` is given to each entry.
/// With `isa` the driver's own listings too.
[[nodiscard]] Result<std::vector<PipelineStatistics>> read_statistics(const DeviceState& device,
                                                                      VkPipeline pipeline,
                                                                      std::string_view name, bool isa);

/// Owns its Vulkan objects. Move-only; empty when default-constructed.
class Pipeline {
 public:
  Pipeline() = default;
  [[nodiscard]] static Result<Pipeline> create(std::shared_ptr<const DeviceState> device,
                                               const PipelineDesc& desc);
  Pipeline(Pipeline&& other) noexcept { *this = std::move(other); }
  Pipeline& operator=(Pipeline&& other) noexcept;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() { destroy(); }

  [[nodiscard]] VkPipeline handle() const { return pipeline_; }
  [[nodiscard]] VkPipelineLayout layout() const { return layout_; }
  [[nodiscard]] VkDescriptorSetLayout set_layout() const { return set_layout_; }

 private:
  [[nodiscard]] VkResult create_layouts(const PipelineDesc& desc);
  [[nodiscard]] VkResult create_pipeline(const PipelineDesc& desc);
  void destroy() noexcept;

  std::shared_ptr<const DeviceState> device_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

}  // namespace vkattn::detail

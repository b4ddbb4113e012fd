// Compute pipelines over one set of storage buffers, and the layout that several of them share.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/statistics.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "spirv/execution_modes.hpp"
#include "spirv/specialization.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

/// The execution modes that the device offers. Maximal reconvergence includes the promise of subgroup-uniform
/// control flow.
[[nodiscard]] ExecutionModes offered_modes(const Capabilities& capabilities);

struct PipelineLayoutDesc {
  std::uint32_t storage_buffers = 0;  ///< bindings 0 .. n-1 of set 0
  std::uint32_t push_constant_bytes = 0;
  bool push_descriptors = false;

  [[nodiscard]] bool operator==(const PipelineLayoutDesc&) const = default;
};

/// Owns its Vulkan objects. Move-only; empty when default-constructed.
class PipelineLayout {
 public:
  PipelineLayout() = default;
  [[nodiscard]] static Result<PipelineLayout> create(Shared<const DeviceState> device,
                                                     const PipelineLayoutDesc& desc);
  PipelineLayout(PipelineLayout&& other) noexcept { *this = std::move(other); }
  PipelineLayout& operator=(PipelineLayout&& other) noexcept;
  PipelineLayout(const PipelineLayout&) = delete;
  PipelineLayout& operator=(const PipelineLayout&) = delete;
  ~PipelineLayout() { destroy(); }

  [[nodiscard]] VkPipelineLayout handle() const { return layout_; }
  [[nodiscard]] VkDescriptorSetLayout set_layout() const { return set_layout_; }
  [[nodiscard]] const PipelineLayoutDesc& desc() const { return desc_; }

 private:
  [[nodiscard]] VkResult create_handles();
  void destroy() noexcept;

  Shared<const DeviceState> device_;
  PipelineLayoutDesc desc_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
};

struct PipelineDesc {
  std::string name;                      ///< in captures
  std::span<const std::uint32_t> words;  ///< SPIR-V
  std::span<const SpecializationValue> specialization;
  std::shared_ptr<const PipelineLayout> layout;
  std::uint32_t required_subgroup_size = 0;  ///< with full subgroups; 0: any
  bool capture_statistics = false;           ///< for read_statistics()
  VkPipelineCache cache = VK_NULL_HANDLE;
};

/// Owns its Vulkan object, and keeps its layout alive, as Vulkan before 1.3 asks. Move-only; empty when
/// default-constructed. To be used with any layout of an equal descriptor.
class Pipeline {
 public:
  Pipeline() = default;
  [[nodiscard]] static Result<Pipeline> create(Shared<const DeviceState> device, const PipelineDesc& desc);
  Pipeline(Pipeline&& other) noexcept { *this = std::move(other); }
  Pipeline& operator=(Pipeline&& other) noexcept;
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline() { destroy(); }

  [[nodiscard]] VkPipeline handle() const { return pipeline_; }

 private:
  [[nodiscard]] VkResult create_handle(const PipelineDesc& desc);
  void destroy() noexcept;

  Shared<const DeviceState> device_;
  std::shared_ptr<const PipelineLayout> layout_;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

/// The driver's statistics of a pipeline that was made with capture_statistics. Each entry gets `name`. With
/// `isa` also the driver's listings.
[[nodiscard]] Result<std::vector<PipelineStatistics>> read_statistics(const DeviceState& device,
                                                                      VkPipeline pipeline,
                                                                      std::string_view name, bool isa);

/// Bytes of machine code, by the names that drivers give them; 0: the driver does not tell.
[[nodiscard]] std::uint64_t code_bytes(const PipelineStatistics& executable);

/// Its value; `driver_name` is that of Capabilities.
[[nodiscard]] double as_number(const VkPipelineExecutableStatisticKHR& statistic,
                               std::string_view driver_name);

}  // namespace vkattn::detail

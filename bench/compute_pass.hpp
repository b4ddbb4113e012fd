// One compute shader with its buffers, for the kernels that measure peaks.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/kernel.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::bench {

/// A pipeline and one descriptor set of storage buffers. The buffers and the Runtime must outlive it.
class ComputePass {
 public:
  /// Buffers take bindings 0, 1, … of set 0, each bound from its start over range.size bytes.
  [[nodiscard]] static Result<ComputePass> create(const Runtime& runtime,
                                                  std::span<const std::uint32_t> spirv,
                                                  std::span<const detail::SpecializationValue> specialization,
                                                  std::span<const BufferRange> buffers,
                                                  std::uint32_t push_constant_bytes);

  ComputePass(ComputePass&& other) noexcept;
  ComputePass& operator=(ComputePass&&) = delete;
  ComputePass(const ComputePass&) = delete;
  ComputePass& operator=(const ComputePass&) = delete;
  ~ComputePass();

  /// One dispatch of `groups` workgroups, ordered after what was recorded before it.
  void record(VkCommandBuffer commands, std::span<const std::byte> push_constants,
              std::uint32_t groups) const;

 private:
  ComputePass() = default;
  [[nodiscard]] VkResult create_descriptors(std::span<const BufferRange> buffers);

  std::shared_ptr<const detail::DeviceState> device_;
  detail::Pipeline pipeline_;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;  ///< freed with its pool
};

}  // namespace vkattn::bench

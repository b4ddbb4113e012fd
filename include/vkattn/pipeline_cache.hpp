/// @file
/// Compiled pipelines that a program keeps between runs, without touching a file.
#pragma once

#include <vkattn/device.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace vkattn {

namespace detail {
struct PipelineCacheState;
}

/// A VkPipelineCache made from bytes that an earlier run has saved. The bytes tell their device, driver and
/// length, and have a checksum; bytes that do not match never reach a driver. Move-only. Plans with deferred
/// compilation need it until they are compiled, other plans while they are made. The handle may be used from
/// any thread.
class PipelineCache {
 public:
  /// `blob` is what save() gave, or empty. Errors: no memory, or the device's own.
  [[nodiscard]] static Result<PipelineCache> create(const Device& device,
                                                    std::span<const std::byte> blob = {});

  /// One that was moved from may be destroyed and assigned to.
  /// @{
  PipelineCache(PipelineCache&&) noexcept;
  PipelineCache& operator=(PipelineCache&&) noexcept;
  /// @}
  ~PipelineCache();

  /// For PlanOptions::pipeline_cache.
  [[nodiscard]] VkPipelineCache handle() const;
  /// Why nothing of the blob is used; empty if it is used, or if there was none.
  [[nodiscard]] const std::string& ignored() const;
  /// Bytes to keep for the next run.
  [[nodiscard]] Result<std::vector<std::byte>> save() const;

 private:
  explicit PipelineCache(std::unique_ptr<detail::PipelineCacheState> state);
  std::unique_ptr<detail::PipelineCacheState> state_;
};

}  // namespace vkattn

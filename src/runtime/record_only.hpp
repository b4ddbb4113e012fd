// Recording without execution: for the benchmark, which measures what it costs.
#pragma once

#include <vkattn/runtime.hpp>

#include <functional>

namespace vkattn::detail {

/// Has `record` record into a command buffer that is never submitted.
[[nodiscard]] Result<void> record_only(const Runtime& runtime,
                                       const std::function<void(VkCommandBuffer)>& record);

}  // namespace vkattn::detail

// Recording without execution, whose cost the benchmark measures.
#pragma once

#include <vkattn/runtime.hpp>

#include <functional>

namespace vkattn::detail {

/// Has `record` record into a command buffer that is never submitted.
[[nodiscard]] Result<void> record_only(const Runtime& runtime,
                                       const std::function<void(VkCommandBuffer)>& record);

}  // namespace vkattn::detail

// A decode loop: each step appends a token to a cache on the device, and attends to the cache.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <vector>

namespace vkattn::soak {

/// Makes plans, buffers and bindings for the loop, and destroys them at its end. Returns the outputs of all
/// steps, which are the same each time.
[[nodiscard]] std::vector<std::byte> decode_loop(const Runtime& runtime);

}  // namespace vkattn::soak

// A decode loop: each step appends a token to a cache on the device and attends over what it then holds.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <vector>

namespace vkattn::soak {

/// Plans, buffers and bindings are made for the loop and gone at its end. The outputs of all steps; the same
/// each time.
[[nodiscard]] std::vector<std::byte> decode_loop(const Runtime& runtime);

}  // namespace vkattn::soak

// Arrays in a device's memory.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <span>

#include "errors.hpp"

namespace vkattn::python {

/// A buffer of so many bytes, to the end of a 32-bit word, as ranges of tensors reach.
[[nodiscard]] inline Buffer device_buffer(const Runtime& runtime, std::size_t bytes) {
  return take(runtime.create_buffer((bytes + 3) / 4 * 4));
}

/// With these bytes in it; no buffer where there are none.
[[nodiscard]] inline Buffer upload(const Runtime& runtime, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  Buffer buffer = device_buffer(runtime, bytes.size());
  take(runtime.write(buffer, 0, bytes));
  return buffer;
}

}  // namespace vkattn::python

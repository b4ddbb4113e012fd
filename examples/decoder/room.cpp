#include "decoder/room.hpp"

#include <algorithm>
#include <utility>

#include "decoder/text.hpp"

namespace decoder {

void Bytes::add(std::int64_t count, std::uint64_t each) {
  all += static_cast<std::uint64_t>(count) * each;
  largest = std::max(largest, each);
}

Room Room::of(const vkattn::Runtime& runtime, std::string advice) {
  const vkattn::Capabilities& device = runtime.device().capabilities();
  return {device.device_name, device.max_storage_buffer_range, runtime.memory_bytes(), std::move(advice)};
}

vkattn::Result<void> Room::check(const std::vector<Need>& buffers, const Need& all) const {
  for (const auto& [what, bytes] : buffers) {
    if (bytes > range)
      return refusal(what + " takes " + std::to_string(bytes) + " bytes, and maxStorageBufferRange of " +
                     device + " is " + std::to_string(range) + "; " + advice);
  }
  if (all.bytes > memory)
    return refusal(all.what + " take " + std::to_string(all.bytes) + " bytes, and the memory of " + device +
                   " has " + std::to_string(memory) + "; " + advice);
  return {};
}

}  // namespace decoder

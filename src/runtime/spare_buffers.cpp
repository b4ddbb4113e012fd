// Buffers that nobody holds any more: see spare_buffers.hpp.
#include "runtime/spare_buffers.hpp"

#include <algorithm>
#include <utility>

#include "runtime/runtime_state.hpp"

namespace vkattn::detail {

void SpareBuffers::set_most(std::size_t most) {
  most_ = std::min<std::size_t>(most, 4096);
  kept_.reserve(most_ + 1);  // keep() must not fail
}

std::unique_ptr<BufferState> SpareBuffers::take(VkDeviceSize bytes) {
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return nullptr;
  // From the end: the memory that was used last may still be in the processor's caches.
  const auto found =
      std::find_if(kept_.rbegin(), kept_.rend(), [&](const auto& buffer) { return buffer->size == bytes; });
  if (found == kept_.rend()) return nullptr;
  std::unique_ptr<BufferState> buffer = std::move(*found);
  kept_.erase(std::next(found).base());
  bytes_ -= bytes;
  return buffer;
}

void SpareBuffers::keep(std::unique_ptr<BufferState> buffer) noexcept {
  if (most_ == 0 || buffer->size > kMostBytesOfOne) return;
  const std::lock_guard lock(mutex_);
  if (is_stopped_) return;
  bytes_ += buffer->size;
  kept_.push_back(std::move(buffer));
  while (kept_.size() > most_ || bytes_ > kMostBytes) {
    bytes_ -= kept_.front()->size;
    kept_.erase(kept_.begin());
  }
}

void SpareBuffers::stop() {
  const std::lock_guard lock(mutex_);
  is_stopped_ = true;
}

bool SpareBuffers::clear() {
  const std::lock_guard lock(mutex_);
  const bool had_some = !kept_.empty();
  kept_.clear();
  bytes_ = 0;
  return had_some;
}

}  // namespace vkattn::detail

// Handles that are alive: see live_handles.hpp.
#include "c/live_handles.hpp"

#include <cstdint>
#include <new>
#include <numeric>

namespace vkattn::c {

LiveHandles::~LiveHandles() {
  for (std::atomic<Slot*>& table : tables_) delete[] table.load(std::memory_order_relaxed);
}

std::size_t LiveHandles::first_slot(const void* handle, std::size_t size) noexcept {
  // Addresses are multiples of 16: the product's upper half depends on all bits above.
  const auto mixed = (reinterpret_cast<std::uintptr_t>(handle) >> 4U) * std::uint64_t{0x9e3779b97f4a7c15};
  return static_cast<std::size_t>(mixed >> 32U) & (size - 1);
}

LiveHandles::Place LiveHandles::find(const void* handle) const noexcept {
  for (std::size_t t = 0, size = kFirstSize; t < kMostTables; ++t, size *= 2) {
    Slot* const table = tables_[t].load(std::memory_order_acquire);
    if (table == nullptr) return {};
    for (std::size_t i = first_slot(handle, size);; i = (i + 1) & (size - 1)) {
      const void* const held = table[i].load(std::memory_order_acquire);
      if (held == nullptr) break;
      if (held == handle) return {table, t, i};
    }
  }
  return {};
}

void LiveHandles::empty(const Place& place) noexcept {
  const std::size_t last = (kFirstSize << place.table) - 1;
  place.slots[place.index].store(kTaken, std::memory_order_release);
  if (place.slots[(place.index + 1) & last].load(std::memory_order_relaxed) != nullptr) return;
  for (std::size_t i = place.index; place.slots[i].load(std::memory_order_relaxed) == kTaken;
       i = (i - 1) & last) {
    place.slots[i].store(nullptr, std::memory_order_release);
    --used_[place.table];
  }
}

std::size_t LiveHandles::used() {
  const std::lock_guard lock(mutex_);
  return std::accumulate(used_.begin(), used_.end(), std::size_t{0});
}

void LiveHandles::add(const void* handle) {
  const std::lock_guard lock(mutex_);
  for (std::size_t t = 0, size = kFirstSize; t < kMostTables; ++t, size *= 2) {
    if (tables_[t].load(std::memory_order_relaxed) == nullptr) {
      tables_[t].store(new Slot[size](), std::memory_order_release);
    }
    Slot* const table = tables_[t].load(std::memory_order_relaxed);
    std::size_t i = first_slot(handle, size);
    const void* held = table[i].load(std::memory_order_relaxed);
    while (held != nullptr && held != kTaken) {
      i = (i + 1) & (size - 1);
      held = table[i].load(std::memory_order_relaxed);
    }
    if (held == nullptr && used_[t] >= size / 2) continue;
    if (held == nullptr) ++used_[t];
    table[i].store(handle, std::memory_order_release);
    return;
  }
}

LiveHandles& live_handles() {
  // Never destroyed, as an application's own static objects may release handles at its end. Not allocated, as
  // the first call may be a release, which cannot report a failure.
  alignas(LiveHandles) static std::byte memory[sizeof(LiveHandles)];
  static LiveHandles* const handles = new (memory) LiveHandles;
  return *handles;
}

}  // namespace vkattn::c

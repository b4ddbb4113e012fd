// The handles that were given out and not taken back, so that a stale one is noticed and not used.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

namespace vkattn::c {

/// A set of addresses. Looking one up takes no lock, as recording may not wait; changes take one.
/// It has tables of open addressing, each twice as large as the one before, and each at most half full. A
/// slot is null until its first use, and then holds an address or kTaken. So a search ends at a null, and
/// finds every address that is there while others come and go.
class LiveHandles {
 public:
  LiveHandles() = default;
  LiveHandles(const LiveHandles&) = delete;
  LiveHandles& operator=(const LiveHandles&) = delete;
  ~LiveHandles();

  [[nodiscard]] bool contains(const void* handle) const noexcept { return find(handle) != nullptr; }
  void add(const void* handle);
  [[nodiscard]] bool remove(const void* handle) {
    return with(handle, [] { return true; });
  }
  /// Calls `use` while no other thread can take the handle back, and takes it back if `use` returns true.
  /// Returns false if the handle is not alive.
  template <class Use>
  [[nodiscard]] bool with(const void* handle, Use&& use) {
    const std::lock_guard lock(mutex_);
    Slot* const slot = find(handle);
    if (slot == nullptr) return false;
    if (use()) slot->store(kTaken, std::memory_order_release);
    return true;
  }

 private:
  using Slot = std::atomic<const void*>;
  static constexpr std::size_t kFirstSize = 64, kMostTables = 40;
  static constexpr char kTakenPlace = 0;
  static constexpr const void* kTaken = &kTakenPlace;

  [[nodiscard]] Slot* find(const void* handle) const noexcept;
  /// The slot of a table where the search for an address begins.
  [[nodiscard]] static std::size_t first_slot(const void* handle, std::size_t size) noexcept;

  std::mutex mutex_;
  std::array<std::atomic<Slot*>, kMostTables> tables_{};
  std::array<std::size_t, kMostTables> used_{};  // slots that are not null; guarded by the mutex
};

[[nodiscard]] LiveHandles& live_handles();

}  // namespace vkattn::c

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
/// slot is null or holds an address. An address that is taken back becomes kTaken, or null where the next
/// slot is null. So every slot from the first one of an address to its own is not null while it is there, a
/// search ends at a null, and it finds every address that is there while others come and go. The tables grow
/// with the number of addresses at a time, not with the number that ever came.
class LiveHandles {
 public:
  LiveHandles() = default;
  LiveHandles(const LiveHandles&) = delete;
  LiveHandles& operator=(const LiveHandles&) = delete;
  ~LiveHandles();

  [[nodiscard]] bool contains(const void* handle) const noexcept { return find(handle).slots != nullptr; }
  void add(const void* handle);
  [[nodiscard]] bool remove(const void* handle) {
    return with(handle, [] { return true; });
  }
  /// Calls `use` while no other thread can take the handle back, and takes it back if `use` returns true.
  /// Returns false if the handle is not alive.
  template <class Use>
  [[nodiscard]] bool with(const void* handle, Use&& use) {
    const std::lock_guard lock(mutex_);
    const Place place = find(handle);
    if (place.slots == nullptr) return false;
    if (use()) empty(place);
    return true;
  }
  /// The number of slots of all tables that are not null.
  [[nodiscard]] std::size_t used();

 private:
  using Slot = std::atomic<const void*>;
  static constexpr std::size_t kFirstSize = 64, kMostTables = 40;
  static constexpr char kTakenPlace = 0;
  static constexpr const void* kTaken = &kTakenPlace;

  struct Place {
    Slot* slots = nullptr;  ///< of the table; null if the address is nowhere
    std::size_t table = 0, index = 0;
  };
  [[nodiscard]] Place find(const void* handle) const noexcept;
  void empty(const Place& place) noexcept;
  /// The slot of a table where the search for an address begins.
  [[nodiscard]] static std::size_t first_slot(const void* handle, std::size_t size) noexcept;

  std::mutex mutex_;
  std::array<std::atomic<Slot*>, kMostTables> tables_{};
  std::array<std::size_t, kMostTables> used_{};  // slots that are not null; guarded by the mutex
};

[[nodiscard]] LiveHandles& live_handles();

}  // namespace vkattn::c

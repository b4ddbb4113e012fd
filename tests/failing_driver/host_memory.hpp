// The host memory of a test program: counts live allocations, and makes allocations fail on purpose.
#pragma once

#include <cstdint>

namespace vkattn::tests {

/// From now on the n-th allocation of this thread throws. With 0 none does.
void fail_allocation(std::uint64_t n) noexcept;

/// Whether that allocation has happened.
[[nodiscard]] bool allocation_failed() noexcept;

/// The number of live allocations, without those made while an UncountedMemory existed.
[[nodiscard]] std::int64_t live_allocations() noexcept;

/// While it exists, allocations of this thread are neither counted nor made to fail. It is for memory of the
/// test itself.
class UncountedMemory {
 public:
  UncountedMemory() noexcept;
  UncountedMemory(const UncountedMemory&) = delete;
  UncountedMemory& operator=(const UncountedMemory&) = delete;
  ~UncountedMemory();
};

}  // namespace vkattn::tests

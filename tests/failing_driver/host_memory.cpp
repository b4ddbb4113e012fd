// The replaced operator new and delete: see host_memory.hpp.
#include "failing_driver/host_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace vkattn::tests {

namespace {

thread_local std::uint64_t until_failure = 0;  // 1: the next one fails
thread_local bool has_failed = false;
thread_local int uncounted = 0;
std::atomic<std::int64_t> alive{0};

/// Stands before each piece of memory.
struct Header {
  void* block = nullptr;  ///< the address that malloc returned
  bool is_counted = false;
};

void* allocate(std::size_t bytes, std::size_t alignment) {
  const bool is_counted = uncounted == 0;
  if (is_counted && until_failure != 0 && --until_failure == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  const std::size_t step = std::max(alignment, alignof(Header));
  const std::size_t room = (sizeof(Header) + step - 1) / step * step + step;
  void* const block = std::malloc(room + bytes);
  if (block == nullptr) throw std::bad_alloc();
  auto address = reinterpret_cast<std::uintptr_t>(block) + room;
  address -= address % step;
  auto* const memory = reinterpret_cast<std::byte*>(address);
  new (memory - sizeof(Header)) Header{block, is_counted};
  if (is_counted) ++alive;
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  const Header header = *reinterpret_cast<Header*>(static_cast<std::byte*>(memory) - sizeof(Header));
  if (header.is_counted) --alive;
  std::free(header.block);
}

}  // namespace

void fail_allocation(std::uint64_t n) noexcept {
  until_failure = n;
  has_failed = false;
}

bool allocation_failed() noexcept {
  return has_failed;
}

std::int64_t live_allocations() noexcept {
  return alive;
}

UncountedMemory::UncountedMemory() noexcept {
  ++uncounted;
}

UncountedMemory::~UncountedMemory() {
  --uncounted;
}

}  // namespace vkattn::tests

// The forms for arrays call these by default. The form that does not throw would too, but sanitizers have
// their own.

void* operator new(std::size_t bytes) {
  return vkattn::tests::allocate(bytes, alignof(std::max_align_t));
}

void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return vkattn::tests::allocate(bytes, static_cast<std::size_t>(alignment));
}

void operator delete(void* memory) noexcept {
  vkattn::tests::release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  vkattn::tests::release(memory);
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  vkattn::tests::release(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  vkattn::tests::release(memory);
}

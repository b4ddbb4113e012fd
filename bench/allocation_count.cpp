// Replaces operator new and delete: see allocation_count.hpp.
#include "allocation_count.hpp"

#include <cstdlib>
#include <new>

#if defined(VKATTN_SANITIZED)

std::optional<std::uint64_t> vkattn::bench::allocations_of_this_thread() noexcept {
  return std::nullopt;
}

#else

namespace {

thread_local std::uint64_t allocations = 0;

}  // namespace

std::optional<std::uint64_t> vkattn::bench::allocations_of_this_thread() noexcept {
  return allocations;
}

// The forms for arrays and the forms that do not throw call these by default. Memory with an alignment of its
// own has its own operator delete, so both kinds of memory have their operators here.

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/) noexcept {
  std::free(memory);
}

#if !defined(_WIN32)  // On Windows free() cannot free aligned memory, so the library's own operators stay,
                      // uncounted.

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  const std::size_t whole = (bytes + step - 1) / step * step;
  if (void* const memory = std::aligned_alloc(step, whole == 0 ? step : whole)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}

#endif

#endif

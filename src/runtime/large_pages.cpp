// Memory in large pages: see large_pages.hpp.
#include "runtime/large_pages.hpp"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace vkattn::detail {

#ifdef __linux__

bool LargePages::can_be_asked_for() {
  return true;
}

LargePages LargePages::of(std::size_t bytes) {
  LargePages pages;
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return pages;
  pages.data_ = data;
  pages.bytes_ = bytes;
  (void)madvise(data, bytes, MADV_HUGEPAGE);  // where the system has none, pages are small
  return pages;
}

LargePages::~LargePages() {
  if (data_ != nullptr) (void)munmap(data_, bytes_);
}

#else

bool LargePages::can_be_asked_for() {
  return false;
}

LargePages LargePages::of(std::size_t /*bytes*/) {
  return {};
}

LargePages::~LargePages() = default;

#endif

}  // namespace vkattn::detail

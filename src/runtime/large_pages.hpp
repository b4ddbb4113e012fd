/// Memory of the host for large buffers of a driver for CPUs, in large pages where the system has some.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vkattn::detail {

/// What begins and ends the host's memory that a buffer takes: no page of a host is smaller.
inline constexpr std::uint64_t kSmallestPage = 4096;

/// lavapipe's own memory is a file in memory, whose pages are small unless an administrator asks for others.
/// A product of one row reads each number of a matrix once. In pages of 4 KiB it waits for translations of
/// addresses (TLB misses), and prefetchers end at the end of a page (docs/trials/lavapipe.md).
class LargePages {
 public:
  /// Whether the system can be asked for them. Whether it gives some, only it knows.
  [[nodiscard]] static bool can_be_asked_for();

  LargePages() = default;
  LargePages(LargePages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  LargePages& operator=(LargePages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~LargePages();

  /// So many bytes of zeros, or nothing if they cannot be had. Neighbours share large pages.
  [[nodiscard]] static LargePages of(std::size_t bytes);
  /// Null: nothing.
  [[nodiscard]] void* data() const { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace vkattn::detail

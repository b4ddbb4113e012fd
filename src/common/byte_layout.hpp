// The bytes of a strided tensor, and whether two tensors have bytes in common.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace vkattn::detail {

/// `run_bytes` side by side, again and again along up to four dimensions. Dimensions whose neighbours touch
/// belong to the run, so a tensor without padding is one run.
class ByteLayout {
 public:
  struct Dimension {
    std::uint64_t count = 0;   ///< of steps: one less than of places
    std::uint64_t stride = 0;  ///< bytes of a step
  };
  static constexpr std::size_t kMostDimensions = 4;

  ByteLayout() = default;  ///< no bytes
  explicit ByteLayout(std::uint64_t bytes) : run_bytes_(bytes) {}
  /// With so many `places` along each dimension, none of them 0. A stride of 0 repeats the same bytes.
  ByteLayout(std::uint64_t element_bytes, std::array<std::uint64_t, kMostDimensions> places,
             std::array<std::uint64_t, kMostDimensions> stride_bytes);

  [[nodiscard]] bool is_empty() const noexcept { return run_bytes_ == 0; }
  /// Whether the bytes from the first to the last have no gap.
  [[nodiscard]] bool is_one_run() const noexcept { return dimensions_[0].count == 0; }
  [[nodiscard]] std::uint64_t run_bytes() const noexcept { return run_bytes_; }
  /// The dimensions outside of the run, the smallest stride first; unused entries have a count of 0.
  [[nodiscard]] const std::array<Dimension, kMostDimensions>& dimensions() const noexcept {
    return dimensions_;
  }
  /// From the first byte to the end of the last.
  [[nodiscard]] std::uint64_t span_bytes() const noexcept;

 private:
  std::uint64_t run_bytes_ = 0;
  std::array<Dimension, kMostDimensions> dimensions_{};
};

/// Whether two layouts, which begin at `a_first` and `b_first`, have a byte in common. Interleaved rows have
/// none. If odd strides make the search too long, the answer is no. Allocates nothing.
[[nodiscard]] bool meet(const ByteLayout& a, std::uint64_t a_first, const ByteLayout& b,
                        std::uint64_t b_first) noexcept;

}  // namespace vkattn::detail

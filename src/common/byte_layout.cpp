// Bytes of strided tensors: see byte_layout.hpp.
#include "common/byte_layout.hpp"

#include <algorithm>

namespace vkattn::detail {

namespace {

/// Decides whether stride_1 * x_1 + stride_2 * x_2 + … = target has a solution with 0 <= x_i <= count_i.
/// Large strides come first: then the smaller ones leave few values of x_i that can still reach the target.
/// In every usual layout, where a stride spans all that the smaller ones reach, there are one or two.
class BoundedSum {
 public:
  void add(std::uint64_t count, std::uint64_t stride) noexcept {
    if (count == 0 || stride == 0) return;
    for (std::size_t i = 0; i < size_; ++i) {
      if (terms_[i].stride != stride) continue;
      terms_[i].count += count;
      return;
    }
    terms_[size_++] = {count, stride};
  }

  [[nodiscard]] bool reaches(std::uint64_t target) noexcept {
    std::sort(terms_.begin(), terms_.begin() + static_cast<std::ptrdiff_t>(size_),
              [](const Term& x, const Term& y) { return x.stride > y.stride; });
    for (std::size_t i = size_; i-- > 0;) most_[i] = most_[i + 1] + terms_[i].count * terms_[i].stride;
    steps_ = 0;
    return reaches(target, 0);
  }

 private:
  using Term = ByteLayout::Dimension;
  static constexpr std::size_t kMostTerms = 2 * ByteLayout::kMostDimensions + 1;
  static constexpr std::uint32_t kMostSteps = 4096;

  // `steps_` bounds the time, and the number of terms the depth.
  bool reaches(std::uint64_t target, std::size_t i) noexcept {  // NOLINT(misc-no-recursion)
    if (target == 0) return true;
    if (target > most_[i]) return false;
    const Term& term = terms_[i];
    const std::uint64_t rest = most_[i + 1];
    std::uint64_t least = 0;
    if (target > rest) least = (target - rest - 1) / term.stride + 1;
    const std::uint64_t most = std::min(term.count, target / term.stride);
    for (std::uint64_t x = least; x <= most; ++x) {
      if (++steps_ > kMostSteps) return false;
      if (reaches(target - x * term.stride, i + 1)) return true;
    }
    return false;
  }

  std::array<Term, kMostTerms> terms_{};
  std::array<std::uint64_t, kMostTerms + 1> most_{};
  std::size_t size_ = 0;
  std::uint32_t steps_ = 0;
};

}  // namespace

ByteLayout::ByteLayout(std::uint64_t element_bytes, std::array<std::uint64_t, kMostDimensions> places,
                       std::array<std::uint64_t, kMostDimensions> stride_bytes)
    : run_bytes_(element_bytes) {
  std::array<Dimension, kMostDimensions> all;
  for (std::size_t i = 0; i < kMostDimensions; ++i) all[i] = {places[i] - 1, stride_bytes[i]};
  std::sort(all.begin(), all.end(),
            [](const Dimension& x, const Dimension& y) { return x.stride < y.stride; });
  std::size_t size = 0;
  for (const Dimension& dimension : all) {
    if (dimension.count == 0 || dimension.stride == 0) continue;
    if (size == 0 && dimension.stride <= run_bytes_) {
      run_bytes_ += dimension.count * dimension.stride;
    } else {
      dimensions_[size++] = dimension;
    }
  }
}

std::uint64_t ByteLayout::span_bytes() const noexcept {
  std::uint64_t bytes = run_bytes_;
  for (const Dimension& dimension : dimensions_) bytes += dimension.count * dimension.stride;
  return bytes;
}

bool meet(const ByteLayout& a, std::uint64_t a_first, const ByteLayout& b, std::uint64_t b_first) noexcept {
  if (a.is_empty() || b.is_empty()) return false;
  const std::uint64_t a_end = a_first + a.span_bytes(), b_end = b_first + b.span_bytes();
  if (a_first >= b_end || b_first >= a_end) return false;
  // A byte of a is a_first + steps of a + a byte of its run; one of b, counted from its last, is b_end - 1 -
  // steps of b - a byte of its run. They are equal where all these steps together are b_end - 1 - a_first.
  BoundedSum sum;
  for (const ByteLayout::Dimension& dimension : a.dimensions()) sum.add(dimension.count, dimension.stride);
  for (const ByteLayout::Dimension& dimension : b.dimensions()) sum.add(dimension.count, dimension.stride);
  sum.add(a.run_bytes() + b.run_bytes() - 2, 1);
  return sum.reaches(b_end - 1 - a_first);
}

}  // namespace vkattn::detail

// Which of several measured problems is nearest to a given one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

namespace vkattn::detail {

/// Powers of two between two sizes.
[[nodiscard]] inline double size_distance(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1))) -
                  std::log2(static_cast<double>(std::max<std::int64_t>(b, 1))));
}

/// The sum of distances between pairs of sizes; nothing where one is more than a factor of 4.
[[nodiscard]] inline std::optional<double> sum_of_distances(
    std::initializer_list<std::pair<std::int64_t, std::int64_t>> sizes) {
  constexpr double kFarthest = 2.0;
  double sum = 0;
  for (const auto& [a, b] : sizes) {
    if (size_distance(a, b) > kFarthest) return std::nullopt;
    sum += size_distance(a, b);
  }
  return sum;
}

/// The first of those that are nearest, or null; `far(tuned)` is nothing for what is too far.
template <class Tuned, class Far>
[[nodiscard]] const Tuned* nearest_of(const std::vector<Tuned>& measured, Far&& far) {
  const Tuned* best = nullptr;
  double least = 0;
  for (const Tuned& tuned : measured) {
    const std::optional<double> total = far(tuned);
    if (!total || (best != nullptr && *total >= least)) continue;
    best = &tuned;
    least = *total;
  }
  return best;
}

}  // namespace vkattn::detail

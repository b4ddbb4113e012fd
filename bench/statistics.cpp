// Order statistics of timings.
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace vkattn::bench {

double percentile(std::span<const double> sorted, double share) {
  if (sorted.empty()) return 0;
  const double position = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const double below = std::floor(position);
  const auto index = static_cast<std::size_t>(below);
  const std::size_t next = std::min(index + 1, sorted.size() - 1);
  return sorted[index] + (position - below) * (sorted[next] - sorted[index]);
}

Statistics summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return {sorted.size(),
          percentile(sorted, 0.5),
          percentile(sorted, 0.05),
          percentile(sorted, 0.95),
          sorted.front(),
          sorted.back()};
}

}  // namespace vkattn::bench

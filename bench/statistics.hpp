// The statistics that are reported of a set of timings.
#pragma once

#include <cstddef>
#include <span>

namespace vkattn::bench {

struct Statistics {
  std::size_t count = 0;
  double median = 0;
  double p5 = 0;   ///< 5th percentile
  double p95 = 0;  ///< 95th percentile
  double minimum = 0;
  double maximum = 0;
};

/// The value below which `share` (0 to 1) of the sorted samples lie. Between neighbours it is interpolated
/// linearly.
[[nodiscard]] double percentile(std::span<const double> sorted, double share);

/// All members are zero if there are no samples.
[[nodiscard]] Statistics summarize(std::span<const double> samples);

}  // namespace vkattn::bench

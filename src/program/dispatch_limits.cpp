// Limits of dispatches: see dispatch_limits.hpp.
#include "program/dispatch_limits.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::detail {

double assumed_flops_per_ns(const Capabilities& capabilities) {
  return capabilities.device_type == DeviceType::kDiscreteGpu ? 100.0 : 12.5;
}

std::uint64_t dispatch_limit_ns(const Capabilities& capabilities, std::uint64_t max_dispatch_ns) {
  constexpr std::uint64_t kDefaultNs = 100'000'000;
  if (max_dispatch_ns != 0) return max_dispatch_ns;
  return capabilities.is_cpu() ? 0 : kDefaultNs;
}

UnitLimits dispatch_limits(const Capabilities& capabilities, std::uint64_t max_dispatch_ns, double unit_ns) {
  UnitLimits limits;
  limits.unit_ns = unit_ns;
  const auto allowed_ns = static_cast<double>(dispatch_limit_ns(capabilities, max_dispatch_ns));
  if (allowed_ns == 0 || unit_ns <= 0) return limits;
  const double allowed = std::floor(allowed_ns / unit_ns);
  limits.most_units = static_cast<std::uint64_t>(std::clamp(allowed, 1.0, 2.0e9));
  return limits;
}

}  // namespace vkattn::detail

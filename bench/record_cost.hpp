// Measures what recording a plan costs the host.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <optional>

#include "harness/runnable.hpp"

namespace vkattn::bench {

struct RecordCost {
  double median_ns = 0;                      ///< the time of one call, the driver's part included
  std::optional<std::uint64_t> allocations;  ///< calls of operator new in the call that made the most of them
};

/// Records the plan many times into command buffers that are never submitted.
[[nodiscard]] Result<RecordCost> measure_record(const Runtime& runtime, const harness::Runnable& plan,
                                                const Bindings& bindings);

}  // namespace vkattn::bench

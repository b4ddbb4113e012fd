// Times recording: see record_cost.hpp.
#include "record_cost.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "allocation_count.hpp"
#include "runtime/record_only.hpp"
#include "statistics.hpp"

namespace vkattn::bench {

Result<RecordCost> measure_record(const Runtime& runtime, const harness::Runnable& plan,
                                  const Bindings& bindings) {
  using Clock = std::chrono::steady_clock;
  using Nanoseconds = std::chrono::duration<double, std::nano>;
  constexpr std::size_t kCommandBuffers = 40;
  constexpr std::size_t kCallsInEach =
      16;  // few, because an application does not fill a command buffer with one plan
  constexpr auto kTimeLimit = std::chrono::milliseconds(50);
  std::vector<double> samples;
  samples.reserve(kCommandBuffers * kCallsInEach);
  std::uint64_t most_allocations = 0;
  auto record = [&](VkCommandBuffer commands) {
    for (std::size_t call = 0; call < kCallsInEach; ++call) {
      const std::uint64_t before = allocations_of_this_thread().value_or(0);
      const auto start = Clock::now();
      plan.record(commands, bindings);
      const auto end = Clock::now();
      most_allocations = std::max(most_allocations, allocations_of_this_thread().value_or(0) - before);
      samples.push_back(Nanoseconds(end - start).count());
    }
  };
  const auto start = Clock::now();
  for (std::size_t i = 0; i < kCommandBuffers && (i == 0 || Clock::now() - start < kTimeLimit); ++i) {
    if (const Result<void> status = detail::record_only(runtime, record); !status.ok()) return status.error();
  }
  RecordCost cost;
  cost.median_ns = summarize(samples).median;
  if (allocations_of_this_thread()) cost.allocations = most_allocations;
  return cost;
}

}  // namespace vkattn::bench

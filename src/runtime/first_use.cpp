// First use of a kernel on a device: see first_use.hpp.
#include "runtime/first_use.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "common/message.hpp"

namespace vkattn::detail {

namespace {

/// A self-test whose inputs are on the device.
struct LoadedTest {
  SelfTest test;
  std::vector<std::byte> bytes;
  Buffer buffer;
  Bindings bindings;

  void record(VkCommandBuffer commands) const { test.record(commands, bindings); }
};

Result<LoadedTest> load_test(const Runtime& runtime, Result<SelfTest> test) {
  if (!test) return test.error();
  auto buffer = runtime.create_buffer(test->buffer_bytes());
  if (!buffer) return buffer.error();
  std::vector<std::byte> bytes(static_cast<std::size_t>(test->buffer_bytes()));
  if (Result<void> s = test->fill(bytes); !s) return s.error();
  if (Result<void> s = runtime.write(*buffer, 0, bytes); !s) return s.error();
  auto bindings = test->make_bindings(buffer->range());
  if (!bindings) return bindings.error();
  return LoadedTest{*std::move(test), std::move(bytes), *std::move(buffer), *std::move(bindings)};
}

Result<TestOutcome> run_test(const Runtime& runtime, Result<SelfTest> test, std::vector<SelfTest>& done) {
  auto loaded = load_test(runtime, std::move(test));
  if (!loaded) return loaded.error();
  const auto times = runtime.execute([&](VkCommandBuffer commands) { loaded->record(commands); });
  if (!times) return times.error();
  if (Result<void> s = runtime.read(loaded->buffer, 0, loaded->bytes); !s) return s.error();
  auto failure = loaded->test.check(loaded->bytes);
  if (!failure) return failure.error();
  done.push_back(std::move(loaded->test));
  return TestOutcome{*std::move(failure), 0};
}

std::string milliseconds(std::uint64_t nanoseconds) {
  const double time = static_cast<double>(nanoseconds) * 1e-6;
  return time < 100 ? message(MessagePart(time, 3), " ms") : message(std::llround(time), " ms");
}

}  // namespace

Result<TestOutcome> run_self_test(const Runtime& runtime, const AttentionPlan& plan,
                                  std::vector<SelfTest>& done) {
  return run_test(runtime, SelfTest::create(runtime.device(), plan, runtime.pipeline_cache()), done);
}

Result<TestOutcome> run_self_test(const Runtime& runtime, const BackwardPlan& plan,
                                  std::vector<SelfTest>& done) {
  return run_test(runtime, SelfTest::create(runtime.device(), plan, runtime.pipeline_cache()), done);
}

Result<TestOutcome> run_self_test(const Runtime& runtime, const MatmulPlan& plan,
                                  std::vector<SelfTest>& done) {
  return run_test(runtime, SelfTest::create(runtime.device(), plan, runtime.pipeline_cache()), done);
}

Result<TestOutcome> time_kernel(const Runtime& runtime, const AttentionPlan& plan,
                                std::vector<SelfTest>& done) {
  constexpr double kEnoughNs = 10e6;
  constexpr double kSlowNs = 100e6;
  constexpr int kMostRuns = 16;
  auto loaded = load_test(
      runtime, SelfTest::create(runtime.device(), plan, runtime.pipeline_cache(), TestPurpose::kTime));
  if (!loaded) return loaded.error();
  double least = HUGE_VAL, sum = 0;
  for (int run = 0; run < kMostRuns && sum < kEnoughNs; ++run) {
    const auto times = runtime.execute([&](VkCommandBuffer commands) { loaded->record(commands); });
    if (!times) return times.error();
    const double time = times->front();
    // Drivers may compile at the first run, and GPUs may wake slowly.
    if (run == 0 && time < kSlowNs) continue;
    least = std::min(least, time);
    sum += time;
  }
  done.push_back(std::move(loaded->test));
  // 0 of a clock that stands still counts as no time.
  return TestOutcome{{}, static_cast<std::uint64_t>(std::llround(least))};
}

TimesVerdict judge_times(std::span<const KernelTime> kernels) {
  std::vector<std::uint64_t> times;
  std::string known;
  std::size_t count = 0;
  for (const KernelTime& kernel : kernels) {
    times.push_back(kernel.nanoseconds);
    if (kernel.nanoseconds == 0) continue;
    known += message(known.empty() ? "" : ", ", kernel.kernel, " ", milliseconds(kernel.nanoseconds));
    ++count;
  }
  TimesVerdict verdict;
  if (count < 2) return verdict;
  verdict.note = message("timed on this device: ", known);
  const std::size_t chosen = kernel_by_time(times);
  for (const KernelTime& slow : kernels.first(chosen)) {
    const std::string took = slow.nanoseconds == 0 ? "was not timed on this device"
                                                   : message("took ", milliseconds(slow.nanoseconds),
                                                             " on this device for a problem of this kind");
    verdict.refusals.push_back({slow.kernel, message(took, ", ", kernels[chosen].kernel, " ",
                                                     milliseconds(kernels[chosen].nanoseconds))});
  }
  return verdict;
}

}  // namespace vkattn::detail

// The first use of a kernel on a device: a small problem shows its results, a larger one its time.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/self_test.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/test_outcomes.hpp"

namespace vkattn::detail {

/// Runs a small problem of the plan's kind (attention, gradients or a product) on the same kernel with the
/// same block sizes, and compares with the reference. An Error means that it could not run. The test goes to
/// `done`: while it lives, the plan finds equal pipelines compiled.
/// @{
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const AttentionPlan& plan,
                                                std::vector<SelfTest>& done);
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const BackwardPlan& plan,
                                                std::vector<SelfTest>& done);
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const MatmulPlan& plan,
                                                std::vector<SelfTest>& done);
/// @}

/// The time of a problem of the plan's kind that fills the device: the least of a few runs, within some ten
/// milliseconds; a far slower kernel runs once. The test goes to `done`, too.
[[nodiscard]] Result<TestOutcome> time_kernel(const Runtime& runtime, const AttentionPlan& plan,
                                              std::vector<SelfTest>& done);

struct KernelTime {
  std::string kernel;
  std::uint64_t nanoseconds = 0;  ///< 0: not known
};

/// The verdict on the times of a device's first kernels.
struct TimesVerdict {
  std::vector<KernelRefusal> refusals;  ///< before the kernel that is to be used
  std::string note;                     ///< for describe(): the times; empty where none can be compared
};

/// Judges kernels in the order of the device.
[[nodiscard]] TimesVerdict judge_times(std::span<const KernelTime> kernels);

}  // namespace vkattn::detail

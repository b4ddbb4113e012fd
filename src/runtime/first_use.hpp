// What a kernel shows at its first use on a device: results by a small problem, its time by a larger one.
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
/// same block sizes, and compares with the reference. An Error where it could not run. The test goes to
/// `done`: while it lives, the plan finds those of its pipelines compiled that are the same.
/// @{
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const AttentionPlan& plan,
                                                std::vector<SelfTest>& done);
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const BackwardPlan& plan,
                                                std::vector<SelfTest>& done);
[[nodiscard]] Result<TestOutcome> run_self_test(const Runtime& runtime, const MatmulPlan& plan,
                                                std::vector<SelfTest>& done);
/// @}

/// The time of a problem of the plan's kind that fills the device: the least of a few runs, within some ten
/// milliseconds; of a kernel that is far slower than that, of one run. The test goes to `done` likewise.
[[nodiscard]] Result<TestOutcome> time_kernel(const Runtime& runtime, const AttentionPlan& plan,
                                              std::vector<SelfTest>& done);

struct KernelTime {
  std::string kernel;
  std::uint64_t nanoseconds = 0;  ///< 0: not known
};

/// What the times of a device's first kernels say.
struct TimesVerdict {
  std::vector<KernelRefusal> refusals;  ///< before the kernel that is to be used
  std::string note;                     ///< for describe(): the times; empty where none can be compared
};

/// Of kernels in the order of the device.
[[nodiscard]] TimesVerdict judge_times(std::span<const KernelTime> kernels);

}  // namespace vkattn::detail

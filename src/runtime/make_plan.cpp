// Plans on a device whose kernels are tested and timed at their first use.
#include <vkattn/operations.hpp>
#include <vkattn/self_test.hpp>

#include <utility>

#include "common/message.hpp"
#include "operation/plan_state.hpp"
#include "runtime/first_use.hpp"
#include "runtime/probed_rows.hpp"
#include "runtime/runtime_state.hpp"
#include "vulkan/debug.hpp"

namespace vkattn {

namespace detail {

namespace {

// The reason against the plan's kernel if it needs a self-test and fails; else empty.
template <class Plan>
Result<std::string> reason_after_self_test(const Runtime& runtime, RuntimeState& state, const Plan& plan,
                                           std::vector<SelfTest>& done) {
  if constexpr (!requires { SelfTest::create(*state.device, plan); }) {
    return std::string();
  } else {
    if (!SelfTest::is_needed(plan)) return std::string();
    const std::string configuration = plan.configuration();
    std::optional<TestOutcome> known = state.self_tests.find(configuration);
    if (!known) {
      if (!state.run_self_tests) return std::string();
      auto outcome = state.self_tests.run(configuration, [&] { return run_self_test(runtime, plan, done); });
      if (!outcome && outcome.error().code == ErrorCode::kDeviceLost) return outcome.error();
      // A test that could not run, perhaps for lack of memory, is tried again another time.
      if (!outcome)
        return message("could not run its self-test on this device (", outcome.error().message, ")");
      known = *std::move(outcome);
    }
    if (known->failure.empty()) return std::string();
    return message("failed its self-test on this device (", known->failure, ")");
  }
}

// The time of the plan's kernel; 0 if it is not known.
Result<TestOutcome> time_of(const Runtime& runtime, RuntimeState& state, const AttentionPlan& plan,
                            std::vector<SelfTest>& done) {
  const AttentionDesc& desc = plan.desc();
  const std::string test = message("time with ", desc.query_heads / desc.kv_heads,
                                   " query heads to a KV head: ", plan.configuration());
  if (auto known = state.self_tests.find(test)) return *std::move(known);
  if (!state.run_self_tests) return TestOutcome();
  auto outcome = state.self_tests.run(test, [&] { return time_kernel(runtime, plan, done); });
  const bool lost = !outcome && outcome.error().code == ErrorCode::kDeviceLost;
  return outcome || lost ? outcome : TestOutcome();
}

// Whether the plan is the one of a tuning file.
bool is_tuned(const Plan& plan) {
  return !plan.state().tuning.used.empty();
}

// Keeps the next plan from what the reason is against: measured block sizes, as the kernel's own may be
// right, or the kernel.
void refuse(const Plan& plan, std::string reason, PlanOptions& options) {
  if (!is_tuned(plan)) {
    options.refusals.push_back({std::string(plan.kernel_name()), std::move(reason)});
    return;
  }
  options.notes.push_back(cannot_use_tuned(plan.state().tuning.used, reason));
  options.tuning = nullptr;
  write_log(plan.state().device->log, LogLevel::kWarning, options.notes.back());
}

// Whether another plan may do where the driver does not compile this one. Measured block sizes never decide
// whether there is a plan, whatever the error.
bool has_substitute(const Plan& plan, const PlanOptions& options, const Error& error) {
  const bool is_only_kernel = !options.kernel.empty() || plan.kernel_name().empty();
  return is_tuned(plan) || (error.code == ErrorCode::kUnsupported && !is_only_kernel);
}

// The plan and those of the kernels after it, up to the first without matrix units. They show a compiler that
// is bad at matrices.
Result<std::vector<AttentionPlan>> first_kernels(const Runtime& runtime, RuntimeState& state,
                                                 const AttentionPlan& plan, const PlanOptions& options,
                                                 std::vector<SelfTest>& done) {
  std::vector<AttentionPlan> plans{plan};
  PlanOptions others = options;
  others.tuning = nullptr;
  std::string_view before = plan.kernel_name();
  while (plans.back().uses_matrix_units()) {
    others.refusals.push_back({std::string(before), "comes before"});
    auto next = AttentionPlan::create(*state.device, plan.desc(), others);
    if (!next) break;
    before = next->kernel_name();
    auto reason = reason_after_self_test(runtime, state, *next, done);
    if (!reason) return reason.error();
    if (reason->empty()) plans.push_back(*std::move(next));
  }
  return plans;
}

// Compares the times of the first kernels, as a driver may make ordinary code of matrices, or spill most of a
// kernel. Kernels that were asked for by name are not compared.
Result<TimesVerdict> compare_times(const Runtime& runtime, RuntimeState& state, const AttentionPlan& plan,
                                   const PlanOptions& options, std::vector<SelfTest>& done) {
  if (!state.times_kernels || !options.kernel.empty() || !SelfTest::is_needed(plan)) return TimesVerdict();
  const auto plans = first_kernels(runtime, state, plan, options, done);
  if (!plans) return plans.error();
  if (plans->size() < 2) return TimesVerdict();
  std::vector<KernelTime> times;
  std::vector<KernelRefusal> failed;
  // The device's first choice runs last, so that a GPU's slow start never counts against it.
  for (auto one = plans->rbegin(); one != plans->rend(); ++one) {
    const std::string kernel(one->kernel_name());
    auto time = time_of(runtime, state, *one, done);
    if (!time) return time.error();
    if (time->failure.empty()) {
      times.insert(times.begin(), {kernel, time->nanoseconds});
    } else if (one->uses_matrix_units()) {
      failed.push_back({kernel, message("was not timed on this device (", time->failure, ")")});
    }
  }
  TimesVerdict verdict = judge_times(times);
  verdict.refusals.insert(verdict.refusals.end(), failed.begin(), failed.end());
  return verdict;
}

// Compares the times of the first kernels, adds slow ones to the refusals, and says whether the plan must be
// made again.
Result<bool> add_times(const Runtime& runtime, RuntimeState& state, const AttentionPlan& plan,
                       PlanOptions& options, std::vector<SelfTest>& done) {
  auto verdict = compare_times(runtime, state, plan, options, done);
  if (!verdict) return verdict.error();
  const bool changes = !verdict->refusals.empty() || !verdict->note.empty();
  options.refusals.insert(options.refusals.end(), verdict->refusals.begin(), verdict->refusals.end());
  if (!verdict->note.empty()) options.notes.push_back(std::move(verdict->note));
  return changes;
}

// Problems of other operations are not timed.
Result<bool> add_times(const Runtime& /*runtime*/, RuntimeState& /*state*/, const Plan& /*plan*/,
                       PlanOptions& /*options*/, std::vector<SelfTest>& /*done*/) {
  return false;
}

// Has the device probed if a tile that is asked for, or measured, needs it.
Result<void> probe_for(const Runtime& runtime, const AttentionDesc& given, const PlanOptions& options) {
  const AttentionDesc desc = given.resolved();
  if (!validate(desc)) return {};  // the plan says why
  if (options.tile) return probe_rows(runtime, desc, options.kernel, *options.tile);
  const TunedProblem* const tuned =
      options.tuning ? options.tuning->nearest(desc, options.arithmetic_type) : nullptr;
  return tuned == nullptr ? Result<void>() : probe_rows(runtime, desc, tuned->best.kernel, tuned->best.tile);
}

// Other operations need no probe.
template <class Desc>
Result<void> probe_for(const Runtime& /*runtime*/, const Desc& /*desc*/, const PlanOptions& /*options*/) {
  return {};
}

// A plan whose kernel has passed its self-test. What fails is refused, and the plan made again.
template <class Made>
Result<Made> make_tested_plan(const Runtime& runtime, RuntimeState& state, const typename Made::Desc& desc,
                              PlanOptions options) {
  if (!options.tuning) options.tuning = state.tuning;
  if (Result<void> s = check_not_lost(state); !s) return s.error();
  // Statistics come from compiling.
  if (options.pipeline_cache == VK_NULL_HANDLE && !options.capture_statistics)
    options.pipeline_cache = runtime.pipeline_cache();
  if (Result<void> s = probe_for(runtime, desc, options); !s) return s.error();
  // A kernel is first compiled within its test, as compiling may end the program.
  const bool compiles = !std::exchange(options.deferred_compilation, true);
  std::vector<SelfTest> done;  // alive, so that the plan finds what they have compiled
  for (bool is_compared = false;;) {
    auto plan = Made::create(*state.device, desc, options);
    if (!plan) return plan;
    auto reason = reason_after_self_test(runtime, state, *plan, done);
    if (!reason) return reason.error();
    // The kernels after a measured one are not timed, but those of a plan in its place are.
    if (reason->empty() && !is_tuned(*plan) && !std::exchange(is_compared, true)) {
      const auto changes = add_times(runtime, state, *plan, options, done);
      if (!changes) return changes.error();
      if (*changes) continue;
    }
    if (reason->empty() && compiles) {
      if (const Result<void> compiled = plan->compile(); !compiled) {
        if (!has_substitute(*plan, options, compiled.error())) return compiled.error();
        *reason = compiled.error().message;
      }
    }
    if (reason->empty()) return plan;
    refuse(*plan, *std::move(reason), options);
  }
}

// The runtime makes the plans of a layer's steps, unless the caller does.
template <class Made>
Result<Made> make_tested_plan(const Runtime& runtime, RuntimeState& state, const typename Made::Desc& desc,
                              MultiHeadAttentionOptions options) {
  if (Result<void> s = check_not_lost(state); !s) return s.error();
  if (options.pipeline_cache == VK_NULL_HANDLE) options.pipeline_cache = runtime.pipeline_cache();
  const auto make_step = [&runtime](const auto& step, const PlanOptions& how) {
    return runtime.make_plan(step, how);
  };
  if (!options.make_attention) options.make_attention = make_step;
  if (!options.make_backward) options.make_backward = make_step;
  if (!options.make_matmul) options.make_matmul = make_step;
  return Made::create(*state.device, desc, options);
}

}  // namespace

}  // namespace detail

template <class Desc>
Result<typename Desc::Plan> Runtime::make_plan(const Desc& desc,
                                               const typename Desc::Plan::Options& options) const {
  return detail::without_exceptions(
      [&] { return detail::make_tested_plan<typename Desc::Plan>(*this, *state_, desc, options); });
}

#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  template Result<PLAN> Runtime::make_plan(const DESC&, const PLAN::Options&) const;
#include "common/operations.def"

}  // namespace vkattn

// Plans on a device whose kernels are tested and timed at their first use.
#include <vkattn/self_test.hpp>

#include <utility>

#include "common/message.hpp"
#include "runtime/first_use.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn {

namespace detail {

namespace {

// Why the plan's kernel is not to be used here, where it needs a self-test; empty where it may be.
Result<std::string> reason_after_self_test(const Runtime& runtime, RuntimeState& state,
                                           const AttentionPlan& plan) {
  if (!SelfTest::is_needed(plan)) return std::string();
  const std::string configuration = plan.configuration();
  std::optional<TestOutcome> known = state.self_tests.find(configuration);
  if (!known) {
    if (!state.run_self_tests) return std::string();
    auto outcome = state.self_tests.run(configuration, [&] { return run_self_test(runtime, plan); });
    if (!outcome && outcome.error().code == ErrorCode::kDeviceLost) return outcome.error();
    // One that could not run, for lack of memory perhaps, is tried again another time.
    if (!outcome)
      return message("could not run its self-test on this device (", outcome.error().message, ")");
    known = *std::move(outcome);
  }
  if (known->failure.empty()) return std::string();
  return message("failed its self-test on this device (", known->failure, ")");
}

// The time of the plan's kernel, 0 where it is not known.
Result<TestOutcome> time_of(const Runtime& runtime, RuntimeState& state, const AttentionPlan& plan) {
  const AttentionDesc& desc = plan.desc();
  const std::string test = message("time with ", desc.query_heads / desc.kv_heads,
                                   " query heads to a KV head: ", plan.configuration());
  if (auto known = state.self_tests.find(test)) return *std::move(known);
  if (!state.run_self_tests) return TestOutcome();
  auto outcome = state.self_tests.run(test, [&] { return time_kernel(runtime, plan); });
  const bool lost = !outcome && outcome.error().code == ErrorCode::kDeviceLost;
  return outcome || lost ? outcome : TestOutcome();
}

// That the plan is what a tuning file says.
bool is_tuned(const AttentionPlan& plan, const PlanOptions& options) {
  const TunedProblem* const tuned = options.tuning ? options.tuning->nearest(plan.desc()) : nullptr;
  return tuned != nullptr && tuned->best == KernelTile{std::string(plan.kernel_name()), plan.tile()};
}

// The plan and those of the kernels after it, up to the first that has no need of matrix units: what a
// compiler that is bad at matrices is measured by.
Result<std::vector<AttentionPlan>> first_kernels(const Runtime& runtime, RuntimeState& state,
                                                 const AttentionPlan& plan, const PlanOptions& options) {
  std::vector<AttentionPlan> plans{plan};
  PlanOptions others = options;
  others.tuning = nullptr;
  std::string_view before = plan.kernel_name();
  while (plans.back().uses_matrix_units()) {
    others.refusals.push_back({std::string(before), "comes before"});
    auto next = AttentionPlan::create(*state.device, plan.desc(), others);
    if (!next) break;
    before = next->kernel_name();
    auto reason = reason_after_self_test(runtime, state, *next);
    if (!reason) return reason.error();
    if (reason->empty()) plans.push_back(*std::move(next));
  }
  return plans;
}

// A driver may list matrices that its compiler makes ordinary code of, or spill most of a kernel. What was
// asked for by name or measured is not compared.
Result<TimesVerdict> compare_times(const Runtime& runtime, RuntimeState& state, const AttentionPlan& plan,
                                   const PlanOptions& options) {
  const bool is_asked_for = !options.kernel.empty() || is_tuned(plan, options);
  if (!state.times_kernels || is_asked_for || !SelfTest::is_needed(plan)) return TimesVerdict();
  const auto plans = first_kernels(runtime, state, plan, options);
  if (!plans) return plans.error();
  if (plans->size() < 2) return TimesVerdict();
  std::vector<KernelTime> times;
  std::vector<KernelRefusal> failed;
  // The device's first choice runs last: a GPU that wakes up is never held against it.
  for (auto one = plans->rbegin(); one != plans->rend(); ++one) {
    const std::string kernel(one->kernel_name());
    auto time = time_of(runtime, state, *one);
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

}  // namespace

}  // namespace detail

Result<AttentionPlan> Runtime::make_plan(const AttentionDesc& desc, const PlanOptions& options) const {
  return detail::without_exceptions([&]() -> Result<AttentionPlan> {
    if (Result<void> s = detail::check_not_lost(*state_); !s) return s.error();
    PlanOptions full = options;
    // Statistics come from compiling.
    if (full.pipeline_cache == VK_NULL_HANDLE && !full.capture_statistics)
      full.pipeline_cache = pipeline_cache();
    if (!full.tuning) full.tuning = state_->tuning;
    // Nothing that was never tested is compiled outside of its test, which may end the program.
    full.deferred_compilation = true;
    for (bool is_compared = false;;) {
      auto plan = AttentionPlan::create(*state_->device, desc, full);
      if (!plan) return plan;
      auto reason = detail::reason_after_self_test(*this, *state_, *plan);
      if (!reason) return reason.error();
      if (reason->empty() && !std::exchange(is_compared, true)) {
        auto verdict = detail::compare_times(*this, *state_, *plan, full);
        if (!verdict) return verdict.error();
        full.refusals.insert(full.refusals.end(), verdict->refusals.begin(), verdict->refusals.end());
        if (!verdict->note.empty()) full.notes.push_back(std::move(verdict->note));
        if (!verdict->refusals.empty() || full.notes.size() != options.notes.size()) continue;
      }
      if (reason->empty() && !options.deferred_compilation) {
        const Result<void> compiled = plan->compile();
        const bool refused = !compiled && compiled.error().code == ErrorCode::kUnsupported;
        if (!compiled && (!refused || !options.kernel.empty())) return compiled.error();
        if (refused) *reason = compiled.error().message;
      }
      if (reason->empty()) return plan;
      full.refusals.push_back({std::string(plan->kernel_name()), *std::move(reason)});
    }
  });
}

}  // namespace vkattn

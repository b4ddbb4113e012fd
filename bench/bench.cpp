// One problem's steps in the benchmark: plan, predict, execute, check, time.
#include "bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <utility>

#include "host_memory.hpp"
#include "score_rows.hpp"

namespace vkattn::bench {
namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

bool is_refusal(ErrorCode code) {
  return code == ErrorCode::kUnsupported || code == ErrorCode::kLimitExceeded ||
         code == ErrorCode::kInvalidArgument || code == ErrorCode::kNotFound ||
         code == ErrorCode::kOutOfMemory;
}

/// The row that is being filled, and what every step needs.
struct Context {
  const Runtime& runtime;
  const Options& options;
  const Progress& progress;
  Row row;

  void report(double share, const char* step) const {
    if (progress) progress(share, std::string(step) + ": " + row.name);
  }
  Row finish(Outcome outcome, std::string message) {
    row.outcome = outcome;
    row.message = std::move(message);
    return std::move(row);
  }
  /// A lost device ends the whole benchmark. Any other error ends this problem only.
  Result<Row> fail(const Error& error) {
    if (error.code == ErrorCode::kDeviceLost) return error;
    return finish(is_refusal(error.code) ? Outcome::kRefused : Outcome::kFailed, error.message);
  }
};

/// What is known of a problem before its plan is made.
Row start_row(const NamedProblem& named, const Options& options) {
  const Problem& problem = named.problem;
  Row row;
  row.name = named.name;
  row.problem = to_string(problem);
  row.type = problem.operation == Operation::kMatmul ? problem.matmul.b.type : problem.desc.query.type;
  row.arithmetic_type = options.plan.arithmetic_type;
  row.has_score_function = options.score_function && problem.score == ScoreKind::kNone;
  row.work = count_work(problem);
  return row;
}

Result<harness::Runnable> make_plan(const Runtime& runtime, const Problem& problem, const Options& options) {
  Problem whole = problem;
  whole.desc.score_function = options.score_function;
  return harness::Runnable::create(runtime, whole, options.plan);
}

/// Nanoseconds of one warm execution of a small problem.
Result<double> time_piece(const Runtime& runtime, const Problem& piece, const Options& options) {
  const Result<harness::Runnable> plan = make_plan(runtime, piece, options);
  if (!plan.ok()) return plan.error();
  Result<harness::AnyRun> run = harness::AnyRun::create(runtime, piece);
  if (!run.ok()) return run.error();
  if (options.score_function && piece.score == ScoreKind::kNone) {
    run->forward().set_score_function(options.score_buffers, {});
  }
  Result<double> time = run->execute(*plan);  // the driver compiles here
  if (!time.ok()) return time;
  return run->execute(*plan);
}

/// Predicts the nanoseconds of one execution. It times pieces of the problem that grow until the answer is
/// clear: either a few executions fit the budget, or a piece that took long enough to be trusted shows that
/// they do not. Returns 0 if they surely fit.
Result<double> predict(const Runtime& runtime, const Problem& problem, const Options& options,
                       double budget_ns) {
  constexpr double kFirstPieceFlops = 50e6;  // well below a second on the slowest devices
  constexpr double kTrustedNs = 100e6;       // long enough to have filled the device
  constexpr double kGrowth = 8;
  const double whole = count_work(problem).flops;
  for (double flops = kFirstPieceFlops; flops < whole; flops *= kGrowth) {
    const Problem piece = shrink(problem, flops);
    const double share = count_work(piece).flops / whole;
    if (share > 0.5) break;  // the problem cannot be made smaller: the whole runs as fast
    const Result<double> time = time_piece(runtime, piece, options);
    if (!time.ok()) return time;
    const double predicted = *time / share;
    if (predicted * (kLeastRepeats + 1) <= budget_ns || *time >= kTrustedNs) return predicted;
  }
  return 0.0;
}

/// How many executions fit the budget: at most as many as were asked for, at least kLeastRepeats.
std::uint32_t affordable_repeats(const Options& options, double budget_left_ns, double each_ns) {
  const double fit = std::floor(budget_left_ns / std::max(each_ns, 1.0));
  const double bounded = std::clamp(fit, double{kLeastRepeats},
                                    std::max(double{kLeastRepeats}, static_cast<double>(options.repeat)));
  return static_cast<std::uint32_t>(bounded);
}

/// A plan that is bound to tensors.
struct Bound {
  const harness::Runnable& plan;
  Buffer workspace;
  Bindings bindings;

  static Result<Bound> create(const Runtime& runtime, const harness::Runnable& plan,
                              const harness::AnyTensors& tensors) {
    Result<Buffer> workspace = plan.create_workspace(runtime);
    if (!workspace.ok()) return workspace.error();
    Result<Bindings> bindings = plan.make_bindings(tensors, workspace->range());
    if (!bindings.ok()) return bindings.error();
    return Bound{plan, *std::move(workspace), *std::move(bindings)};
  }
};

constexpr double kBatchNs = 50e6;  // of executions in one submission

/// How many executions go into one submission, if each takes `each_ns` nanoseconds.
std::uint32_t batch_size(double each_ns, double most) {
  return static_cast<std::uint32_t>(std::clamp(std::floor(kBatchNs / each_ns), 1.0, most));
}

/// When the last execution ended that was timed or that came before a timed one. Long ago if there was none.
Clock::time_point& last_busy() {
  static Clock::time_point time;
  return time;
}

/// How long a GPU must be busy before it is timed: as long as it was idle, within bounds. On an H100, after a
/// warm-up of 0.2 s, some problems were timed at 4.6 times their real time. After 1 s none were.
double warm_up_ns() {
  constexpr double kLeast = 0.1e9;
  constexpr double kMost = 1.5e9;
  return std::clamp(nanoseconds_since(last_busy()), kLeast, kMost);
}

/// Executes until the device's clocks have risen. Returns the time of one execution with its submission.
Result<double> warm_up(const Runtime& runtime, const std::function<void(VkCommandBuffer)>& record,
                       double budget_ns) {
  constexpr double kMostExecutions = 1000;
  const bool has_clocks = !runtime.device().capabilities().is_cpu();
  const double busy_ns = has_clocks ? std::min(warm_up_ns(), budget_ns / 4) : 0.0;
  const auto start = Clock::now();
  std::uint32_t batch = 1;
  while (true) {
    const auto batch_start = Clock::now();
    const Result<std::vector<double>> times = runtime.execute(record, batch);
    if (!times.ok()) return times.error();
    last_busy() = Clock::now();
    if (nanoseconds_since(start) >= busy_ns) return nanoseconds_since(batch_start) / batch;
    batch = batch_size(times->back(), kMostExecutions);
  }
}

/// Warms up, then times executions in batches, so that progress shows and the budget holds.
Result<Statistics> time_runs(const Context& context, const Bound& bound, double budget_ns) {
  const Runtime& runtime = context.runtime;
  auto record = [&](VkCommandBuffer commands) { bound.plan.record(commands, bound.bindings); };
  const auto start = Clock::now();
  const Result<double> each_ns = warm_up(runtime, record, budget_ns);
  if (!each_ns.ok()) return each_ns.error();
  const std::uint32_t repeats =
      affordable_repeats(context.options, budget_ns - nanoseconds_since(start), *each_ns);

  std::vector<double> samples;
  while (samples.size() < repeats) {
    context.report(static_cast<double>(samples.size()) / repeats, "timing");
    const auto left = static_cast<double>(repeats - samples.size());
    const std::uint32_t batch = batch_size(*each_ns, left);
    const Result<std::vector<double>> times = runtime.execute(record, batch);
    if (!times.ok()) return times.error();
    last_busy() = Clock::now();
    samples.insert(samples.end(), times->begin(), times->end());
    if (samples.size() >= kLeastRepeats && nanoseconds_since(start) > budget_ns) break;
  }
  return summarize(samples);
}

/// Measures the cost of recording, then the times. For a backward pass it also times the forward pass.
Result<void> time_plan(Context& context, const harness::Runnable& plan, harness::AnyRun& run,
                       const Problem& problem, double budget_ns) {
  Row& row = context.row;
  const Result<Bound> bound = Bound::create(context.runtime, plan, run.tensors());
  if (!bound.ok()) return bound.error();
  const Result<RecordCost> record_cost = measure_record(context.runtime, plan, bound->bindings);
  if (!record_cost.ok()) return record_cost.error();
  row.record = *record_cost;
  const Result<Statistics> statistics = time_runs(context, *bound, budget_ns);
  if (!statistics.ok()) return statistics.error();
  row.time_ns = *statistics;
  if (problem.operation != Operation::kBackward || !context.options.times_forward) return {};
  const auto forward = harness::Runnable::create(context.runtime, problem.desc, PlanOptions{});
  if (!forward.ok()) return forward.error();
  const Result<Bound> forward_bound = Bound::create(context.runtime, *forward, run.forward().tensors());
  if (!forward_bound.ok()) return forward_bound.error();
  const Result<Statistics> forward_times = time_runs(context, *forward_bound, budget_ns);
  if (!forward_times.ok()) return forward_times.error();
  row.forward_kernel = forward->kernel_name();
  row.forward_ns = forward_times->median;
  return {};
}

/// Executes once and checks the result. Returns true if the problem may be timed. Otherwise the row is
/// finished.
Result<bool> run_checked(Context& context, const harness::Runnable& plan, harness::AnyRun& run) {
  Row& row = context.row;
  context.report(0, "first run");
  const auto start = Clock::now();
  const Result<double> first = run.execute(plan);
  if (!first.ok()) return first.error();
  row.first_run_ns = nanoseconds_since(start);
  row.host_peak_bytes = peak_memory_bytes();

  harness::RowSelection selection;
  selection.max_rows = context.options.check_rows;
  const Result<harness::CheckReport> check =
      run.check(selection, [&](double share) { context.report(share, "checking"); });
  if (!check.ok()) return check.error();
  row.check = *check;
  return row.check.passed();
}

}  // namespace

void set_shares(Row& row, const Peaks& peaks) {
  const double compute_peak = row.has_compute_peak() ? peaks.compute_rate(row.kernel, name(row.type)) : 0;
  const double memory_peak = peaks.memory_rate(row.work.bytes);
  row.compute_share = compute_peak > 0 ? row.flops_per_second() / compute_peak : 0;
  row.memory_share = memory_peak > 0 ? row.bytes_per_second() / memory_peak : 0;
}

Row refused_row(const NamedProblem& named, const Options& options, std::string message) {
  Row row = start_row(named, options);
  row.outcome = Outcome::kRefused;
  row.message = std::move(message);
  return row;
}

std::string refusal(const Runtime& runtime, const NamedProblem& named, const Options& options) {
  Options deferred = options;
  deferred.plan.deferred_compilation = true;
  const Result<harness::Runnable> plan = make_plan(runtime, named.problem, deferred);
  return plan.ok() || !is_refusal(plan.error().code) ? std::string() : plan.error().message;
}

Result<Row> measure_problem(const Runtime& runtime, const NamedProblem& named, const Options& options,
                            const Peaks& peaks, const Progress& progress) {
  Context context{runtime, options, progress, start_row(named, options)};
  Row& row = context.row;
  context.report(0, "planning");
  reset_peak_memory();
  row.host_before_bytes = resident_memory_bytes();

  const auto plan_start = Clock::now();
  const Result<harness::Runnable> plan = make_plan(runtime, named.problem, options);
  if (!plan.ok()) return context.fail(plan.error());
  row.plan_ns = nanoseconds_since(plan_start);
  row.kernel = plan->kernel_name();

  context.report(0, "predicting");
  const double budget_ns = options.max_seconds * 1e9;
  Options chosen = options;
  chosen.plan.kernel = row.kernel;
  const Result<double> predicted = predict(runtime, named.problem, chosen, budget_ns);
  if (!predicted.ok()) return context.fail(predicted.error());
  row.predicted_ns = *predicted;
  // Nobody has counted how many keys a user's score function hides.
  row.work_known = !options.score_function || !options.score_function->hides_keys();
  if (!row.work_known) row.work = {};
  if (*predicted * (kLeastRepeats + 1) > budget_ns) return context.finish(Outcome::kSkipped, "");

  Result<harness::AnyRun> run = harness::AnyRun::create(runtime, named.problem);
  if (!run.ok()) return context.fail(run.error());
  row.tensor_bytes = run->tensor_bytes();
  std::shared_ptr<ScoreRows> score_rows;
  if (row.has_score_function) {
    Result<std::shared_ptr<ScoreRows>> made = ScoreRows::create(
        runtime, *options.score_function, options.score_buffers, named.problem.desc.kv_length);
    if (!made.ok()) return context.fail(made.error());
    score_rows = *std::move(made);
    run->forward().set_score_function(options.score_buffers, ScoreRows::hook(score_rows));
  }
  const Result<bool> passed = run_checked(context, *plan, *run);
  if (!passed.ok()) return context.fail(passed.error());
  if (!*passed) return context.finish(Outcome::kWrong, row.check.to_string());

  reset_peak_memory();  // the memory of the check does not belong to the run
  const Result<void> timed = time_plan(context, *plan, *run, named.problem, budget_ns);
  if (!timed.ok()) return context.fail(timed.error());
  row.host_peak_bytes = std::max(row.host_peak_bytes, peak_memory_bytes());
  set_shares(row, peaks);
  return context.finish(Outcome::kMeasured, "");
}

}  // namespace vkattn::bench

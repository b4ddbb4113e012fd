// `vkattn run`: attention on NumPy files.
#include <vkattn/backward.hpp>
#include <vkattn/runtime.hpp>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "harness/problem_run.hpp"
#include "json.hpp"
#include "open_runtime.hpp"
#include "run_arguments.hpp"
#include "run_gradients.hpp"
#include "run_inputs.hpp"
#include "run_outputs.hpp"
#include "run_rotary.hpp"
#include "run_transfer.hpp"
#include "score_file.hpp"
#include "work.hpp"

namespace vkattn::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The results of a run for its report.
struct Outcome {
  double upload_ns = 0;
  double plan_ns = 0;
  Execution execution;
  std::vector<std::string> warnings;
  std::optional<harness::CheckReport> check;
  std::optional<GradientOutcome> gradients;
};

double nanoseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// The device and the data of a run.
struct PreparedRun {
  const Runtime& runtime;
  const AttentionPlan& plan;
  harness::ProblemRun& run;  ///< the backward pass takes it over, if there is one
  const Problem& problem;
  std::optional<BackwardDesc> gradients;
  PlanOptions backward_options;
  bool is_float16_arithmetic = false;
};

Outcome execute(const PreparedRun& prepared, RunInputs& inputs, RunOutputs& outputs, bool check) {
  Outcome outcome;
  outcome.warnings = inputs.warnings;
  console::ProgressBar bar;
  harness::ProblemRun& run = prepared.run;
  const Transfer transfer{prepared.runtime, run, bar, outcome.warnings, prepared.is_float16_arithmetic};
  const auto upload_start = Clock::now();
  upload(transfer, inputs, outputs);
  outcome.upload_ns = nanoseconds_since(upload_start);
  turn_rows(transfer, inputs);
  require(run.poison_outputs());
  bar.update(0, "computing");
  outcome.execution = execute_timed(run, prepared.plan, bench::count_work(prepared.problem).flops);
  download(transfer, outputs);
  if (check)
    outcome.check = take(run.check({}, [&](double share) { bar.update(share, "checking every row"); }));
  if (prepared.gradients)
    outcome.gradients =
        run_gradients(transfer, *prepared.gradients, prepared.backward_options, inputs, outputs, check);
  commit(outputs);
  return outcome;
}

std::string check_text(const harness::CheckReport& check) {
  if (check.elements_checked == 0) return "nothing to compare";
  if (!check.guard_intact || check.elements_unwritten != 0) return check.to_string();
  char error[32];
  std::snprintf(error, sizeof(error), "%.3g", check.largest_error);
  const std::string nan = check.nan_text();
  return (nan.empty() ? "" : nan + "; ") + "largest error " + error + ", " +
         console::percent(check.largest_share) + " of its tolerance, at batch " +
         std::to_string(check.where.batch) + ", head " + std::to_string(check.where.head) + ", query " +
         std::to_string(check.where.query) + ", " + check.where_text() + ": " + check.values_text(3) + " (" +
         console::count(static_cast<std::uint64_t>(check.rows_checked), "row") + " compared)";
}

std::string gradients_text(const GradientOutcome& gradients) {
  std::string text = gradients.kernel + ", " + execution_text(gradients.execution);
  if (!gradients.is_checked) return text;
  if (!gradients.wrong.empty()) return text + "; FAILED: " + gradients.wrong;
  return text + "; passed: at most " + console::percent(gradients.largest_share) + " of the tolerance";
}

std::string text_report(const PreparedRun& prepared, const Outcome& outcome, const RunOutputs& outputs) {
  constexpr std::size_t kLabelWidth = 10;
  const Capabilities& device = prepared.runtime.device().capabilities();
  const auto line = [](std::string_view label, const std::string& text) {
    return console::labelled(label, text, kLabelWidth);
  };
  std::string text =
      line("device", console::printable(device.device_name) + " - " + device_type_text(device.device_type));
  text += line("problem", to_string(prepared.problem));
  text += line("kernel", std::string(prepared.plan.kernel_name()));
  text += line("time", execution_text(outcome.execution) + ", " + console::duration(outcome.upload_ns) +
                           " to read, " + console::duration(outcome.plan_ns) + " to plan");
  for (const OutputRow& row : output_rows()) {
    if (outputs.*row.file) text += line(row.label, output_text(*(outputs.*row.file)));
  }
  if (outcome.check) {
    text += line("check", (outcome.check->passed() ? "passed: " : "FAILED: ") + check_text(*outcome.check));
  }
  if (outcome.gradients) text += line("gradients", gradients_text(*outcome.gradients));
  return text;
}

void add_execution(Json& json, const Execution& execution) {
  json["execute_ms"] = execution.first_ns * 1e-6;
  if (execution.second_ns) json["second_execution_ms"] = *execution.second_ns * 1e-6;
}

Json gradients_json(const GradientOutcome& gradients) {
  Json json{{"kernel", gradients.kernel}};
  add_execution(json, gradients.execution);
  if (gradients.is_checked) {
    json["passed"] = gradients.wrong.empty();
    json["largest_share_of_tolerance"] = gradients.largest_share;
  }
  return json;
}

std::string json_report(const PreparedRun& prepared, const Outcome& outcome, const RunOutputs& outputs,
                        const Invocation& invocation) {
  Json json{{"version", invocation.version},
            {"command", invocation.command_line},
            {"device", device_json(prepared.runtime.device().capabilities())},
            {"problem", to_string(prepared.problem)},
            {"kernel", prepared.plan.kernel_name()},
            {"upload_ms", outcome.upload_ns * 1e-6},
            {"plan_ms", outcome.plan_ns * 1e-6},
            {"warnings", outcome.warnings}};
  add_execution(json, outcome.execution);
  for (const OutputRow& row : output_rows()) {
    if (const std::optional<OutputFile>& output = outputs.*row.file) json[row.name] = output_json(*output);
  }
  if (outcome.check) json["check"] = check_json(*outcome.check);
  if (outcome.gradients) json["gradients"] = gradients_json(*outcome.gradients);
  return dump_json(json);
}

int run_files(const RunArguments& arguments, const Invocation& invocation) {
  RunInputs inputs = open_run_inputs(parse_run_arguments(arguments));
  const Problem& problem = inputs.problem;
  require_inputs_with_gradients(arguments, inputs);
  RunOutputs outputs = open_outputs(arguments, inputs);
  const bool is_for_nothing = !arguments.check && !writes_any(arguments);

  const ScoreFile score(arguments.score);
  std::optional<BackwardDesc> gradients;
  if (asks_for_gradients(arguments)) {
    gradients = gradient_desc(arguments, inputs);
    gradients->attention.score_function = score.function();
    require(validate(*gradients));
  }

  const Runtime runtime = open_runtime(arguments.where);
  const ScoreOnDevice score_on_device(runtime, score);
  const auto plan_start = Clock::now();
  const PlanOptions options = take(plan_options(arguments.choice, bench::Operation::kForward));
  AttentionDesc desc = problem.desc;
  desc.score_function = score.function();
  const AttentionPlan plan = take(runtime.make_plan(desc, options));
  const double plan_ns = nanoseconds_since(plan_start);
  harness::ProblemRun run = take(harness::ProblemRun::create(runtime, problem));
  if (score.function()) {
    reference::ScoreHook hook;
    if (arguments.check) hook = score_on_device.hook(problem.desc.kv_length);
    run.set_score_function(score_on_device.buffers(), std::move(hook));
  }
  PlanOptions backward_options;
  if (gradients)
    backward_options.kernel = backward_kernel(arguments.choice.kernel, arguments.backward_kernel);
  const PreparedRun prepared{runtime,
                             plan,
                             run,
                             problem,
                             std::move(gradients),
                             std::move(backward_options),
                             options.arithmetic_type == DataType::kFloat16};
  Outcome outcome = execute(prepared, inputs, outputs, arguments.check);
  outcome.plan_ns = plan_ns;
  if (is_for_nothing) {
    outcome.warnings.emplace_back(
        "nothing was written or compared; add --output O.npy to keep the output, or --check to compare it");
  }

  for (const std::string& warning : outcome.warnings) print_warning(warning);
  print(arguments.json ? json_report(prepared, outcome, outputs, invocation)
                       : text_report(prepared, outcome, outputs));
  if (outcome.check && !outcome.check->passed()) {
    fail("the output is not within tolerance of the reference: " + check_text(*outcome.check));
  }
  if (outcome.gradients && !outcome.gradients->wrong.empty())
    fail("the gradients are not within tolerance of the reference: " + outcome.gradients->wrong);
  return 0;
}

}  // namespace

Command add_run_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "run", "Compute attention on NumPy .npy files");
  auto arguments = std::make_shared<RunArguments>();
  add_run_arguments(app, *arguments);
  return {&app, [arguments, invocation] { return run_files(*arguments, invocation); }};
}

}  // namespace vkattn::cli

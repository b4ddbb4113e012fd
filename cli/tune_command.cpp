// `vkattn tune`: measures block sizes on the user's device, and writes the best of them to a file that plans
// read.
#include <vkattn/runtime.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "atomic_file.hpp"
#include "choice_options.hpp"
#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "open_runtime.hpp"
#include "problem_list.hpp"
#include "runtime/tuning_file.hpp"
#include "tune.hpp"

namespace vkattn::cli {
namespace {

using bench::Operation;
using bench::ScoreKind;

constexpr const char* kDefaultFile = "vkattn-tuning.json";

/// The options as typed.
struct TuneArguments {
  std::vector<std::string> problems;
  std::string suite, max_seconds, output = kDefaultFile;
  DeviceArguments where;
  ChoiceArguments choice;
};

/// The columns of the table. Text that does not fit beside the numbers stands in a line below them.
struct Table {
  std::size_t problem = 7;

  explicit Table(const std::vector<bench::NamedProblem>& problems) {
    for (const bench::NamedProblem& named : problems)
      problem = std::max(problem, console::display_width(named.name));
    problem = std::min(problem, console::line_width() - kNumbers);
  }
  [[nodiscard]] std::string line(std::string_view name, std::string_view before, std::string_view after,
                                 std::string_view speedup, std::string_view best) const {
    std::string text = leading_lines(name) + console::pad_left(before, 11) + console::pad_left(after, 11) +
                       console::pad_left(speedup, 9);
    const bool fits = problem + kNumbers + 2 + console::display_width(best) <= console::line_width();
    return text + (fits ? "  " : "\n  ") + std::string(best) + "\n";
  }
  /// The name, broken into lines of the first column, without a line break at the end.
  [[nodiscard]] std::string leading_lines(std::string_view name) const {
    std::string text;
    for (const std::string& line : console::wrap(name, problem)) {
      text += (text.empty() ? "" : "\n") + console::pad_right(line, problem);
    }
    return text;
  }

 private:
  static constexpr std::size_t kNumbers = 11 + 11 + 9;
};

void print_outcome(const Table& table, const bench::TuneOutcome& outcome) {
  const detail::TuningResult& result = outcome.result;
  if (!outcome.message.empty()) {
    print(table.leading_lines(outcome.name) + "  not measured: " + console::printable(outcome.message) +
          "\n");
    return;
  }
  print(table.line(outcome.name, console::duration(result.default_median_ns),
                   console::duration(result.median_ns),
                   console::significant(result.default_median_ns / result.median_ns) + " x", outcome.best));
  for (const std::string& wrong : outcome.wrong) {
    print("  left out, its output was wrong: " + console::printable(wrong) + "\n");
  }
}

bench::TuneOptions read_options(const TuneArguments& arguments) {
  bench::TuneOptions options;
  options.plan.arithmetic_type = read_arithmetic(arguments.choice);
  if (!arguments.max_seconds.empty()) {
    options.max_seconds = parse_number("--max-seconds", arguments.max_seconds);
    if (!(options.max_seconds > 0)) fail_usage("--max-seconds " + arguments.max_seconds + " is not above 0");
  }
  return options;
}

/// Refuses gradients and products, which have float32 arithmetic alone.
void require_attention(const std::vector<bench::NamedProblem>& problems) {
  for (const bench::NamedProblem& named : problems) {
    if (named.problem.operation == Operation::kForward) continue;
    fail_usage(
        "--arithmetic f16 is for attention, but '" + console::printable(named.name) + "' is " +
        (named.problem.operation == Operation::kMatmul ? "a matrix multiplication" : "a backward pass") +
        "; leave it out");
  }
}

Result<void> write_whole(AtomicFile& file, std::string_view text) {
  const Result<void> written = file.write(text);
  return written.ok() ? file.commit() : written;
}

/// Writes the tuning file. If that fails, the results of hours go to a new file beside it.
void save(AtomicFile& file, const Capabilities& device, const std::vector<detail::TuningResult>& results) {
  const Result<void> saved = detail::update_tuning(
      file.resolved(), device, results, [&](std::string_view text) { return write_whole(file, text); });
  if (saved.ok()) return;
  std::filesystem::path beside;
  int n = 0;
  do {
    beside = file.target();
    beside += "." + std::to_string(++n);
  } while (std::filesystem::exists(beside));
  AtomicFile other = take(AtomicFile::create(beside));
  require(write_whole(other, take(detail::merge_tuning({}, device, results))));
  fail_usage(console::printable(saved.error().message) + "; what was measured is in " +
             console::printable(beside.string()));
}

int run_tune(const TuneArguments& arguments) {
  std::vector<bench::NamedProblem> problems = read_problems("tune", arguments.problems, arguments.suite);
  const bench::TuneOptions options = read_options(arguments);
  if (options.plan.arithmetic_type != DataType::kFloat32) require_attention(problems);
  // A plan with a score function uses the measurements of the problem without it.
  std::erase_if(problems,
                [](const bench::NamedProblem& named) { return named.problem.score != ScoreKind::kNone; });
  if (problems.empty()) {
    fail_usage(
        "only problems with score functions are given; leave the words score=… out to tune attention for "
        "them");
  }
  const Runtime runtime = open_runtime(arguments.where);
  const Capabilities& device = runtime.device().capabilities();
  const std::string old = take(detail::read_tuning(arguments.output));
  // Finds out before hours of work whether the file can be written and its old contents can be merged.
  AtomicFile file = take(AtomicFile::create(arguments.output));
  if (const auto merged = detail::merge_tuning(old, device, {}); !merged) {
    fail_usage(console::printable(arguments.output) + ": " + merged.error().message);
  }

  const Table table(problems);
  print(device.device_name + ", " + device.driver_name + " " + device.driver_info + "\n\n");
  print(table.line("problem", "default", "best", "faster", "kernel and block sizes"));
  std::vector<detail::TuningResult> results;
  bool wrong = false;
  {
    console::ProgressBar bar;
    for (std::size_t i = 0; i < problems.size(); ++i) {
      const auto progress = [&](double share, std::string_view what) {
        bar.update((static_cast<double>(i) + share) / static_cast<double>(problems.size()),
                   std::string(what) + ": " + problems[i].name);
      };
      const bench::TuneOutcome outcome = take(bench::tune_problem(runtime, problems[i], options, progress));
      bar.clear();
      print_outcome(table, outcome);
      if (outcome.message.empty()) results.push_back(outcome.result);
      wrong = wrong || !outcome.wrong.empty();
    }
  }
  if (results.empty())
    fail_device("nothing was measured, so " + console::printable(arguments.output) + " is not written");
  save(file, device, results);
  print("\nwrote " + console::printable(arguments.output) + "; to have plans read it: export VKATTN_TUNING=" +
        console::printable(std::filesystem::absolute(arguments.output).string()) +
        ", or --tuning for one command\n");
  if (wrong) fail("some block sizes gave wrong outputs, as the lines above say: please report them");
  return 0;
}

}  // namespace

Command add_tune_command(CLI::App& parent, const Invocation& /*invocation*/) {
  CLI::App& app = add_subcommand(parent, "tune", "Measure which kernel and block sizes are fastest");
  auto a = std::make_shared<TuneArguments>();
  add_words(app, "PROBLEM", a->problems, "Problem strings, each in quotes");
  add_value(app, "--suite", a->suite, "NAME", "A set of problems from real models: " + suite_names());
  add_device_option(app, a->where);
  add_arithmetic_option(app, a->choice);
  add_value(app, "--max-seconds", a->max_seconds, "S", "Time for one problem, default 20");
  add_value(app, "--output", a->output, "FILE",
            std::string("The file to write, default ") + kDefaultFile +
                "; what it holds of other problems and devices stays, also where others write it meanwhile");
  set_help(app, "vkattn tune (PROBLEM... | --suite NAME) [OPTIONS]",
           "Plans read the file where --tuning, RuntimeOptions::tuning_file or the environment variable "
           "VKATTN_TUNING names it, and use what was measured for the nearest problem. A new driver version "
           "needs a new measurement. Each candidate's output is checked before it is timed; close the "
           "programs that use the device.\n\n"
           "Examples:\n"
           "  vkattn tune \"b1 h8 1024x1024 d64 f16\"\n"
           "  vkattn tune --suite llm --output llm-tuning.json --max-seconds 60\n"
           "  vkattn tune \"h8 1024x1024 d64 f16 backward\" \"matmul 512x4096x4096 f16\"\n"
           "  vkattn bench --suite llm --tuning llm-tuning.json\n");
  return {&app, [a] { return run_tune(*a); }};
}

}  // namespace vkattn::cli

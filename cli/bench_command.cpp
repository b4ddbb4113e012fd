// `vkattn bench`: the command line of the benchmark library.
#include <vkattn/runtime.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atomic_file.hpp"
#include "bench.hpp"
#include "choice_options.hpp"
#include "command.hpp"
#include "console.hpp"
#include "error.hpp"
#include "file_names.hpp"
#include "host_memory.hpp"
#include "json.hpp"
#include "open_runtime.hpp"
#include "plot.hpp"
#include "plot_file.hpp"
#include "problem_list.hpp"
#include "report.hpp"
#include "score_file.hpp"
#include "suites.hpp"

namespace vkattn::cli {
namespace {

using bench::problem_help;
using bench::ScoreKind;

/// The options as typed.
struct BenchArguments {
  std::vector<std::string> problems;
  std::string suite, repeat, max_seconds, output, plot;
  DeviceArguments where;
  ChoiceArguments choice;
  bool json = false, csv = false, markdown = false, list = false, no_peaks = false;
  ScoreArguments score;
};

std::string suites_text(std::span<const bench::Suite> suites) {
  std::string text;
  for (const bench::Suite& suite : suites) {
    text += std::string(suite.name) + ": " + std::string(suite.about) + "\n";
    for (const bench::SuiteProblem& entry : suite.problems) {
      text += "  " + console::pad_right(entry.name, 32) + std::string(entry.problem) + "\n";
    }
    text += "\n";
  }
  return text;
}

std::string suites_json(std::span<const bench::Suite> suites, const Invocation& invocation) {
  Json list = Json::array();
  for (const bench::Suite& suite : suites) {
    Json problems = Json::array();
    for (const bench::SuiteProblem& entry : suite.problems)
      problems.push_back({{"name", entry.name}, {"problem", entry.problem}});
    list.push_back({{"name", suite.name}, {"about", suite.about}, {"problems", std::move(problems)}});
  }
  return dump_json(
      {{"version", invocation.version}, {"command", invocation.command_line}, {"suites", std::move(list)}});
}

/// Lists all suites, or the one of --suite. Nothing is measured.
int list_suites(const BenchArguments& arguments, const Invocation& invocation) {
  std::vector<std::pair<std::string_view, bool>> others{{"a problem", !arguments.problems.empty()},
                                                        {"--kernel", !arguments.choice.kernel.empty()}};
  for (const auto& [name, text] : given_choices(arguments.choice)) others.emplace_back(name, true);
  others.insert(others.end(), {{"--device", !arguments.where.device.empty()},
                               {"--tuning", !arguments.where.tuning.empty()},
                               {"--repeat", !arguments.repeat.empty()},
                               {"--max-seconds", !arguments.max_seconds.empty()},
                               {"--no-peaks", arguments.no_peaks},
                               {"--score", !arguments.score.file.empty() || !arguments.score.buffers.empty()},
                               {"--csv", arguments.csv},
                               {"--markdown", arguments.markdown},
                               {"--output", !arguments.output.empty()},
                               {"--plot", !arguments.plot.empty()}});
  for (const auto& [name, is_given] : others) {
    if (is_given) {
      fail_usage(std::string("--list measures nothing and goes with --suite and --json alone; leave out ") +
                 std::string(name));
    }
  }
  const std::span<const bench::Suite> suites =
      arguments.suite.empty() ? bench::suites() : std::span(&require_suite(arguments.suite), 1);
  print(arguments.json ? suites_json(suites, invocation) : suites_text(suites));
  return 0;
}

/// The names of --kernel. Without the option one empty name, the library's choice.
std::vector<std::string> read_kernels(const std::string& text) {
  std::vector<std::string> kernels;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string kernel = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (kernel.empty() && !text.empty()) {
      fail_usage("--kernel '" + console::printable(text) + "' needs a name before and after each comma");
    }
    require_known_kernel(kernel, KernelNames::kBenchmark);
    if (std::find(kernels.begin(), kernels.end(), kernel) != kernels.end()) {
      fail_usage("--kernel names " + kernel + " twice");
    }
    kernels.push_back(kernel);
  }
  return kernels;
}

/// Block sizes belong to one kind of kernel. So with --tile all problems must have one operation.
void require_one_operation(const std::vector<bench::NamedProblem>& problems,
                           const BenchArguments& arguments) {
  const auto is_other = [&](const bench::NamedProblem& named) {
    return named.problem.operation != problems.front().problem.operation;
  };
  if (!arguments.choice.tile.empty() && std::any_of(problems.begin(), problems.end(), is_other)) {
    fail_usage(
        "--tile gives block sizes of one kernel, but these problems are attention, gradients and matrix "
        "multiplications; give one kind of them");
  }
}

/// The options of all rows. row_options() adds those of the row's own plan. `first` stands for all problems:
/// a value that can be read for one can be read for all, although some may not use it.
bench::Options read_options(const BenchArguments& arguments, const bench::Problem& first) {
  bench::Options options;
  (void)plan_options(arguments.choice, first.operation);
  options.plan.arithmetic_type = read_arithmetic(arguments.choice);
  if (!arguments.repeat.empty()) {
    const std::int64_t repeat = parse_integer("--repeat", arguments.repeat);
    constexpr std::int64_t kMostRepeats = 1'000'000;
    if (repeat < bench::kLeastRepeats || repeat > kMostRepeats) {
      fail_usage("--repeat " + arguments.repeat + " is not from " + std::to_string(bench::kLeastRepeats) +
                 " to " + std::to_string(kMostRepeats));
    }
    options.repeat = static_cast<std::uint32_t>(repeat);
  }
  if (!arguments.max_seconds.empty()) {
    options.max_seconds = parse_number("--max-seconds", arguments.max_seconds);
    if (options.max_seconds <= 0) fail_usage("--max-seconds " + arguments.max_seconds + " is not above 0");
  }
  if (int{arguments.json} + int{arguments.csv} + int{arguments.markdown} > 1) {
    fail_usage("give one of --json, --csv and --markdown");
  }
  if (arguments.no_peaks && !arguments.plot.empty()) {
    fail_usage("--plot draws problems under the measured peaks; leave out --no-peaks");
  }
  return options;
}

/// Neither the report nor the picture may overwrite another file.
void require_different_files(const BenchArguments& arguments) {
  FileNames files;
  add_score_files(files, arguments.score);
  add_tuning_file(files, arguments.where);
  files.add_output("--output", arguments.output);
  files.add_output("--plot", arguments.plot);
}

bench::Peaks measure_peaks(const Runtime& runtime, console::ProgressBar& bar) {
  const auto progress = [&](double share, std::string_view what) {
    bar.update(share, "measuring the " + std::string(what));
  };
  return take(bench::measure_peaks(runtime, progress));
}

/// A rate above the peak is a bug, unless the machine had other work while the peak was measured. So the
/// peaks are measured again before the rate is reported.
void confirm_peaks(const Runtime& runtime, bench::Row& row, bench::Peaks& peaks, console::ProgressBar& bar) {
  constexpr int kAttempts = 2;
  for (int attempt = 0; attempt < kAttempts && row.above_peak(); ++attempt) {
    peaks.raise(measure_peaks(runtime, bar));
    bench::set_shares(row, peaks);
  }
}

/// The options of a row. A score function that the problem names takes the place of --score.
Result<bench::Options> row_options(const bench::NamedProblem& named, const std::string& kernel,
                                   const ChoiceArguments& choice, const bench::Report& report) {
  bench::Options options = report.options;
  Result<PlanOptions> plan = plan_options(choice, named.problem.operation);
  if (!plan.ok()) return plan.error();
  options.plan = *std::move(plan);
  options.plan.kernel = kernel;
  if (named.problem.score != ScoreKind::kNone) {
    if (!can_compile_scores()) {
      return Error{.code = ErrorCode::kUnsupported,
                   .message = "this build compiles no score functions (CMake: VKATTN_BUILD_SCORE_FUNCTIONS)"};
    }
    options.score_function = compile_score(named.problem);
  }
  return options;
}

/// A row that is not measured yet: its options, or why it is refused.
struct Task {
  const bench::NamedProblem* named = nullptr;
  std::size_t kernel_index = 0;
  bench::Options options;
  std::string refusal;
};

/// The rows in their order. A refusal is known before anything is compiled or measured.
std::vector<Task> tasks_of(const Runtime& runtime, const std::vector<bench::NamedProblem>& problems,
                           const ChoiceArguments& choice, const bench::Report& report) {
  std::vector<Task> tasks;
  for (const bench::NamedProblem& named : problems) {
    for (std::size_t i = 0; i < report.kernels.size(); ++i) {
      Task& task = tasks.emplace_back(Task{&named, i, report.options, {}});
      const Result<bench::Options> options = row_options(named, report.kernels[i], choice, report);
      if (options.ok()) task.options = *options;
      task.refusal = options.ok() ? bench::refusal(runtime, named, *options) : options.error().message;
    }
  }
  return tasks;
}

/// Measures every problem, and before that the peaks if they are wanted and a problem is not refused. If
/// `as_they_come`, each row of text goes to standard output at once.
void measure(const Runtime& runtime, const std::vector<bench::NamedProblem>& problems,
             const BenchArguments& arguments, bool as_they_come, bench::Report& report) {
  console::ProgressBar bar;
  const std::vector<Task> tasks = tasks_of(runtime, problems, arguments.choice, report);
  const auto runs = [](const Task& task) { return task.refusal.empty(); };
  if (!arguments.no_peaks && std::any_of(tasks.begin(), tasks.end(), runs)) {
    report.peaks = measure_peaks(runtime, bar);
  }
  const bench::TextReport text(report, problems);
  if (as_they_come) {
    bar.clear();
    print(text.head());
  }
  for (const Task& task : tasks) {
    const auto progress = [&](double share, std::string_view what) {
      bar.update((static_cast<double>(report.rows.size()) + share) / static_cast<double>(tasks.size()), what);
    };
    bench::Row row =
        runs(task) ? take(bench::measure_problem(runtime, *task.named, task.options, report.peaks, progress))
                   : bench::refused_row(*task.named, task.options, task.refusal);
    row.kernel_index = task.kernel_index;
    confirm_peaks(runtime, row, report.peaks, bar);
    report.rows.push_back(std::move(row));
    if (!as_they_come) continue;
    bar.clear();
    print(text.row(report.rows.back()));
  }
  for (bench::Row& row : report.rows) bench::set_shares(row, report.peaks);
  if (as_they_come) print(text.foot());
}

/// The text for a file, whatever the terminal's width is.
std::string whole_text(const bench::Report& report, const std::vector<bench::NamedProblem>& problems) {
  constexpr std::size_t kFileWidth = 100;
  const bench::TextReport text(report, problems, kFileWidth, false);
  std::string whole = text.head();
  for (const bench::Row& row : report.rows) whole += text.row(row);
  return whole + text.foot();
}

/// The exit code. Wrong outputs and errors fail the command. A refusal fails it if the user asked for that
/// problem by hand.
int verdict(const bench::Report& report) {
  std::size_t bad = 0;
  bool wrong = false;
  for (const bench::Row& row : report.rows) {
    const bool refused = row.outcome == bench::Outcome::kRefused && report.suite.empty();
    const bool is_wrong = row.outcome == bench::Outcome::kWrong;
    if (!refused && !is_wrong && row.outcome != bench::Outcome::kFailed) continue;
    wrong = wrong || is_wrong;
    ++bad;
  }
  if (bad == 0) return 0;
  const bench::Row& first = report.rows.front();
  throw CommandError(wrong ? kExitFailure : kExitDevice,
                     report.rows.size() == 1
                         ? first.problem + ": " + std::string(name(first.outcome)) + ": " + first.message
                         : std::to_string(bad) + " of " + bench::count_rows(report, report.rows.size()) +
                               " failed, as the report says");
}

/// The options that a row's line "repeat with" needs. It leaves out where and how to report.
void set_repeat_options(const BenchArguments& arguments, bench::Report& report) {
  const auto option = [](std::string_view name, const std::string& value) {
    return value.empty() ? std::string() : " " + std::string(name) + " " + console::shell_word(value);
  };
  report.score_options = option("--score", arguments.score.file);
  for (const std::string& buffer : arguments.score.buffers) {
    report.score_options += option("--score-buffer", buffer);
  }
  for (const auto& [name, text] : given_choices(arguments.choice))
    report.repeat_options += option(name, text);
  report.repeat_options += option("--device", arguments.where.device) +
                           option("--tuning", arguments.where.tuning) + option("--repeat", arguments.repeat) +
                           option("--max-seconds", arguments.max_seconds) +
                           (arguments.no_peaks ? " --no-peaks" : "");
}

int run_bench(const BenchArguments& arguments, const Invocation& invocation) {
  if (arguments.list) return list_suites(arguments, invocation);
  const std::vector<bench::NamedProblem> problems =
      read_problems("bench", arguments.problems, arguments.suite);
  const auto has_own = [](const bench::NamedProblem& named) {
    return named.problem.score != ScoreKind::kNone;
  };
  if (!arguments.score.file.empty() && arguments.suite.empty() &&
      std::any_of(problems.begin(), problems.end(), has_own)) {
    fail_usage("give a problem one score function: either --score or the word score=…");
  }
  bench::Report report;
  report.kernels = read_kernels(arguments.choice.kernel);
  require_different_files(arguments);
  require_one_operation(problems, arguments);
  report.options = read_options(arguments, problems.front().problem);
  report.version = invocation.version;
  report.command = invocation.command_line;
  set_repeat_options(arguments, report);
  report.suite = arguments.suite;
  report.date = console::date_text();
  const ScoreFile score(arguments.score);
  std::optional<PlotFile> plot = open_plot(arguments.plot);
  std::optional<AtomicFile> file;
  if (!arguments.output.empty()) file.emplace(take(AtomicFile::create(arguments.output)));

  const Runtime runtime = open_runtime(arguments.where);
  const ScoreOnDevice score_on_device(runtime, score);
  report.options.score_function = score.function();
  report.options.score_buffers = score_on_device.buffers();
  report.device = runtime.device().capabilities();
  report.device_timestamps = runtime.timestamp_period_ns() > 0;
  report.host_peak_per_problem = bench::reset_peak_memory();
  const bool as_they_come = !arguments.json && !arguments.csv && !arguments.markdown && !file;
  measure(runtime, problems, arguments, as_they_come, report);
  if (!as_they_come) {
    const std::string text = arguments.json       ? to_json(report)
                             : arguments.csv      ? to_csv(report)
                             : arguments.markdown ? to_markdown(report)
                                                  : whole_text(report, problems);
    if (file) {
      require(file->write(text));
      require(file->commit());
    } else {
      print(text);
    }
  }
  const auto measured = [](const bench::Row& row) { return row.outcome == bench::Outcome::kMeasured; };
  const bool any = std::any_of(report.rows.begin(), report.rows.end(), measured);
  if (plot && any) write_plot(*plot, bench::draw_plot(bench::plot_data(report), plot->format));
  const int exit_code = verdict(report);
  if (plot && !any) fail("no problem was measured, so that there is nothing to plot");
  return exit_code;
}

}  // namespace

Command add_bench_command(CLI::App& parent, const Invocation& invocation) {
  CLI::App& app = add_subcommand(parent, "bench", "Check and time problems against measured peaks");
  auto a = std::make_shared<BenchArguments>();
  add_words(app, "PROBLEM", a->problems, "Problem strings, each in quotes");
  add_value(app, "--suite", a->suite, "NAME", "A set of problems from real models: " + suite_names());
  add_switch(app, "--list", a->list, "Print the problems of every suite, or of --suite, and exit");
  add_kernel_option(app, a->choice, KernelNames::kBenchmark);
  add_choice_options(app, a->choice);
  add_device_option(app, a->where);
  add_tuning_option(app, a->where);
  add_value(app, "--repeat", a->repeat, "N", "Timed executions of each problem, default 30, at least 3");
  add_value(
      app, "--max-seconds", a->max_seconds, "S",
      "Time for the executions of one problem, default 10; a problem that does not fit is skipped, and its "
      "predicted time printed");
  add_switch(app, "--no-peaks", a->no_peaks, "Do not measure the device's peaks first, which takes seconds");
  add_score_options(app, a->score);
  add_switch(app, "--json", a->json, "Print JSON");
  add_switch(app, "--csv", a->csv, "Print comma-separated values");
  add_switch(app, "--markdown", a->markdown, "Print a Markdown table");
  add_value(app, "--output", a->output, "FILE", "Write the report to a file");
  add_value(app, "--plot", a->plot, "FILE.png|.svg",
            "Also draw the problems under the device's measured roofs (roofline plot)");
  set_help(
      app, "vkattn bench (PROBLEM... | --suite NAME | --list [--suite NAME]) [OPTIONS]",
      std::string(problem_help()) +
          "\nTimes are the device's own: the median, and the 5th and 95th percentile, or where lines are "
          "short "
          "what lies between these as a share of the median (spread). Rates count visible keys only (none is "
          "given where a score function hides some) and are shown as shares of what this device was just "
          "measured to reach, except FLOP/s with --arithmetic f16: multiply-adds are measured in float32. "
          "Outputs are checked before timing.\n\n"
          "Examples:\n"
          "  vkattn bench --suite smoke\n"
          "  vkattn bench \"hq32 hkv8 q1 kv4096 d128 f16\" \"h8 1024x1024 d64 causal\"\n"
          "  vkattn bench \"b1 h8 1024x1024 d64\" --kernel lane,unfused\n"
          "  vkattn bench --suite llm --json --output llm.json\n"
          "  vkattn bench --suite smoke --plot smoke.png\n");
  return {&app, [a, invocation] { return run_bench(*a, invocation); }};
}

}  // namespace vkattn::cli

// The steps of `vkattn report`: see steps.hpp.
#include "report/steps.hpp"

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "problem/problem.hpp"

namespace vkattn::cli {
namespace {

/// The order of a report: what tells most comes first, something of everything before all of anything.
enum Round {
  kEachKernel,   ///< a check of each kernel of each operation
  kEachSpeed,    ///< how fast each is
  kEachType,     ///< a check of each in its other types
  kPeaks,        ///< and a small suite
  kEachSection,  ///< the first step of each other section, or of each kernel there
  kOtherChecks,
  kOthers
};

constexpr const char* kStatisticsProblems[] = {
    "h8 1024x1024 d64 f16",          "h8 1024x1024 d128 f16",          "hq32 hkv8 1x4096 d128 f16",
    "h8 1024x1024 d64 f16 backward", "h8 1024x1024 d128 f16 backward", "matmul 1024x2304x768 f16 bias",
    "matmul 1024x1024x1024 f32"};

/// A problem that all kernels of attention are timed on, and its name in sentences.
struct KernelProblem {
  const char* problem;
  const char* name;
};
constexpr KernelProblem kKernelProblems[] = {{"h8 1024x1024 d64 f16", "1024 queries"},
                                             {"hq32 hkv8 1x4096 d128 f16", "one query"}};

/// A spread over types, dims, few and many rows, and features.
constexpr const char* kCheckProblems[] = {
    "h2 197x203 d64 f16 causal lse",
    "hq8 hkv2 1x1000 d128 f16",
    "h3 130x65 d128 f16",
    "h2 100x300 d80 f32",
    "hq8 hkv2 2x500 d64 f32",
    "h2 70x130 d256 bf16",
    "hq4 hkv1 1x700 d128 bf16",
    "hq4 hkv1 4x777 d64 f16 sinks",
    "hq4 hkv2 65x129 d96 f16 mask=bits alibi softcap=30",
    "b3 h2 40x100 d64 f16 kv_lengths=100,3,77 window=20,0",
    "hq8 hkv2 2x512 d128 f16 page=16",
    "hq8 hkv2 2x512 d128 f16 cache=q8_0",
    "h2 100x130 d64 f16 causal backward",
    "hq4 hkv2 65x129 d40 bf16 mask=f32 sinks alibi=given backward",
    "b2 h2 70x130 d128 f32 dropout=0.1 kv_lengths=130,77 backward",
    "matmul 130x72x200 f16 bias",
    "matmul b2 65x129x96 f32 transposed=a",
    "matmul 1x300x512 bf16 b=q8_0",
};

/// Whether an operation has a kernel of that name.
bool has_kernel(bench::Operation operation, std::string_view kernel) {
  const auto names = [&](const std::vector<KernelSupport>& all) {
    return std::ranges::find(all, kernel, &KernelSupport::kernel) != all.end();
  };
  // Names do not depend on the device, and of an invalid problem they come with the reason against it.
  switch (operation) {
    case bench::Operation::kBackward:
      return names(kernel_support(BackwardDesc{}, Capabilities{}));
    case bench::Operation::kMatmul:
      return names(kernel_support(MatmulDesc{}, Capabilities{}));
    case bench::Operation::kForward:
      break;
  }
  return true;
}

bench::Operation operation_of(const char* problem) {
  return take(bench::parse_problem(problem)).operation;
}

/// The word of a problem's string that is a type; all of these problems have one.
std::string type_of(const char* problem) {
  const std::string words = std::string(" ") + problem + " ";
  for (const std::string type : {"bf16", "f16"}) {
    if (words.find(" " + type + " ") != std::string::npos) return type;
  }
  return "f32";
}

/// The words of a command, on the device that the report is about.
std::vector<std::string> on_device(const ReportRequest& request, std::vector<std::string> words) {
  if (!request.device.empty()) words.insert(words.end(), {"--device", request.device});
  return words;
}

std::vector<std::string> bench_words(const ReportRequest& request, std::vector<std::string> problems,
                                     const std::vector<std::string>& options) {
  std::vector<std::string> words{"bench"};
  words.insert(words.end(), problems.begin(), problems.end());
  words.insert(words.end(), {"--json", "--no-peaks"});
  words.insert(words.end(), options.begin(), options.end());
  return on_device(request, std::move(words));
}

/// Seconds for one problem of a sweep.
double problem_seconds(const ReportRequest& request) {
  return std::clamp(request.seconds / 200, 0.3, 5.0);
}

std::vector<std::string> sweep_options(const ReportRequest& request) {
  return {"--repeat", "20", "--max-seconds", console::fixed(problem_seconds(request), 1)};
}

void add_sweep(const ReportRequest& request, const char* section, const std::string& name,
               std::vector<std::string> problems, std::vector<ReportStep>& steps,
               std::vector<std::string> options = {}) {
  for (const std::string& word : sweep_options(request)) options.push_back(word);
  // Beside its executions a problem is compiled, filled and checked.
  const double limit = static_cast<double>(problems.size()) * (problem_seconds(request) + 15);
  const bool is_first = steps.empty() || steps.back().section != section;
  steps.push_back({section,
                   name,
                   bench_words(request, std::move(problems), options),
                   {},
                   limit,
                   is_first ? kEachSection : kOthers});
}

void add_peaks(const ReportRequest& request, std::vector<ReportStep>& steps) {
  std::vector<std::string> words{"bench", "--suite", "smoke", "--json"};
  if (request.can_plot) words.insert(words.end(), {"--plot", request.folder + "/roofline.svg"});
  steps.push_back({"peaks", "peaks and suite smoke", on_device(request, std::move(words)), {}, 120, kPeaks});
}

void add_statistics(const ReportRequest& request, const std::string& kernel, std::vector<ReportStep>& steps) {
  Round round = kEachSection;
  for (const char* const problem : kStatisticsProblems) {
    if (!has_kernel(operation_of(problem), kernel)) continue;
    std::vector<std::string> words{"kernels", problem, "--stats", "--json", "--kernel", kernel};
    steps.push_back(
        {"statistics", problem, on_device(request, std::move(words)), kernel, request.limit_s, round});
    round = kOthers;
  }
}

/// A problem on one kernel.
ReportStep kernel_step(const ReportRequest& request, const char* section, const char* name,
                       const char* problem, const std::string& kernel, const char* repeat, Round round) {
  const std::vector<std::string> options{"--kernel", kernel, "--repeat", repeat, "--max-seconds", "2"};
  return {section, name, bench_words(request, {problem}, options), kernel, request.limit_s, round};
}

void add_speeds(const ReportRequest& request, const std::vector<std::string>& kernels,
                std::vector<ReportStep>& steps) {
  for (const auto& [problem, name] : kKernelProblems) {
    for (const std::string& kernel : kernels)
      steps.push_back(kernel_step(request, "kernels", name, problem, kernel, "10", kEachSpeed));
  }
}

/// Problem by problem, so that all kernels have come equally far at any time.
void add_checks(const ReportRequest& request, const std::vector<std::string>& kernels,
                std::vector<ReportStep>& steps) {
  std::set<std::string> begun;
  for (const char* const problem : kCheckProblems) {
    const bench::Operation operation = operation_of(problem);
    const std::string type = type_of(problem);
    for (const std::string& kernel : kernels) {
      if (!has_kernel(operation, kernel)) continue;
      ReportStep step = kernel_step(request, "checks", problem, problem, kernel, "3", kOtherChecks);
      step.group = std::to_string(static_cast<int>(operation)) + " " + type + " " + kernel;
      step.is_later = !begun.insert(step.group).second;
      if (!step.is_later) step.round = type == "f16" ? kEachKernel : kEachType;
      steps.push_back(std::move(step));
    }
  }
}

void add_training_sweeps(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const words : {"d64 f16", "d128 f16", "d128 f16 causal", "d128 f32"}) {
    std::vector<std::string> problems;
    for (const int length : {512, 1024, 2048, 4096}) {
      const std::string size = std::to_string(length);
      problems.push_back("h16 " + size + "x" + size + " " + words + " backward");
    }
    add_sweep(request, "backward", words, problems, steps);
  }
  for (const char* const words : {"f16", "bf16", "f32", "f16 b=q8_0"}) {
    std::vector<std::string> problems;
    for (const int length : {256, 512, 1024, 2048, 4096}) {
      const std::string size = std::to_string(length);
      problems.push_back("matmul " + size + "x" + size + "x" + size + " " + words);
    }
    add_sweep(request, "matmul", words, problems, steps);
  }
}

void add_sweeps(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const words : {"d64 f16", "d128 f16", "d128 f16 causal", "d128 f32"}) {
    std::vector<std::string> problems;
    for (const int length : {512, 1024, 2048, 4096, 8192}) {
      const std::string size = std::to_string(length);
      problems.push_back("h16 " + size + "x" + size + " " + words);
    }
    add_sweep(request, "prefill", words, problems, steps);
  }
  for (const int rows : {1, 4, 8, 16}) {
    std::vector<std::string> problems;
    for (const int keys : {4096, 32768, 131072}) {
      problems.push_back("hq" + std::to_string(8 * rows) + " hkv8 1x" + std::to_string(keys) + " d128 f16");
    }
    add_sweep(request, "decode", console::count(static_cast<std::uint64_t>(rows), "row"), problems, steps);
  }
  std::vector<std::string> small;
  for (int keys = 64; keys <= 4096; keys *= 2) {
    small.push_back("hq32 hkv8 1x" + std::to_string(keys) + " d128 f16");
  }
  add_sweep(request, "fixed", "one token", small, steps);
  for (int parts = 1; parts <= 64; parts *= 2) {
    add_sweep(request, "splits", std::to_string(parts), {"hq32 hkv8 1x32768 d128 f16"}, steps,
              {"--kv-splits", std::to_string(parts)});
  }
}

void add_tune(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const problem : {"hq32 hkv8 1x4096 d128 f16", "h8 1024x1024 d128 f16",
                                    "h8 1024x1024 d64 f16 backward", "matmul 1024x1024x1024 f16"}) {
    const double seconds = std::clamp(request.seconds / 30, 2.0, 20.0);
    std::vector<std::string> words{"tune",          problem,
                                   "--max-seconds", console::fixed(seconds, 0),
                                   "--output",      request.folder + "/tuning.json"};
    steps.push_back({"tune", problem, on_device(request, std::move(words)), {}, 3 * seconds + 60, kOthers});
  }
}

std::vector<std::string> kernels_of(const Json& device) {
  std::vector<std::string> names;
  if (!device.contains("kernels")) return names;
  for (const Json& kernel : device["kernels"]) {
    if (kernel.value("available", false)) names.push_back(kernel.value("name", ""));
  }
  return names;
}

}  // namespace

ReportStep device_step(const ReportRequest& request) {
  return {"device", "devices", on_device(request, {"devices", "--json"}), {}, 60};
}

Json chosen_device(const Json& step) {
  if (!step.contains("data") || !step["data"].is_object() || !step["data"].contains("devices")) return {};
  const Json& data = step["data"];
  // A line for each, "device 0 NAME: chosen" or "chosen by 'WANTED'" of the one that commands take.
  const std::string choice = data.value("choice", "");
  for (const Json& entry : data["devices"]) {
    const std::string line =
        "device " + std::to_string(entry.value("index", 0)) + " " + entry.value("name", "") + ": chosen";
    if (choice.find(line) != std::string::npos) return entry;
  }
  return {};
}

std::vector<ReportStep> report_steps(const ReportRequest& request, const Json& device) {
  std::vector<ReportStep> steps;
  const std::vector<std::string> kernels = kernels_of(device);
  add_checks(request, kernels, steps);
  add_speeds(request, kernels, steps);
  add_peaks(request, steps);
  const bool tells = device.contains("features") && device["features"].value("pipeline_statistics", false);
  for (const std::string& kernel : kernels) {
    if (tells) add_statistics(request, kernel, steps);
  }
  add_sweeps(request, steps);
  add_training_sweeps(request, steps);
  add_tune(request, steps);
  std::ranges::stable_sort(steps, {}, &ReportStep::round);
  return steps;
}

}  // namespace vkattn::cli

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
#include "report/child_process.hpp"

namespace vkattn::cli {
namespace {

constexpr const char* kStatisticsProblems[] = {
    "h8 1024x1024 d64 f16",          "h8 1024x1024 d128 f16",          "hq32 hkv8 1x4096 d128 f16",
    "h8 1024x1024 d64 f16 backward", "h8 1024x1024 d128 f16 backward", "matmul 1024x2304x768 f16 bias",
    "matmul 1024x1024x1024 f32"};

/// A spread over types, dims, few and many rows, and features.
constexpr const char* kCheckProblems[] = {
    "h2 197x203 d64 f16 causal lse",
    "h3 130x65 d128 f16",
    "h2 100x300 d80 f32",
    "h2 70x130 d256 bf16",
    "hq8 hkv2 1x1000 d128 f16",
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

/// Whether a problem's operation has a kernel of that name.
bool has_kernel(const char* problem, std::string_view kernel) {
  const auto names = [&](const std::vector<KernelSupport>& all) {
    return std::ranges::find(all, kernel, &KernelSupport::kernel) != all.end();
  };
  // Names do not depend on the device, and of an invalid problem they come with the reason against it.
  switch (take(bench::parse_problem(problem)).operation) {
    case bench::Operation::kBackward:
      return names(kernel_support(BackwardDesc{}, Capabilities{}));
    case bench::Operation::kMatmul:
      return names(kernel_support(MatmulDesc{}, Capabilities{}));
    case bench::Operation::kForward:
      break;
  }
  return true;
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

ReportStep sweep(const ReportRequest& request, const char* section, const std::string& name,
                 std::vector<std::string> problems, std::vector<std::string> options = {}) {
  for (const std::string& word : sweep_options(request)) options.push_back(word);
  // Beside its executions a problem is compiled, filled and checked.
  const double limit = static_cast<double>(problems.size()) * (problem_seconds(request) + 15);
  return {section, name, bench_words(request, std::move(problems), options), {}, limit};
}

void add_peaks(const ReportRequest& request, std::vector<ReportStep>& steps) {
  std::vector<std::string> words{"bench", "--suite", "smoke", "--json"};
  if (request.can_plot) words.insert(words.end(), {"--plot", request.folder + "/roofline.svg"});
  steps.push_back({"peaks", "peaks and suite smoke", on_device(request, std::move(words)), {}, 120});
}

void add_statistics(const ReportRequest& request, const std::string& kernel, std::vector<ReportStep>& steps) {
  for (const char* const problem : kStatisticsProblems) {
    if (!has_kernel(problem, kernel)) continue;
    std::vector<std::string> words{"kernels", problem, "--stats", "--json", "--kernel", kernel};
    steps.push_back({"statistics", problem, on_device(request, std::move(words)), kernel, request.limit_s});
  }
}

void add_checks(const ReportRequest& request, const std::string& kernel, std::vector<ReportStep>& steps) {
  for (const char* const problem : kCheckProblems) {
    if (!has_kernel(problem, kernel)) continue;
    steps.push_back(
        {"checks", problem,
         bench_words(request, {problem}, {"--kernel", kernel, "--repeat", "3", "--max-seconds", "2"}), kernel,
         request.limit_s});
  }
}

void add_training_sweeps(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const words : {"d64 f16", "d128 f16", "d128 f16 causal", "d128 f32"}) {
    std::vector<std::string> problems;
    for (const int length : {512, 1024, 2048, 4096}) {
      const std::string size = std::to_string(length);
      problems.push_back("h16 " + size + "x" + size + " " + words + " backward");
    }
    steps.push_back(sweep(request, "backward", words, problems));
  }
  for (const char* const words : {"f16", "bf16", "f32", "f16 b=q8_0"}) {
    std::vector<std::string> problems;
    for (const int length : {256, 512, 1024, 2048, 4096}) {
      const std::string size = std::to_string(length);
      problems.push_back("matmul " + size + "x" + size + "x" + size + " " + words);
    }
    steps.push_back(sweep(request, "matmul", words, problems));
  }
}

void add_sweeps(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const words : {"d64 f16", "d128 f16", "d128 f16 causal", "d128 f32"}) {
    std::vector<std::string> problems;
    for (const int length : {512, 1024, 2048, 4096, 8192}) {
      const std::string size = std::to_string(length);
      problems.push_back("h16 " + size + "x" + size + " " + words);
    }
    steps.push_back(sweep(request, "prefill", words, problems));
  }
  for (const int rows : {1, 4, 8, 16}) {
    std::vector<std::string> problems;
    for (const int keys : {4096, 32768, 131072}) {
      problems.push_back("hq" + std::to_string(8 * rows) + " hkv8 1x" + std::to_string(keys) + " d128 f16");
    }
    steps.push_back(
        sweep(request, "decode", console::count(static_cast<std::uint64_t>(rows), "row"), problems));
  }
  std::vector<std::string> small;
  for (int keys = 64; keys <= 4096; keys *= 2) {
    small.push_back("hq32 hkv8 1x" + std::to_string(keys) + " d128 f16");
  }
  steps.push_back(sweep(request, "fixed", "one token", small));
  for (int parts = 1; parts <= 64; parts *= 2) {
    steps.push_back(sweep(request, "splits", std::to_string(parts), {"hq32 hkv8 1x32768 d128 f16"},
                          {"--kv-splits", std::to_string(parts)}));
  }
}

void add_tune(const ReportRequest& request, std::vector<ReportStep>& steps) {
  for (const char* const problem : {"hq32 hkv8 1x4096 d128 f16", "h8 1024x1024 d128 f16",
                                    "h8 1024x1024 d64 f16 backward", "matmul 1024x1024x1024 f16"}) {
    const double seconds = std::clamp(request.seconds / 30, 2.0, 20.0);
    std::vector<std::string> words{"tune",          problem,
                                   "--max-seconds", console::fixed(seconds, 0),
                                   "--output",      request.folder + "/tuning.json"};
    steps.push_back({"tune", problem, on_device(request, std::move(words)), {}, 3 * seconds + 60});
  }
}

std::string last_line(std::string_view text) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  const std::size_t line = text.rfind('\n');
  return std::string(line == std::string_view::npos ? text : text.substr(line + 1));
}

/// Of what `vkattn bench` and `vkattn kernels` did not like: where that is only that kernels do not take some
/// problems, it is an answer, and no fault of the device's.
std::string status_of_results(const Json& data) {
  if (data.is_object() && data.contains("refused")) return "refused";
  if (!data.is_object() || !data.contains("results")) return "failed";
  bool measured = false;
  for (const Json& row : data["results"]) {
    const std::string outcome = row.value("outcome", "");
    if (outcome != "measured" && outcome != "skipped" && outcome != "refused") return "failed";
    measured = measured || outcome == "measured";
  }
  return measured ? "done" : "refused";
}

std::string status_of(const ChildResult& child, const Json& data) {
  switch (child.end) {
    case ChildResult::End::kSignalled:
      return "crashed";
    case ChildResult::End::kTimedOut:
      return "hung";
    case ChildResult::End::kNotStarted:
      return "failed";
    case ChildResult::End::kExited:
      break;
  }
  if (child.code == 0) return "done";
  if (child.code == kExitFailure) return "wrong";
  return status_of_results(data);
}

std::string message_of(const ChildResult& child, double limit_s) {
  constexpr std::string_view kOwnName = "vkattn: ";
  std::string said = console::printable(last_line(child.err));
  if (said.starts_with(kOwnName)) said.erase(0, kOwnName.size());
  switch (child.end) {
    case ChildResult::End::kSignalled:
      return "ended by signal " + std::to_string(child.code) + (said.empty() ? "" : ": " + said);
    case ChildResult::End::kTimedOut:
      return "ended after " + console::duration(limit_s * 1e9) + (said.empty() ? "" : ": " + said);
    default:
      return said;
  }
}

Json step_json(const ReportStep& step) {
  std::string command = "vkattn";
  for (const std::string& word : step.arguments) command += " " + console::shell_word(word);
  return Json{{"section", step.section}, {"name", step.name}, {"kernel", step.kernel}, {"command", command}};
}

Json left_out(const ReportStep& step, const std::string& why) {
  Json json = step_json(step);
  json["status"] = "left out";
  json["message"] = why;
  return json;
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
  add_peaks(request, steps);
  const bool tells = device.contains("features") && device["features"].value("pipeline_statistics", false);
  for (const std::string& kernel : kernels) {
    if (tells) add_statistics(request, kernel, steps);
  }
  for (const std::string& kernel : kernels) add_checks(request, kernel, steps);
  add_sweeps(request, steps);
  add_training_sweeps(request, steps);
  add_tune(request, steps);
  return steps;
}

Json run_step(const ReportRequest& request, const ReportStep& step, double remaining_s) {
  std::vector<std::string> words{request.program};
  words.insert(words.end(), step.arguments.begin(), step.arguments.end());
  const double limit_s = std::min(step.limit_s, remaining_s);
  const ChildResult child =
      run_child(words, std::chrono::milliseconds(static_cast<std::int64_t>(limit_s * 1000)));
  Json data = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (data.is_discarded()) data = child.out.empty() ? Json() : Json(child.out);
  Json json = step_json(step);
  json["status"] = status_of(child, data);
  json["exit_code"] = child.code;
  json["seconds"] = child.seconds;
  json["message"] = message_of(child, limit_s);
  if (child.end == ChildResult::End::kTimedOut && limit_s < step.limit_s) {
    json["status"] = "left out";
    json["message"] = "the time was over after " + console::duration(limit_s * 1e9) + " of it";
  }
  json["data"] = std::move(data);
  return json;
}

Json make_report(const ReportRequest& request, Json head,
                 const std::function<void(const Json& report, double share)>& keep) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  Json report = std::move(head);
  report["device"] = nullptr;
  report["steps"] = Json::array();
  // Without the device there is no report: this step has its time even where the report has little.
  const ReportStep device = device_step(request);
  report["steps"].push_back(run_step(request, device, device.limit_s));
  report["device"] = chosen_device(report["steps"][0]);
  keep(report, 0);
  if (report["device"].is_null()) return report;
  const std::vector<ReportStep> steps = report_steps(request, report["device"]);
  std::set<std::string> hung;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ReportStep& step = steps[i];
    const double remaining = request.seconds - elapsed();
    Json result = remaining < 1                ? left_out(step, "the time was over")
                  : hung.contains(step.kernel) ? left_out(step, "the kernel " + step.kernel + " hung before")
                                               : run_step(request, step, remaining);
    if (result["status"] == "hung" && !step.kernel.empty()) hung.insert(step.kernel);
    report["steps"].push_back(std::move(result));
    keep(report, static_cast<double>(i + 1) / static_cast<double>(steps.size()));
  }
  return report;
}

}  // namespace vkattn::cli

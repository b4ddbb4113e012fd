// Running the steps of `vkattn report`: see steps.hpp.
#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "report/child_process.hpp"
#include "report/steps.hpp"

namespace vkattn::cli {
namespace {

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

std::string message_of(const ChildResult& child) {
  constexpr std::string_view kOwnName = "vkattn: ";
  std::string said = console::printable(last_line(child.err));
  if (said.starts_with(kOwnName)) said.erase(0, kOwnName.size());
  return said;
}

Json step_json(const ReportStep& step) {
  std::string command = "vkattn";
  for (const std::string& word : step.arguments) command += " " + console::shell_word(word);
  return Json{{"section", step.section}, {"name", step.name}, {"kernel", step.kernel}, {"command", command}};
}

Json left_out(const ReportStep& step, const std::string& why, bool out_of_time) {
  Json json = step_json(step);
  json["status"] = "left out";
  json["message"] = why;
  if (out_of_time) json["out_of_time"] = true;
  return json;
}

std::string time_text(double seconds) {
  return console::duration(seconds * 1e9);
}

/// A step's process, and the one that took its place if the machine was busy.
struct Tries {
  ChildResult child;    ///< of the last one
  double limit_s = 0;   ///< of the last one
  bool is_cut = false;  ///< the report's time ended before the step's
  std::string first;    ///< about the first of two
};

bool is_busy(const ReportRequest& request, double load) {
  constexpr double kOwnShare = 1.25;  // a step on a CPU keeps all cores busy itself
  return load > kOwnShare * request.cores;
}

Tries run_tries(const ReportRequest& request, const ReportStep& step, double remaining_s, double load) {
  std::vector<std::string> words{request.program};
  words.insert(words.end(), step.arguments.begin(), step.arguments.end());
  Tries tries;
  const auto run = [&](double wanted_s) {
    tries.limit_s = std::min(wanted_s, remaining_s);
    tries.is_cut = tries.limit_s < wanted_s;
    tries.child =
        run_child(words, std::chrono::milliseconds(static_cast<std::int64_t>(tries.limit_s * 1000)));
    remaining_s -= tries.child.seconds;
    return tries.child.end == ChildResult::End::kTimedOut && !tries.is_cut;
  };
  load = run(step.limit_s) ? std::max(load, request.load()) : 0;
  if (!is_busy(request, load)) return tries;
  tries.first = "took longer than " + time_text(step.limit_s) + " at first, with a load of " +
                console::fixed(load, 1) + " on " + console::count(request.cores, "core");
  constexpr double kLeast = 1;
  if (remaining_s < kLeast) {
    tries.is_cut = true;
  } else {
    (void)run(2 * step.limit_s);
  }
  return tries;
}

/// After a refusal of a group's first check: the next of this group takes its rank, and comes next.
void bring_forward(std::vector<ReportStep>& steps, std::size_t refused) {
  const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(refused) + 1;
  if (steps[refused].group.empty() || steps[refused].is_later) return;
  const auto next = std::find_if(begin, steps.end(),
                                 [&](const ReportStep& step) { return step.group == steps[refused].group; });
  if (next == steps.end()) return;
  next->is_later = false;
  std::rotate(begin, next, next + 1);
}

}  // namespace

Json run_step(const ReportRequest& request, const ReportStep& step, double remaining_s) {
  const double load = request.load();
  const Tries tries = run_tries(request, step, remaining_s, load);
  const ChildResult& child = tries.child;
  Json data = Json::parse(child.out, nullptr, /*allow_exceptions=*/false);
  if (data.is_discarded()) data = child.out.empty() ? Json() : Json(child.out);
  Json json = step_json(step);
  const bool is_over = child.end == ChildResult::End::kTimedOut;
  std::string status = status_of(child, data), message = message_of(child), before;
  if (is_over && tries.is_cut) {
    status = "left out";
    message = "the time was over after " + time_text(tries.limit_s) + " of it";
    json["out_of_time"] = true;
  } else if (is_over) {
    before = "ended after " + time_text(tries.limit_s);
  } else if (child.end == ChildResult::End::kSignalled) {
    before = "ended by signal " + std::to_string(child.code);
  }
  for (const std::string& text : {before, tries.first}) {
    if (!text.empty()) message = text + (message.empty() ? "" : "; " + message);
  }
  json["status"] = status;
  json["exit_code"] = child.code;
  json["seconds"] = child.seconds;
  json["load"] = load < 0 ? Json() : Json(load);
  json["message"] = message;
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
  const auto note_load = [&](const char* name) {
    if (const double load = request.load(); load >= 0) report["machine"][name] = load;
  };
  report["machine"] = Json{{"cores", request.cores}};
  note_load("load_at_begin");
  report["steps"] = Json::array();
  // Without the device there is no report: this step has its time, twice, even where the report has little.
  const ReportStep device = device_step(request);
  report["steps"].push_back(run_step(request, device, 3 * device.limit_s));
  report["device"] = chosen_device(report["steps"][0]);
  keep(report, 0);
  if (report["device"].is_null()) return report;
  std::vector<ReportStep> steps = report_steps(request, report["device"]);
  std::set<std::string> hung;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const ReportStep& step = steps[i];
    const double remaining = request.seconds - elapsed();
    Json result = hung.contains(step.kernel)
                      ? left_out(step, "the kernel " + step.kernel + " hung before", false)
                  : remaining < 1 ? left_out(step, "the time was over", true)
                                  : run_step(request, step, remaining);
    if (result["status"] == "hung" && !step.kernel.empty()) hung.insert(step.kernel);
    if (result["status"] == "refused") bring_forward(steps, i);
    report["steps"].push_back(std::move(result));
    note_load("load_at_end");
    keep(report, static_cast<double>(i + 1) / static_cast<double>(steps.size()));
  }
  return report;
}

}  // namespace vkattn::cli

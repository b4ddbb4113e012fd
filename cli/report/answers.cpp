// Reading a report, and what it says in sentences: see answers.hpp.
#include "report/answers.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>

#include "console.hpp"

namespace vkattn::cli {
namespace {

constexpr std::array<std::string_view, 4> kBadStatuses = {"wrong", "failed", "crashed", "hung"};

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Steps that the report had no time for, of the checks or of all others.
std::size_t out_of_time(const Json& report, bool checks) {
  return static_cast<std::size_t>(std::ranges::count_if(report["steps"], [&](const Json& step) {
    return step.value("out_of_time", false) && (text_of(step, "section") == "checks") == checks;
  }));
}

/// "2 of 80 steps went wrong (1 wrong, 1 hung; of the kernels lane, tile)"
std::string what_went_wrong(const Json& report) {
  std::string statuses;
  std::size_t bad = 0;
  std::set<std::string> kernels;
  for (const std::string_view status : kBadStatuses) {
    const std::size_t count = count_of(report, {status});
    if (count != 0)
      statuses += (statuses.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(status);
    bad += count;
  }
  for (const Json& step : report["steps"]) {
    if (is_bad(text_of(step, "status")) && !text_of(step, "kernel").empty())
      kernels.insert(text_of(step, "kernel"));
  }
  if (!kernels.empty())
    statuses += (kernels.size() == 1 ? "; of the kernel " : "; of the kernels ") + joined(kernels);
  return std::to_string(bad) + " of " + console::count(report["steps"].size(), "step") + " went wrong (" +
         statuses + ")";
}

/// One problem on several kernels.
struct Comparison {
  std::string problem, fastest;
  double least_ms = 0;
  std::size_t kernels = 0;  ///< that were measured, or are too slow for the time
};

std::vector<Comparison> comparisons(const Json& report) {
  std::vector<Comparison> all;
  for (const Json* const step : steps_of(report, "kernels")) {
    const std::string problem = text_of(*step, "name");
    auto found = std::ranges::find(all, problem, &Comparison::problem);
    if (found == all.end()) found = all.insert(all.end(), {problem, {}});
    for (const Json& row : rows_of(*step)) {
      const bool is_measured = text_of(row, "outcome") == "measured";
      const double ms = number_of(row, "median_ms");
      found->kernels += is_measured || text_of(row, "outcome") == "skipped" ? 1U : 0U;
      if (!is_measured || (!found->fastest.empty() && ms >= found->least_ms)) continue;
      found->fastest = text_of(*step, "kernel");
      found->least_ms = ms;
    }
  }
  std::erase_if(all, [](const Comparison& one) { return one.fastest.empty() || one.kernels < 2; });
  return all;
}

/// "decode is the fastest", or each of several with its problem. Empty where no problem had a choice.
std::string fastest(const Json& report) {
  const std::vector<Comparison> all = comparisons(report);
  std::set<std::string> kernels;
  std::string each;
  for (const Comparison& one : all) {
    kernels.insert(one.fastest);
    each +=
        (each.empty() ? one.fastest + " is the fastest with " : ", " + one.fastest + " with ") + one.problem;
  }
  return kernels.size() == 1 && all.size() > 1 ? all[0].fastest + " is the fastest" : each;
}

/// Kernels that the device has and of which no check was made.
std::set<std::string> unchecked_kernels(const Json& report) {
  std::set<std::string> names;
  const auto all = report["device"].find("kernels");
  if (all == report["device"].end()) return names;
  for (const Json& kernel : *all) {
    if (kernel.value("available", false)) names.insert(text_of(kernel, "name"));
  }
  for (const Json* const step : steps_of(report, "checks")) {
    if (checked_row(*step) != nullptr) names.erase(text_of(*step, "kernel"));
  }
  return names;
}

}  // namespace

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

double number_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

std::vector<const Json*> steps_of(const Json& report, std::string_view section) {
  std::vector<const Json*> steps;
  for (const Json& step : report["steps"]) {
    if (text_of(step, "section") == section) steps.push_back(&step);
  }
  return steps;
}

const Json& rows_of(const Json& step) {
  static const Json none = Json::array();
  const auto data = step.find("data");
  if (data == step.end() || !data->is_object()) return none;
  const auto rows = data->find("results");
  return rows != data->end() && rows->is_array() ? *rows : none;
}

const Json* checked_row(const Json& step) {
  const Json& rows = rows_of(step);
  return rows.size() == 1 && rows[0].contains("check") ? &rows[0] : nullptr;
}

bool is_bad(std::string_view status) {
  return std::ranges::find(kBadStatuses, status) != kBadStatuses.end();
}

std::size_t count_of(const Json& report, std::initializer_list<std::string_view> statuses) {
  return static_cast<std::size_t>(std::ranges::count_if(report["steps"], [&](const Json& step) {
    return std::ranges::find(statuses, text_of(step, "status")) != statuses.end();
  }));
}

std::size_t count_of_bad(const Json& report) {
  return static_cast<std::size_t>(std::ranges::count_if(
      report["steps"], [](const Json& step) { return is_bad(text_of(step, "status")); }));
}

std::string share_text(const Json& checked) {
  const double share = number_of(checked["check"], "largest_share_of_tolerance");
  const std::string number = share < 0.005 ? "below 0.01"
                             : share < 1   ? console::fixed(share, 2)
                                           : console::significant(share);
  return number + " of its tolerance";
}

std::string verdict(const Json& report) {
  if (!report["device"].is_object()) {
    const Json& steps = report["steps"];
    const std::string message = steps.empty() ? std::string() : text_of(steps[0], "message");
    return "No device was found" + (message.empty() ? "" : ": " + message);
  }
  std::size_t right = 0;
  for (const Json* const step : steps_of(report, "checks"))
    right += text_of(*step, "status") == "done" && checked_row(*step) != nullptr ? 1U : 0U;
  std::string sentence;
  if (count_of_bad(report) != 0) {
    sentence = what_went_wrong(report) + "; " +
               (right == 0 ? "no check was right"
                           : console::count(right, "check") + (right == 1 ? " is right" : " are right"));
  } else {
    sentence = right == 0 ? "Nothing was checked" : "Everything that was checked is right";
  }
  if (const std::string kernel = fastest(report); !kernel.empty()) sentence += "; " + kernel;
  const std::set<std::string> unchecked = unchecked_kernels(report);
  if (!unchecked.empty() && right != 0)
    sentence += "; " + joined(unchecked) + (unchecked.size() == 1 ? " was" : " were") + " not checked";
  const std::size_t checks = out_of_time(report, true), others = out_of_time(report, false);
  if (checks + others != 0) {
    sentence += "; ";
    if (checks != 0) sentence += console::count(checks, "check");
    if (others != 0)
      sentence += (checks == 0 ? "" : " and ") + console::count(others, checks == 0 ? "step" : "other step");
    sentence += " did not fit the time";
  }
  return sentence;
}

std::string machine_text(const Json& report) {
  const auto machine = report.find("machine");
  if (machine == report.end()) return {};
  const double cores = number_of(*machine, "cores"), begin = number_of(*machine, "load_at_begin");
  std::string text = console::count(static_cast<std::uint64_t>(cores), "core");
  if (!machine->contains("load_at_begin")) return text;
  text += ", a load of " + console::fixed(begin, 1) + " at the beginning";
  if (machine->contains("load_at_end"))
    text += " and of " + console::fixed(number_of(*machine, "load_at_end"), 1) + " at the end";
  if (begin > cores / 2) text += ": other programs were running, so times may be too long";
  return text;
}

std::string left_out_text(const Json& report) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> order;
  for (const Json& step : report["steps"]) {
    if (!step.value("out_of_time", false)) continue;
    const std::string section = text_of(step, "section");
    if (counts[section]++ == 0) order.push_back(section);
  }
  std::string sections;
  for (const std::string& section : order)
    sections += (sections.empty() ? "" : ", ") + section + " " + std::to_string(counts[section]);
  return order.empty() ? sections : "Steps without time: " + sections + "; a larger --minutes has more";
}

}  // namespace vkattn::cli

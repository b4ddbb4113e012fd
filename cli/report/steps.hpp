// What `vkattn report` asks: commands of this tool, each run in a process of its own.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json.hpp"
#include "report/machine.hpp"

namespace vkattn::cli {

/// One command and where its answer stands in the report.
struct ReportStep {
  /// device, checks, kernels, peaks, statistics, prefill, decode, fixed, splits, backward, matmul, tune
  std::string section;
  std::string name;                    ///< within the section
  std::vector<std::string> arguments;  ///< behind `vkattn`
  std::string kernel;                  ///< where one is asked for
  double limit_s = 60;                 ///< then it hangs
  int round = 0;                       ///< steps of an earlier round come first
  std::string group;                   ///< of checks: those of one kernel, operation and type
  bool is_later = false;               ///< in its group
};

struct ReportRequest {
  std::string program;   ///< the tool's own path
  std::string device;    ///< as --device has it; empty: the default
  std::string folder;    ///< that files of steps go to
  double seconds = 600;  ///< for all of it
  double limit_s = 60;   ///< for a check or for statistics: then they hang
  bool can_plot = false;
  unsigned cores = machine_cores();
  std::function<double()> load = machine_load;  ///< as machine_load() gives it
};

/// The question that decides which others make sense: what the device is.
[[nodiscard]] ReportStep device_step(const ReportRequest& request);
/// All others: something of everything first. `device` is its entry in the answer of device_step().
[[nodiscard]] std::vector<ReportStep> report_steps(const ReportRequest& request, const Json& device);

/// Runs a step: section, name, kernel, command, status, exit_code, seconds, load, message, and as data what
/// it printed, parsed where it is JSON. The status is one of done, wrong, refused, failed, crashed and hung.
/// A step that takes longer than its limit is run once more, with twice the time, if the machine has more to
/// do than it has cores for.
[[nodiscard]] Json run_step(const ReportRequest& request, const ReportStep& step, double remaining_s);

/// The device's entry in the answer of device_step(); null where there is none.
[[nodiscard]] Json chosen_device(const Json& step);

/// Asks everything, one step after the other, and calls `keep` with the report after each. If a kernel
/// refuses the first check of a group, the next of this group comes at once. What the time did not suffice
/// for is left out with a word, as is the rest of a kernel's checks where one of them hung.
[[nodiscard]] Json make_report(const ReportRequest& request, Json head,
                               const std::function<void(const Json& report, double share)>& keep);

}  // namespace vkattn::cli

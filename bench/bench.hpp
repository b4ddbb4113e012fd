// The benchmark: checks and times problems on one device, and compares them with peaks measured in the same
// call.
#pragma once

#include <vkattn/runtime.hpp>
#include <vkattn/score_shaders.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/any_run.hpp"
#include "peaks.hpp"
#include "problem/problem.hpp"
#include "record_cost.hpp"
#include "statistics.hpp"
#include "work.hpp"

namespace vkattn::bench {

struct NamedProblem {
  std::string name;  ///< the name in the suite, or the problem string if problems were given
  Problem problem;
};

struct Options {
  PlanOptions plan;           ///< options of a problem's plan; its kernel may also be the baseline
  bool times_forward = true;  ///< also times the forward pass of a problem that asks for gradients
  std::uint32_t repeat = 30;  ///< timed executions
  double max_seconds = 10;    ///< for the executions of one problem
  std::int64_t check_rows = 64;
  Shared<const ScoreShaders> score_function;
  /// Buffers of the user's score function. A score function that a problem string names has its own buffers.
  std::array<BufferRange, kMaxScoreBuffers> score_buffers;
};

/// The least number of timed executions, whatever the time budget.
inline constexpr std::uint32_t kLeastRepeats = 3;

enum class Outcome {
  kMeasured,
  kSkipped,  ///< it does not fit the time budget; predicted_ns says how long it takes
  kRefused,  ///< the library or the device cannot do it; `message` says why
  kWrong,    ///< the output differs from the reference; it is not timed
  kFailed,   ///< an error occurred
};

/// What is known of one problem afterwards.
struct Row {
  std::string name;
  std::string problem;  ///< the problem string that repeats the row
  Outcome outcome = Outcome::kFailed;
  std::string message;
  std::string kernel;
  std::size_t kernel_index = 0;                   ///< index into Report::kernels
  DataType type = DataType::kFloat32;             ///< type of the query, or of the matrix b
  DataType arithmetic_type = DataType::kFloat32;  ///< PlanOptions::arithmetic_type
  bool has_score_function = false;  ///< a user's score function, which the problem string does not name
  Work work;
  bool work_known = true;  ///< otherwise `work` is empty, and no rate is known
  Statistics time_ns;
  RecordCost record;
  double plan_ns = 0;       ///< making the plan, with shader compilation if the driver compiles at that time
  double first_run_ns = 0;  ///< the first execution, with compilation that the driver delayed
  double predicted_ns = 0;  ///< one execution, if it was predicted before
  harness::CheckReport check;
  std::uint64_t tensor_bytes = 0;  ///< stored inputs and outputs
  std::uint64_t host_before_bytes =
      0;  ///< resident before the problem: the program, the driver and what the driver compiled
  std::uint64_t host_peak_bytes = 0;  ///< largest resident memory, without that of the check
  /// Shares of the peaks. A value above 1 is a bug of the measurement. 0 if the row's arithmetic was not
  /// measured.
  double compute_share = 0;
  double memory_share = 0;
  /// For a backward pass: the forward pass of the same problem, with the kernel that the library chooses,
  /// timed directly afterwards.
  std::string forward_kernel;
  double forward_ns = 0;  ///< median

  [[nodiscard]] double flops_per_second() const {
    return time_ns.median > 0 ? work.flops / time_ns.median * 1e9 : 0;
  }
  [[nodiscard]] double bytes_per_second() const {
    return time_ns.median > 0 ? work.bytes / time_ns.median * 1e9 : 0;
  }
  /// The time of a backward pass, as a multiple of its forward pass.
  [[nodiscard]] double times_forward() const { return forward_ns > 0 ? time_ns.median / forward_ns : 0; }
  /// The peak of multiply-adds is measured in float32. float16 may exceed it.
  [[nodiscard]] bool has_compute_peak() const { return arithmetic_type == DataType::kFloat32; }
  [[nodiscard]] bool above_peak() const { return compute_share > 1 || memory_share > 1; }
};

/// Everything that a report says.
struct Report {
  std::string version;  ///< version of vkattn
  std::string command;  ///< the command as it was typed
  std::string suite;    ///< empty if problems were given
  /// The options, each with a space before it, that are needed to measure a row again besides its problem and
  /// kernel, and the options of the user's score function.
  std::string repeat_options, score_options;
  std::string date;  ///< date of the measurement in UTC, such as 2026-01-31 12:00 UTC
  Capabilities device;
  bool device_timestamps = false;  ///< otherwise times come from the host's clock
  bool host_peak_per_problem = false;
  std::vector<std::string> kernels{
      ""};          ///< a row for each problem and kernel, in this order; empty: the library's choice
  Options options;  ///< options of all rows; a row's plan has further options of its own
  Peaks peaks;
  std::vector<Row> rows;
};

/// Sets the row's shares of these peaks.
void set_shares(Row& row, const Peaks& peaks);

/// The row of a problem that is not measured for the reason in `message`.
[[nodiscard]] Row refused_row(const NamedProblem& named, const Options& options, std::string message);

/// Why the device or the library refuses to plan the problem. Empty if it does not refuse, or fails in
/// another way. Compiles nothing.
[[nodiscard]] std::string refusal(const Runtime& runtime, const NamedProblem& named, const Options& options);

using Progress = std::function<void(double share, std::string_view what)>;

/// Checks one problem and then times it. An error becomes the row's outcome. Only a lost device is returned
/// as an error.
[[nodiscard]] Result<Row> measure_problem(const Runtime& runtime, const NamedProblem& problem,
                                          const Options& options, const Peaks& peaks,
                                          const Progress& progress = {});

}  // namespace vkattn::bench

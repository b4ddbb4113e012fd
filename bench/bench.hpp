// The benchmark: checks and times problems on one device, against peaks measured in the same call.
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
  std::string name;  ///< of the suite's entry; the problem string where it was given as such
  Problem problem;
};

struct Options {
  PlanOptions plan;           ///< of a problem; its kernel may also be the baseline
  bool times_forward = true;  ///< of gradients their forward pass too
  std::uint32_t repeat = 30;  ///< timed executions
  double max_seconds = 10;    ///< for the executions of one problem
  std::int64_t check_rows = 64;
  Shared<const ScoreShaders> score_function;
  /// Those of a function that is not the problem's own; the problem brings along its own.
  std::array<BufferRange, kMaxScoreBuffers> score_buffers;
};

/// Executions timed at the least, whatever the time budget.
inline constexpr std::uint32_t kLeastRepeats = 3;

enum class Outcome {
  kMeasured,
  kSkipped,  ///< would not fit the time budget; predicted_ms says by how much
  kRefused,  ///< the library or the device does not do it; `message` says why
  kWrong,    ///< the output is not what the reference says; not timed
  kFailed,   ///< an error on the way
};

/// What is known of one problem afterwards.
struct Row {
  std::string name;
  std::string problem;  ///< the string that repeats it
  Outcome outcome = Outcome::kFailed;
  std::string message;
  std::string kernel;
  std::size_t kernel_index = 0;                   ///< in Report::kernels
  DataType type = DataType::kFloat32;             ///< of the query, or of the matrix b
  DataType arithmetic_type = DataType::kFloat32;  ///< PlanOptions::arithmetic_type
  bool has_score_function = false;                ///< of the user's own, which the problem does not name
  Work work;
  bool work_known = true;  ///< else `work` is empty, and there is no rate to tell
  Statistics time_ns;
  RecordCost record;
  double plan_ns = 0;       ///< making the plan: shader compilation as far as the driver does it there
  double first_run_ns = 0;  ///< the first execution, with what the driver compiles late
  double predicted_ns = 0;  ///< of one execution, where it was estimated before
  harness::CheckReport check;
  std::uint64_t tensor_bytes = 0;  ///< inputs and outputs as stored
  std::uint64_t host_before_bytes =
      0;  ///< resident before the problem: the program, the driver, what it compiled
  std::uint64_t host_peak_bytes = 0;  ///< resident memory at the most, without the check
  /// Of the peak; above 1 is a bug of the measurement. 0 where none of the row's arithmetic is measured.
  double compute_share = 0;
  double memory_share = 0;
  /// Of a backward pass: the forward pass of the same problem, by the kernel that the library chooses, right
  /// after it.
  std::string forward_kernel;
  double forward_ns = 0;  ///< median

  [[nodiscard]] double flops_per_second() const {
    return time_ns.median > 0 ? work.flops / time_ns.median * 1e9 : 0;
  }
  [[nodiscard]] double bytes_per_second() const {
    return time_ns.median > 0 ? work.bytes / time_ns.median * 1e9 : 0;
  }
  /// The time of a backward pass in units of its forward pass.
  [[nodiscard]] double times_forward() const { return forward_ns > 0 ? time_ns.median / forward_ns : 0; }
  /// The peak of multiply-adds is that of float32, which float16 may exceed.
  [[nodiscard]] bool has_compute_peak() const { return arithmetic_type == DataType::kFloat32; }
  [[nodiscard]] bool above_peak() const { return compute_share > 1 || memory_share > 1; }
};

/// Everything a report tells.
struct Report {
  std::string version;  ///< of vkattn
  std::string command;  ///< as it was typed
  std::string suite;    ///< empty where problems were given
  /// The options, each with a space before it, that measuring a row again needs besides its problem and
  /// kernel; and those of the user's score function.
  std::string repeat_options, score_options;
  std::string date;  ///< of the measurement, in UTC: 2026-01-31 12:00 UTC
  Capabilities device;
  bool device_timestamps = false;  ///< else times are from the host's clock
  bool host_peak_per_problem = false;
  std::vector<std::string> kernels{""};  ///< each problem's rows, in this order; empty: the library's choice
  Options options;                       ///< of all rows; a row's plan has options of its own besides
  Peaks peaks;
  std::vector<Row> rows;
};

/// Sets the row's shares of these peaks.
void set_shares(Row& row, const Peaks& peaks);

/// The row of a problem that is not measured, as this message says.
[[nodiscard]] Row refused_row(const NamedProblem& named, const Options& options, std::string message);

/// Why the device or the library refuses to plan the problem; empty where it does not, or fails in another
/// way. Compiles nothing.
[[nodiscard]] std::string refusal(const Runtime& runtime, const NamedProblem& named, const Options& options);

using Progress = std::function<void(double share, std::string_view what)>;

/// Checks, then times one problem. Errors become the row's outcome; only a lost device is returned as one.
[[nodiscard]] Result<Row> measure_problem(const Runtime& runtime, const NamedProblem& problem,
                                          const Options& options, const Peaks& peaks,
                                          const Progress& progress = {});

}  // namespace vkattn::bench

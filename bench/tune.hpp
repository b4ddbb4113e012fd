// Finds the fastest kernel and block sizes for a problem on a device by measuring.
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"
#include "runtime/tuning_file.hpp"

namespace vkattn::bench {

struct TuneOptions {
  double max_seconds = 20;    ///< for one problem
  std::uint32_t repeat = 20;  ///< timed executions of the last candidates
  PlanOptions
      plan;  ///< options of every candidate, without kernel, block sizes and parts, which tuning seeks
};

/// What tuning found for one problem.
struct TuneOutcome {
  std::string name;
  detail::TuningResult result;
  std::string best;                ///< in words: kernel, block sizes, parts
  std::size_t candidates = 0;      ///< number of measured candidates, the default included
  std::size_t left_out = 0;        ///< candidates that were too slow to measure to the end, or were refused
  std::vector<std::string> wrong;  ///< candidates whose output was wrong: bugs of a driver or of the library
  std::string message;             ///< why tuning found nothing; empty if it found something
};

/// Measures the default, then every other kernel and every entry of its tile table that is not clearly
/// slower. Measures the best candidates again. Then it tries how to cut the best one: attention with few rows
/// into parts of the keys, products into parts of the inner dimension, gradients into chunks of the keys. The
/// default stays if nothing is faster by more than the noise. The output of every candidate is checked before
/// it is timed. Only a lost device is an error.
[[nodiscard]] Result<TuneOutcome> tune_problem(const Runtime& runtime, const NamedProblem& problem,
                                               const TuneOptions& options, const Progress& progress);

}  // namespace vkattn::bench

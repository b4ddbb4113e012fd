// Finding the fastest kernel and block sizes for a problem on a device, by measuring.
#pragma once

#include <string>
#include <vector>

#include "bench.hpp"
#include "runtime/tuning_file.hpp"

namespace vkattn::bench {

struct TuneOptions {
  double max_seconds = 20;    ///< for one problem
  std::uint32_t repeat = 20;  ///< timed executions of the last candidates
  PlanOptions plan;  ///< of every candidate, without a kernel, block sizes and parts, which are sought
};

/// What was found for one problem.
struct TuneOutcome {
  std::string name;
  detail::TuningResult result;
  std::string best;                ///< in words: kernel, block sizes, parts
  std::size_t candidates = 0;      ///< measured, the default among them
  std::size_t left_out = 0;        ///< too slow to be worth their time, or refused
  std::vector<std::string> wrong;  ///< candidates whose output was wrong: bugs of a driver or of the library
  std::string message;             ///< why nothing was found; empty where something was
};

/// Measures the default, then every other kernel and entry of its tile table that is not clearly slower, the
/// best of them once more, and how the best is cut: for few rows numbers of parts of the keys, of products
/// parts of their inner dimension, of gradients chunks of the keys. The default stays where nothing is faster
/// by more than the noise. Every candidate's output is checked before it is timed. Only a lost device is an
/// error.
[[nodiscard]] Result<TuneOutcome> tune_problem(const Runtime& runtime, const NamedProblem& problem,
                                               const TuneOptions& options, const Progress& progress);

}  // namespace vkattn::bench

// Tuning: see tune.hpp.
#include "tune.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "operation_options.hpp"
#include "problem/gradients.hpp"

namespace vkattn::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWorthIt = 0.97;  // share of the default's time: a smaller gain is noise
constexpr double kHopeless = 1.5;  // times the best time: such a candidate is not measured to the end
constexpr double kClose = 1.2;     // times the best time: such a candidate is measured again
constexpr std::size_t kLastCandidates = 4;

/// What is measured: a kernel, its block sizes, and the cut of the problem.
struct Candidate {
  PlanOptions plan;
  double median_ns = 0;
};

/// How a problem can be cut. Attention with few rows cuts its keys into a number of parts, and products with
/// few results their inner dimension. Gradients cut their keys into chunks of a number of keys.
struct Cut {
  NumberOption option;                 ///< the option that holds the number; 0 means the library's own rule
  std::vector<std::uint32_t> numbers;  ///< the numbers to try
  const char* words;                   ///< the words after a number of parts
};

Cut cut_of(const Problem& problem) {
  constexpr std::int64_t kFewRows = 64;  // rows of all query heads that read one KV head
  constexpr std::int64_t kFewResults = 1 << 18;
  constexpr std::int64_t kLeastPart = 64;
  const AttentionDesc& desc = problem.desc;
  Cut cut{parts_option(problem.operation),
          {},
          problem.operation == Operation::kMatmul ? "of the inner dimension" : "of the keys"};
  const auto into_parts_of = [&](std::int64_t length) {
    for (std::uint32_t parts = 1; parts <= 64 && length / parts >= kLeastPart; parts *= 2)
      cut.numbers.push_back(parts);
  };
  switch (problem.operation) {
    case Operation::kForward:
      if (desc.query_length * (desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1)) <= kFewRows)
        into_parts_of(desc.kv_length);
      break;
    case Operation::kMatmul:
      if (problem.matmul.rows * problem.matmul.columns <= kFewResults) into_parts_of(problem.matmul.inner);
      break;
    case Operation::kBackward:
      cut.option = &PlanOptions::chunk_keys;
      for (std::uint32_t keys = 128; keys < desc.kv_length && keys <= 2048; keys *= 2)
        cut.numbers.push_back(keys);
      break;
  }
  return cut;
}

std::vector<Candidate> candidates_of(const Problem& problem, const Capabilities& device,
                                     const PlanOptions& common) {
  std::vector<Candidate> all;
  const auto add = [&](std::string_view kernel) -> PlanOptions& {
    PlanOptions& plan = all.emplace_back(Candidate{common}).plan;
    plan.kernel = kernel;
    return plan;
  };
  switch (problem.operation) {
    case Operation::kForward:
      for (const KernelTile& each : tuning_candidates(problem.desc, device, common.arithmetic_type))
        add(each.kernel).tile = each.tile;
      break;
    case Operation::kMatmul:
      for (const MatmulKernelTile& each : tuning_candidates(problem.matmul, device))
        add(each.kernel).matmul_tile = each.tile;
      break;
    case Operation::kBackward:
      for (const KernelTile& each : tuning_candidates(with_all_gradients(problem.desc), device)) {
        PlanOptions& plan = add(each.kernel);
        if (each.tile != TileSizes{}) plan.tile = each.tile;
      }
      break;
  }
  return all;
}

/// The result for a line of the tuning file.
decltype(detail::TuningResult::tuned) tuned_of(const Problem& problem, const PlanOptions& best,
                                               NumberOption cut) {
  const std::string label = to_string(problem);
  switch (problem.operation) {
    case Operation::kMatmul:
      return TunedMatmul{label, problem.matmul, {best.kernel, best.matmul_tile.value()}, best.*cut};
    case Operation::kBackward:
      return TunedBackward{label, problem.desc, best.kernel, best.*cut, {}, best.tile};
    case Operation::kForward:
      break;
  }
  return TunedProblem{label,     problem.desc, {best.kernel, best.tile.value()},
                      best.*cut, {},           best.arithmetic_type};
}

class Tuner {
 public:
  Tuner(const Runtime& runtime, const NamedProblem& problem, const TuneOptions& options,
        const Progress& progress)
      : runtime_(runtime), problem_(problem), options_(options), progress_(progress) {
    outcome_.name = problem.name;
  }

  Result<TuneOutcome> run() {
    if (problem_.problem.operation == Operation::kForward) {
      if (Result<void> status = runtime_.probe_row_layouts(problem_.problem.desc); !status)
        return status.error();
    }
    const std::vector<Candidate> candidates =
        candidates_of(problem_.problem, runtime_.device().capabilities(), options_.plan);
    if (candidates.empty()) return failed("no kernel can run this problem on this device");
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const double share = 0.7 * static_cast<double>(i) / static_cast<double>(candidates.size());
      if (i > 0 && seconds_left() < 0.3 * options_.max_seconds) break;
      if (Result<void> status = measure(candidates[i], kLeastRepeats, share); !status) return status.error();
    }
    if (measured_.empty())
      return failed(first_message_);  // if the default cannot run, the first that runs takes its place
    if (Result<void> status = measure_again(); !status) return status.error();
    if (measured_.empty()) return failed("every candidate gave a wrong output");
    if (Result<void> status = measure_cuts(); !status) return status.error();
    return finish();
  }

 private:
  [[nodiscard]] double seconds_left() const {
    return options_.max_seconds - std::chrono::duration<double>(Clock::now() - start_).count();
  }
  [[nodiscard]] const Candidate& best() const {
    return *std::min_element(measured_.begin(), measured_.end(), [](const Candidate& a, const Candidate& b) {
      return a.median_ns < b.median_ns;
    });
  }
  TuneOutcome failed(std::string message) {
    outcome_.message = std::move(message);
    return std::move(outcome_);
  }

  [[nodiscard]] std::string words(const Candidate& candidate) const {
    const std::string tile = tile_text(candidate.plan);
    std::string text = candidate.plan.kernel + (tile.empty() ? "" : ": " + tile);
    const std::uint32_t parts = candidate.plan.*cut_.option;
    if (parts == 0) return text;
    text += tile.empty() ? ": " : ", ";
    const std::string number = std::to_string(parts);
    if (problem_.problem.operation == Operation::kBackward) return text + "chunks of " + number + " keys";
    return text + number + (parts == 1 ? " part " : " parts ") + cut_.words;
  }

  // Measures the candidate and adds it to the measured ones, or counts it as left out.
  Result<void> measure(const Candidate& candidate, std::uint32_t repeat, double share) {
    Options options;
    options.plan = candidate.plan;
    options.times_forward = false;
    options.repeat = repeat;
    options.check_rows = 16;
    options.max_seconds = std::max(seconds_left(), 1.0);
    if (!measured_.empty()) {
      const double hopeless = kHopeless * best().median_ns * 1e-9 * (kLeastRepeats + 1);
      options.max_seconds = std::min(options.max_seconds, std::max(hopeless, 0.05));
    }
    const std::string what = words(candidate);
    const auto report = [&](double, std::string_view) {
      if (progress_) progress_(share, what);
    };
    const auto row = measure_problem(runtime_, problem_, options, {}, report);
    if (!row.ok()) return row.error();
    if (row->outcome == Outcome::kWrong) outcome_.wrong.push_back(what + ": " + row->message);
    if (row->outcome != Outcome::kMeasured) {
      if (first_message_.empty()) first_message_ = row->message;
      ++outcome_.left_out;
      return {};
    }
    Candidate measured = candidate;
    measured.median_ns = row->time_ns.median;
    measured_.push_back(measured);
    ++outcome_.candidates;
    return {};
  }

  // Measures the default and the best candidates again, with as many executions as were asked for.
  Result<void> measure_again() {
    std::vector<Candidate> again = measured_;
    const Candidate first = measured_.front();
    const double limit = best().median_ns * kClose;
    again.erase(again.begin());
    std::erase_if(again, [&](const Candidate& candidate) { return candidate.median_ns > limit; });
    std::sort(again.begin(), again.end(),
              [](const Candidate& a, const Candidate& b) { return a.median_ns < b.median_ns; });
    if (again.size() > kLastCandidates) again.resize(kLastCandidates);
    again.insert(again.begin(), first);
    outcome_.candidates -= again.size();  // each candidate counts once
    measured_.clear();
    for (const Candidate& candidate : again) {
      const std::size_t wrong = outcome_.wrong.size(), measured = measured_.size();
      if (Result<void> status = measure(candidate, options_.repeat, 0.8); !status) return status;
      // If time runs out, the earlier measurement of the candidate stays. If its output is wrong, it goes.
      const bool is_wrong = outcome_.wrong.size() > wrong;
      const bool is_measured = measured_.size() > measured;
      if (!is_wrong && !is_measured) measured_.push_back(candidate);
    }
    if (!measured_.empty()) default_ = measured_.front();
    return {};
  }

  Result<void> measure_cuts() {
    const Candidate whole = best();
    for (const std::uint32_t number : cut_.numbers) {
      if (seconds_left() <= 0) break;
      Candidate candidate = whole;
      candidate.plan.*cut_.option = number;
      if (Result<void> status = measure(candidate, options_.repeat, 0.9); !status) return status;
    }
    return {};
  }

  TuneOutcome finish() {
    Candidate chosen = best();
    if (chosen.median_ns > kWorthIt * default_.median_ns) chosen = default_;
    outcome_.best = words(chosen);
    outcome_.result.tuned = tuned_of(problem_.problem, chosen.plan, cut_.option);
    outcome_.result.median_ns = chosen.median_ns;
    outcome_.result.default_kernel = default_.plan.kernel;
    outcome_.result.default_median_ns = default_.median_ns;
    return std::move(outcome_);
  }

  const Runtime& runtime_;
  const NamedProblem& problem_;
  const TuneOptions& options_;
  const Progress& progress_;
  Cut cut_ = cut_of(problem_.problem);
  Clock::time_point start_ = Clock::now();
  std::vector<Candidate> measured_;  // the first is the default
  Candidate default_;
  std::string first_message_;
  TuneOutcome outcome_;
};

}  // namespace

Result<TuneOutcome> tune_problem(const Runtime& runtime, const NamedProblem& problem,
                                 const TuneOptions& options, const Progress& progress) {
  return Tuner(runtime, problem, options, progress).run();
}

}  // namespace vkattn::bench

// Tuning: see tune.hpp.
#include "tune.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace vkattn::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWorthIt = 0.97;  // of the default's time: less is noise
constexpr double kHopeless = 1.5;  // times the best: not measured to the end
constexpr double kClose = 1.2;     // times the best: measured again
constexpr std::size_t kLastCandidates = 4;
constexpr std::int64_t kFewRows = 64;  // of all heads of a KV head: the keys may be cut
constexpr std::int64_t kLeastPartKeys = 64;

struct Candidate {
  KernelTile kernel;
  std::uint32_t kv_splits = 0;
  double median_ns = 0;
};

class Tuner {
 public:
  Tuner(const Runtime& runtime, const NamedProblem& problem, const TuneOptions& options,
        const Progress& progress)
      : runtime_(runtime), problem_(problem), options_(options), progress_(progress) {
    outcome_.name = problem.name;
  }

  Result<TuneOutcome> run() {
    const AttentionDesc& desc = problem_.problem.desc;
    const auto kernels = tuning_candidates(desc, runtime_.device().capabilities());
    if (kernels.empty()) return failed("no kernel can run this problem on this device");
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const double share = 0.7 * static_cast<double>(i) / static_cast<double>(kernels.size());
      if (i > 0 && seconds_left() < 0.3 * options_.max_seconds) break;
      if (Result<void> status = measure({kernels[i], 0, 0}, kLeastRepeats, share); !status)
        return status.error();
    }
    if (measured_.empty()) return failed(first_message_);  // else the first that runs is the default
    if (Result<void> status = measure_again(); !status) return status.error();
    if (measured_.empty()) return failed("every candidate gave a wrong output");
    if (Result<void> status = measure_splits(); !status) return status.error();
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

  // Adds the candidate to what was measured, or counts it as left out.
  Result<void> measure(const Candidate& candidate, std::uint32_t repeat, double share) {
    Options options;
    options.kernel = candidate.kernel.kernel;
    options.tile.attention = candidate.kernel.tile;
    options.kv_splits = candidate.kv_splits;
    options.repeat = repeat;
    options.check_rows = 16;
    options.max_seconds = std::max(seconds_left(), 1.0);
    if (!measured_.empty()) {
      const double hopeless = kHopeless * best().median_ns * 1e-9 * (kLeastRepeats + 1);
      options.max_seconds = std::min(options.max_seconds, std::max(hopeless, 0.05));
    }
    const std::string what = candidate.kernel.kernel + ": " + to_string(candidate.kernel.tile);
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

  // The default and the best once more, with as many executions as were asked for.
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
    outcome_.candidates -= again.size();  // counted once
    measured_.clear();
    for (const Candidate& candidate : again) {
      const std::size_t wrong = outcome_.wrong.size();
      if (Result<void> status = measure(candidate, options_.repeat, 0.8); !status) return status;
      // A limit of time must not lose what was known; a wrong output must.
      const bool is_wrong = outcome_.wrong.size() > wrong;
      const bool is_measured = !measured_.empty() && measured_.back().kernel == candidate.kernel;
      if (!is_wrong && !is_measured) measured_.push_back(candidate);
    }
    if (!measured_.empty()) default_ = measured_.front();
    return {};
  }

  Result<void> measure_splits() {
    const AttentionDesc& desc = problem_.problem.desc;
    const std::int64_t rows =
        desc.query_length * (desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1));
    if (rows > kFewRows) return {};
    const Candidate whole = best();
    for (std::uint32_t parts = 1; parts <= 64; parts *= 2) {
      if (desc.kv_length / parts < kLeastPartKeys || seconds_left() <= 0) break;
      if (Result<void> status = measure({whole.kernel, parts, 0}, options_.repeat, 0.9); !status)
        return status;
    }
    return {};
  }

  TuneOutcome finish() {
    Candidate chosen = best();
    if (chosen.median_ns > kWorthIt * default_.median_ns) chosen = default_;
    outcome_.result.tuned = {to_string(problem_.problem), problem_.problem.desc, chosen.kernel,
                             chosen.kv_splits};
    outcome_.result.median_ns = chosen.median_ns;
    outcome_.result.default_kernel = default_.kernel.kernel;
    outcome_.result.default_median_ns = default_.median_ns;
    return std::move(outcome_);
  }

  const Runtime& runtime_;
  const NamedProblem& problem_;
  const TuneOptions& options_;
  const Progress& progress_;
  Clock::time_point start_ = Clock::now();
  std::vector<Candidate> measured_;  // the default first
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

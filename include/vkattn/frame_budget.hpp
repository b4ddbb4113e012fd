/// @file
/// Attention beside a renderer: the dispatches of one execution dealt out to frames.
#pragma once

#include <vkattn/recording.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn {

/// Deals the dispatches of a plan, or of a Sequence of plans, out to slices that should take no longer than a
/// budget, and learns from what they took. For finer slices make plans with a PlanOptions::max_dispatch_ns
/// well below the budget: a slice has at least one dispatch, however long that takes. Owns nothing of the
/// plans; not thread-safe.
///
///     FrameBudget frames(plan.dispatches());
///     while (!frames.is_done()) {                       // once a frame
///       const RecordOptions slice = frames.next(2e6);   // 2 ms
///       plan.record(commands, bindings, slice);
///       ...                                             // later, from timestamps around it
///       frames.measured(slice, took_ns);
///     }
class FrameBudget {
 public:
  /// Of the dispatches() of a plan or a Sequence, whose estimates it copies. Each counts 2 us at least, for
  /// its launch; those without an estimate, as of appends, count as this.
  explicit FrameBudget(std::span<const DispatchInfo> dispatches);

  /// The next slice: as many dispatches as their corrected estimates allow for `budget_ns` nanoseconds, at
  /// least one. A dispatch whose pass (DispatchInfo::pass) was not measured yet is a slice of its own. Empty
  /// if is_done().
  [[nodiscard]] RecordOptions next(double budget_ns);
  /// Tells the time that a slice took, in nanoseconds, by the caller's timestamps, which may be some frames
  /// old. Corrects the estimates of the passes that the slice has, by the same factor. A slower device is
  /// believed at once, a faster one by a fiftieth of the difference. But a pass's second measurement replaces
  /// the first, for which some drivers compile. A pass without a measurement gets the largest correction of
  /// the others.
  void measured(const RecordOptions& slice, double ns);

  /// All dispatches were given to slices.
  [[nodiscard]] bool is_done() const { return next_ == dispatches_.size(); }
  /// Begin at the first dispatch again; what was learnt stays.
  void restart() { next_ = 0; }
  /// What a slice is expected to take, in nanoseconds.
  [[nodiscard]] double estimated_ns(const RecordOptions& slice) const;

 private:
  struct Dispatch {
    double estimate_ns = 0;
    std::size_t pass = 0;  ///< in passes_
  };
  /// Dispatches of one name.
  struct Pass {
    double correction = 0;  ///< what was measured is so many times what was guessed; 0: nothing was
    bool has_one_measurement = false;
  };
  [[nodiscard]] std::span<const Dispatch> within(const RecordOptions& slice) const;
  /// The largest correction of all; 1 if no pass was measured.
  [[nodiscard]] double correction_of_unmeasured() const;

  std::vector<Dispatch> dispatches_;
  std::vector<Pass> passes_;
  std::size_t next_ = 0;
};

}  // namespace vkattn

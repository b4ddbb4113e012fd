/// @file
/// Attention beside a renderer: the dispatches of one execution dealt out to frames.
#pragma once

#include <vkattn/recording.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace vkattn {

/// Deals the dispatches of a plan, or of a Sequence of plans, out to slices that should take no longer than a
/// budget, and learns from what they took. It keeps as much of the budget in reserve as the times scatter, so
/// that about one slice in 250 takes longer. For finer slices make plans with a PlanOptions::max_dispatch_ns
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

  /// The next slice: as many dispatches as their corrected estimates, times a reserve, allow for `budget_ns`
  /// nanoseconds, at least one. A dispatch whose pass (DispatchInfo::pass) was not measured yet is a slice of
  /// its own. Empty if is_done().
  [[nodiscard]] RecordOptions next(double budget_ns);
  /// Tells the time that a slice took, in nanoseconds, by the caller's timestamps, which may be some frames
  /// old. Tell each slice once, whole. Corrects the estimates of the passes that the slice has, by the same
  /// factor. Of a pass's last three corrections the middle one counts: one slice that had to wait changes no
  /// estimate, and a device of another speed is believed after two. But a pass's second measurement replaces
  /// the first, for which some drivers compile. A pass without a measurement gets the largest correction of
  /// the others.
  ///
  /// A slice as next() gave it also teaches the reserve, which begins with 2.5 and stays within 1 and 4: it
  /// grows with a slice that took longer than its budget, and shrinks a little with each other one. A slice
  /// of one dispatch cannot be shorter, so the reserve does not grow with it. A slice that took more than
  /// four times what was expected teaches nothing, as no reserve would have been enough.
  void measured(const RecordOptions& slice, double ns);

  /// All dispatches were given to slices.
  [[nodiscard]] bool is_done() const { return next_ == dispatches_.size(); }
  /// Begin at the first dispatch again; what was learnt stays.
  void restart() { next_ = 0; }
  /// What a slice is expected to take, in nanoseconds, without the reserve.
  [[nodiscard]] double estimated_ns(const RecordOptions& slice) const;

 private:
  struct Dispatch {
    double estimate_ns = 0;
    std::size_t pass = 0;  ///< in passes_
    /// The last slice that began here: how many dispatches it had, for which budget.
    std::size_t slice_count = 0;
    double slice_budget_ns = 0;
  };
  /// Dispatches of one name.
  struct Pass {
    /// What was measured is so many times what was guessed. The last three times, the oldest first; 0:
    /// nothing was measured.
    std::array<double, 3> last{};
    bool has_one_measurement = false;
    [[nodiscard]] double correction() const;
    void learn(double correction);
  };
  [[nodiscard]] std::span<const Dispatch> within(const RecordOptions& slice) const;
  /// The largest correction of all; 1 if no pass was measured.
  [[nodiscard]] double correction_of_unmeasured() const;
  void learn_reserve(bool is_longer, bool can_be_shorter);

  std::vector<Dispatch> dispatches_;
  std::vector<Pass> passes_;
  std::size_t next_ = 0;
  double reserve_, reserve_step_;  ///< the step by which it grows, as a part of it
};

}  // namespace vkattn

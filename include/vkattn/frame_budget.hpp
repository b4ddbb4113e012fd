/// @file
/// Attention beside a renderer: the dispatches of one execution dealt out to frames.
#pragma once

#include <vkattn/recording.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vkattn {

/// Deals the dispatches of a plan out to slices that should take no longer than a budget, and learns from
/// what they took. For finer slices make the plan with a PlanOptions::max_dispatch_ns well below the budget:
/// a slice has at least one dispatch, however long that takes. Owns nothing of the plan; not thread-safe.
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
  /// Of a plan's dispatches(), whose estimates it copies; where there are none, as of appends, all count
  /// alike.
  explicit FrameBudget(std::span<const DispatchInfo> dispatches);

  /// The next slice: as many dispatches as their corrected estimates allow for `budget_ns` nanoseconds, or
  /// one dispatch until something was measured. Empty if is_done().
  [[nodiscard]] RecordOptions next(double budget_ns);
  /// Tells the time that a slice took, in nanoseconds, by the caller's timestamps, which may be some frames
  /// old. A slower device is believed at once, a faster one by a fiftieth of the difference. But the second
  /// measurement replaces the first, for which some drivers compile.
  void measured(const RecordOptions& slice, double ns);

  /// All dispatches were given to slices.
  [[nodiscard]] bool is_done() const { return next_ == estimates_.size(); }
  /// Begin at the first dispatch again; what was learnt stays.
  void restart() { next_ = 0; }
  /// What a slice is expected to take, in nanoseconds.
  [[nodiscard]] double estimated_ns(const RecordOptions& slice) const;

 private:
  [[nodiscard]] double sum(const RecordOptions& slice) const;

  std::vector<double> estimates_;
  std::size_t next_ = 0;
  double correction_ = 0;  ///< what was measured is so many times what was guessed; 0: nothing was
  bool has_one_measurement_ = false;
};

}  // namespace vkattn

// Slices of a frame's length.
#include <vkattn/frame_budget.hpp>

#include <algorithm>

namespace vkattn {

FrameBudget::FrameBudget(std::span<const DispatchInfo> dispatches) {
  // Dispatches without estimates, as those of appends, all count alike.
  for (const DispatchInfo& dispatch : dispatches) {
    estimates_.push_back(std::max(dispatch.estimated_ns, 1.0));
  }
}

double FrameBudget::sum(const RecordOptions& slice) const {
  const std::size_t begin = std::min<std::size_t>(slice.first_dispatch, estimates_.size());
  const std::size_t count = std::min<std::size_t>(slice.dispatch_count, estimates_.size() - begin);
  double all = 0;
  for (std::size_t i = begin; i < begin + count; ++i) all += estimates_[i];
  return all;
}

double FrameBudget::estimated_ns(const RecordOptions& slice) const {
  return sum(slice) * (correction_ > 0 ? correction_ : 1.0);
}

RecordOptions FrameBudget::next(double budget_ns) {
  RecordOptions slice;
  slice.first_dispatch = static_cast<std::uint32_t>(next_);
  slice.dispatch_count = 0;
  double all = 0;
  while (!is_done()) {
    all += estimates_[next_] * correction_;
    const bool is_enough = slice.dispatch_count > 0 && (correction_ <= 0 || !(all <= budget_ns));
    if (is_enough) break;
    ++slice.dispatch_count;
    ++next_;
  }
  return slice;
}

void FrameBudget::measured(const RecordOptions& slice, double ns) {
  const double guessed = sum(slice);
  if (guessed <= 0 || !(ns > 0)) return;
  const double now = ns / guessed;
  // A slower measurement counts at once, a faster one little by little, as missed frames show. The first
  // slice may have waited for the driver's compiler, a thousand times as long. If times scatter, a slice is
  // expected to take nearly the longest of the last fifty.
  constexpr double kForgetting = 0.02;
  const bool is_first = correction_ <= 0;
  const bool is_believed = now >= correction_ || has_one_measurement_;
  correction_ = is_believed ? now : correction_ + kForgetting * (now - correction_);
  has_one_measurement_ = is_first;
}

}  // namespace vkattn

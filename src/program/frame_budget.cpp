// Slices of a frame's length.
#include <vkattn/frame_budget.hpp>

#include <algorithm>
#include <string_view>

namespace vkattn {

FrameBudget::FrameBudget(std::span<const DispatchInfo> dispatches) {
  // A launch takes about this long, whatever is computed. Appends and merges have no other estimate.
  constexpr double kLaunchNs = 2000;
  std::vector<std::string_view> names;
  for (const DispatchInfo& dispatch : dispatches) {
    const auto name = std::ranges::find(names, dispatch.pass);
    const auto pass = static_cast<std::size_t>(name - names.begin());
    if (name == names.end()) names.push_back(dispatch.pass);
    dispatches_.push_back({std::max(dispatch.estimated_ns, kLaunchNs), pass});
  }
  passes_.resize(names.size());
}

std::span<const FrameBudget::Dispatch> FrameBudget::within(const RecordOptions& slice) const {
  const std::size_t begin = std::min<std::size_t>(slice.first_dispatch, dispatches_.size());
  const std::size_t count = std::min<std::size_t>(slice.dispatch_count, dispatches_.size() - begin);
  return std::span(dispatches_).subspan(begin, count);
}

double FrameBudget::correction_of_unmeasured() const {
  double largest = 0;
  for (const Pass& pass : passes_) largest = std::max(largest, pass.correction);
  return largest > 0 ? largest : 1.0;
}

double FrameBudget::estimated_ns(const RecordOptions& slice) const {
  const double unmeasured = correction_of_unmeasured();
  double all = 0;
  for (const Dispatch& each : within(slice)) {
    const double correction = passes_[each.pass].correction;
    all += each.estimate_ns * (correction > 0 ? correction : unmeasured);
  }
  return all;
}

RecordOptions FrameBudget::next(double budget_ns) {
  RecordOptions slice;
  slice.first_dispatch = static_cast<std::uint32_t>(next_);
  slice.dispatch_count = 0;
  double all = 0;
  while (!is_done()) {
    const double correction = passes_[dispatches_[next_].pass].correction;
    const bool is_known = correction > 0;
    all += dispatches_[next_].estimate_ns * correction;
    if (slice.dispatch_count > 0 && (!is_known || !(all <= budget_ns))) break;
    ++slice.dispatch_count;
    ++next_;
    if (!is_known) break;
  }
  return slice;
}

void FrameBudget::measured(const RecordOptions& slice, double ns) {
  const double guessed = estimated_ns(slice);
  if (guessed <= 0 || !(ns > 0)) return;
  const double factor = ns / guessed, unmeasured = correction_of_unmeasured();
  // A slower measurement counts at once, a faster one little by little, as missed frames show. The first
  // slice may have waited for the driver's compiler, a thousand times as long. If times scatter, a slice is
  // expected to take nearly the longest of the last fifty.
  constexpr double kForgetting = 0.02;
  const std::span<const Dispatch> dispatches = within(slice);
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    if (std::ranges::find(dispatches, i, &Dispatch::pass) == dispatches.end()) continue;
    Pass& pass = passes_[i];
    const bool is_first = pass.correction <= 0;
    const double before = is_first ? unmeasured : pass.correction;
    const bool is_believed = is_first || factor >= 1 || pass.has_one_measurement;
    pass.correction = before * (is_believed ? factor : 1 + kForgetting * (factor - 1));
    pass.has_one_measurement = is_first;
  }
}

}  // namespace vkattn

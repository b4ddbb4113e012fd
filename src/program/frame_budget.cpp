// Slices of a frame's length.
#include <vkattn/frame_budget.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace vkattn {

namespace {

// 99 % of the slices of any few seconds should be within their budget, so the share of longer ones that the
// reserve aims at is clearly lower.
constexpr double kLongerShare = 0.004;
constexpr double kFirstReserve = 2.5, kMostReserve = 4;
// While little is known, a longer slice takes a third of the next one's dispatches, and later a tenth.
constexpr double kFirstStep = 0.5, kLeastStep = 0.1;

}  // namespace

FrameBudget::FrameBudget(std::span<const DispatchInfo> dispatches)
    : reserve_(kFirstReserve), reserve_step_(kFirstStep) {
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

double FrameBudget::Pass::correction() const {
  std::array<double, 3> sorted = last;
  std::ranges::sort(sorted);
  return sorted[1];
}

// The first slice may have waited for the driver's compiler, a thousand times as long.
void FrameBudget::Pass::learn(double correction) {
  const bool is_first = last.back() <= 0;
  if (is_first || has_one_measurement) {
    last.fill(correction);
  } else {
    last = {last[1], last[2], correction};
  }
  has_one_measurement = is_first;
}

double FrameBudget::correction_of_unmeasured() const {
  double largest = 0;
  for (const Pass& pass : passes_) largest = std::max(largest, pass.correction());
  return largest > 0 ? largest : 1.0;
}

double FrameBudget::estimated_ns(const RecordOptions& slice) const {
  const double unmeasured = correction_of_unmeasured();
  double all = 0;
  for (const Dispatch& each : within(slice)) {
    const double correction = passes_[each.pass].correction();
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
    const double correction = passes_[dispatches_[next_].pass].correction();
    const bool is_known = correction > 0;
    all += dispatches_[next_].estimate_ns * correction * reserve_;
    if (slice.dispatch_count > 0 && (!is_known || !(all <= budget_ns))) break;
    ++slice.dispatch_count;
    ++next_;
    if (!is_known) break;
  }
  if (slice.dispatch_count > 0) {
    dispatches_[slice.first_dispatch].slice_count = slice.dispatch_count;
    dispatches_[slice.first_dispatch].slice_budget_ns = budget_ns;
  }
  return slice;
}

// Steps up and down cancel out where the wanted share of slices takes longer, however their times are
// distributed.
void FrameBudget::learn_reserve(bool is_longer, bool can_be_shorter) {
  if (!is_longer) {
    reserve_ = std::max(reserve_ * (1 - kLongerShare * reserve_step_), 1.0);
  } else if (can_be_shorter) {
    reserve_ = std::min(reserve_ * (1 + reserve_step_), kMostReserve);
    reserve_step_ = std::max(reserve_step_ / 2, kLeastStep);
  }
}

void FrameBudget::measured(const RecordOptions& slice, double ns) {
  const double guessed = estimated_ns(slice);
  if (guessed <= 0 || !(ns > 0) || !std::isfinite(ns)) return;
  const double factor = ns / guessed, unmeasured = correction_of_unmeasured();
  const std::span<const Dispatch> dispatches = within(slice);
  const Dispatch& first = dispatches.front();
  const bool is_as_given = first.slice_count == dispatches.size() && !std::isnan(first.slice_budget_ns);
  // Against a longer wait than that no reserve helps.
  if (is_as_given && factor <= kMostReserve) learn_reserve(ns > first.slice_budget_ns, dispatches.size() > 1);
  for (std::size_t i = 0; i < passes_.size(); ++i) {
    if (std::ranges::find(dispatches, i, &Dispatch::pass) == dispatches.end()) continue;
    const double before = passes_[i].correction();
    passes_[i].learn((before > 0 ? before : unmeasured) * factor);
  }
}

}  // namespace vkattn

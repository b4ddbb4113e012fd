// Ticks and the placement of labels: each in turn takes the cheapest free place around its point, and moves
// once more when the others have theirs.
#include "plot_layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include "console.hpp"

namespace vkattn::bench {
namespace {

constexpr double kLeaderGap = 14;  // a label nearer to its point needs no line
constexpr int kDirections = 24;
constexpr std::array<double, 11> kGaps = {6, 10, 15, 22, 31, 42, 56, 74, 96, 124, 160};

/// Two labels on one line of text need more between them than two lines of text do.
PlotBox with_margin(const PlotBox& box) {
  constexpr double kBeside = 5, kAbove = 1.5;
  return {box.x - kBeside, box.y - kAbove, box.width + 2 * kBeside, box.height + 2 * kAbove};
}

/// Twice the signed area of the triangle: which side of a-b the point c is on.
double side(const PlotPosition& a, const PlotPosition& b, const PlotPosition& c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

bool inside(const PlotBox& box, const PlotPosition& p) {
  return p.x > box.x && p.x < box.right() && p.y > box.y && p.y < box.bottom();
}

PlotBox marker_box(const PlotPosition& anchor, double radius) {
  return {anchor.x - radius, anchor.y - radius, 2 * radius, 2 * radius};
}

/// Finds places for labels among each other.
class LabelPlacer {
 public:
  LabelPlacer(std::span<const PlotLabel> labels, const LabelRoom& room)
      : labels_(labels), room_(room), placed_(labels.size()) {}

  std::vector<PlacedLabel> run() {
    constexpr int kPasses = 5;
    for (int pass = 0; pass < kPasses; ++pass) {
      for (std::size_t i = 0; i < labels_.size(); ++i) {
        placed_[i] = {};
        if (place(i, labels_[i].width, false, false) || place(i, labels_[i].short_width, true, false))
          continue;
        place(i, labels_[i].short_width, true, true);
      }
    }
    return placed_;
  }

 private:
  /// `crossing`: its leader may run through other labels.
  bool place(std::size_t index, double width, bool shortened, bool crossing) {
    const PlotLabel& label = labels_[index];
    double best = 0;
    for (const double gap : kGaps) {
      for (int step = 0; step < kDirections; ++step) {
        const double angle = 2 * std::numbers::pi * step / kDirections;
        const PlacedLabel candidate = at(label, width, angle, gap);
        const std::optional<double> cost = cost_of(index, candidate, crossing, gap + preference(angle));
        if (!cost || (placed_[index].placed && *cost >= best)) continue;
        best = *cost;
        placed_[index] = candidate;
        placed_[index].shortened = shortened;
      }
    }
    return placed_[index].placed;
  }

  /// The box in that direction whose border is `gap` beyond the marker's.
  [[nodiscard]] PlacedLabel at(const PlotLabel& label, double width, double angle, double gap) const {
    const double c = std::cos(angle), s = std::sin(angle);
    constexpr double kTiny = 1e-9;
    const double to_side = width / 2 / std::max(std::abs(c), kTiny);
    const double to_top = label.height / 2 / std::max(std::abs(s), kTiny);
    const double reach = std::min(to_side, to_top) + room_.marker_radius + gap;
    PlacedLabel result;
    result.placed = true;
    result.box = {label.anchor.x + c * reach - width / 2, label.anchor.y + s * reach - label.height / 2,
                  width, label.height};
    result.leader = gap > kLeaderGap;
    result.line = {label.anchor, result.box.nearest(label.anchor)};
    return result;
  }

  /// To the right first, then to the left, as text is read.
  static double preference(double angle) {
    const double c = std::cos(angle);
    return c > 0 ? 6 * (1 - c) : 3 + 5 * (1 + c);
  }

  /// None where the place is not free.
  [[nodiscard]] std::optional<double> cost_of(std::size_t index, const PlacedLabel& candidate, bool crossing,
                                              double cost) const {
    const PlotBox roomy = with_margin(candidate.box);
    if (!room_.frame.contains(roomy)) return std::nullopt;
    for (const PlotBox& box : room_.taken) {
      if (box.overlaps(roomy)) return std::nullopt;
      if (candidate.leader && candidate.line.crosses(box)) cost += 150;
    }
    for (const PlotLine& line : room_.lines) {
      if (line.crosses(roomy)) cost += 40;
    }
    for (std::size_t other = 0; other < labels_.size(); ++other) {
      const PlotBox marker = marker_box(labels_[other].anchor, room_.marker_radius);
      if (marker.overlaps(roomy)) return std::nullopt;
      if (other == index) continue;
      // A point may lie on the very same place: no line can keep off it then.
      if (candidate.leader && candidate.line.crosses(marker) && !inside(marker, labels_[index].anchor))
        cost += 60;
      const PlacedLabel& taken = placed_[other];
      if (!taken.placed) continue;
      if (taken.box.overlaps(roomy) || (taken.leader && taken.line.crosses(roomy))) return std::nullopt;
      if (!candidate.leader) continue;
      if (candidate.line.crosses(taken.box)) {
        if (!crossing) return std::nullopt;
        cost += 200;
      }
      if (taken.leader && candidate.line.crosses(taken.line)) cost += 90;
    }
    return cost;
  }

  std::span<const PlotLabel> labels_;
  const LabelRoom& room_;
  std::vector<PlacedLabel> placed_;
};

}  // namespace

bool PlotBox::overlaps(const PlotBox& other) const {
  return x < other.right() && other.x < right() && y < other.bottom() && other.y < bottom();
}

bool PlotBox::contains(const PlotBox& other) const {
  return other.x >= x && other.right() <= right() && other.y >= y && other.bottom() <= bottom();
}

PlotPosition PlotBox::nearest(const PlotPosition& to) const {
  return {std::clamp(to.x, x, right()), std::clamp(to.y, y, bottom())};
}

bool PlotLine::crosses(const PlotLine& other) const {
  const double a = side(from, to, other.from), b = side(from, to, other.to);
  const double c = side(other.from, other.to, from), d = side(other.from, other.to, to);
  return a * b < 0 && c * d < 0;
}

bool PlotLine::crosses(const PlotBox& box) const {
  // The share of the line that is inside both the box's columns and its rows.
  double enter = 0, leave = 1;
  const auto clip = [&](double start, double along, double low, double high) {
    if (along == 0) {
      if (start <= low || start >= high) leave = -1;
      return;
    }
    const double a = (low - start) / along, b = (high - start) / along;
    enter = std::max(enter, std::min(a, b));
    leave = std::min(leave, std::max(a, b));
  };
  clip(from.x, to.x - from.x, box.x, box.right());
  clip(from.y, to.y - from.y, box.y, box.bottom());
  return enter < leave;
}

LogAxis::LogAxis(double low, double high, double from, double to)
    : low_(low), high_(high), from_(from), to_(to) {}

double LogAxis::position(double value) const {
  return from_ + (to_ - from_) * std::log(value / low_) / std::log(high_ / low_);
}

std::vector<PlotTick> LogAxis::ticks() const {
  constexpr double kRoomy = 130;  // units for a decade with three labels
  constexpr double kRoom = 34;    // for a decade with one
  const double decade = std::abs(to_ - from_) / std::log10(high_ / low_);
  const int stride = std::max(1, static_cast<int>(std::ceil(kRoom / decade)));
  const auto first = static_cast<int>(std::floor(std::log10(low_)));
  const auto last = static_cast<int>(std::floor(std::log10(high_)));
  std::vector<PlotTick> ticks;
  for (int exponent = first; exponent <= last; ++exponent) {
    const double power = std::pow(10.0, exponent);
    for (int digit = 1; digit <= (stride == 1 ? 9 : 1); ++digit) {
      const double value = digit * power;
      if (value < low_ * (1 - 1e-9) || value > high_ * (1 + 1e-9)) continue;
      const bool labelled =
          digit == 1 ? exponent % stride == 0 : decade >= kRoomy && (digit == 2 || digit == 5);
      ticks.push_back({value, labelled ? console::fixed(value, std::max(0, -exponent)) : ""});
    }
  }
  return ticks;
}

namespace {

/// Digits behind the point that tell multiples of the value apart.
int digits_of(double value) {
  return std::max(0, static_cast<int>(-std::floor(std::log10(value) + 1e-9)));
}

}  // namespace

RoundScale::RoundScale(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return;
  const double rough = largest / 5;
  const double decade = std::pow(10.0, std::floor(std::log10(rough)));
  step_ = 10 * decade;
  for (const double digit : {5.0, 2.0, 1.0}) {
    if (digit * decade >= rough * (1 - 1e-9)) step_ = digit * decade;
  }
  top_ = step_ * std::ceil(largest / step_ - 1e-9);
}

std::vector<PlotTick> RoundScale::ticks() const {
  const int digits = digits_of(step_);
  std::vector<PlotTick> ticks;
  for (int i = 0; i * step_ <= top_ * (1 + 1e-9); ++i) {
    ticks.push_back({i * step_, i == 0 ? "0" : console::fixed(i * step_, digits)});
  }
  return ticks;
}

std::vector<PlotTick> ticks_to_largest(double largest, bool is_root) {
  constexpr double kNear = 0.07;  // of the axis: labels would overlap
  const RoundScale scale(largest);
  const double top = largest > 0 && std::isfinite(largest) ? largest : scale.top();
  std::vector<PlotTick> ticks = scale.ticks();
  const auto place = [&](double value) { return is_root ? std::sqrt(value / top) : value / top; };
  std::erase_if(ticks, [&](const PlotTick& tick) { return place(tick.value) > 1 - kNear; });
  if (is_root) {
    const double small = scale.step() / 5;
    ticks.push_back({small, console::fixed(small, digits_of(small))});
  }
  ticks.push_back({top, console::fixed(top, digits_of(scale.step()) + 1)});
  return ticks;
}

std::size_t label_stride(double cell, double room, bool numbers) {
  if (cell >= room) return 1;
  const auto least = static_cast<std::size_t>(std::ceil(room / cell));
  if (!numbers) return least;
  for (std::size_t decade = 1;; decade *= 10) {
    for (const std::size_t digit : {1U, 2U, 5U}) {
      if (digit * decade >= least) return digit * decade;
    }
  }
}

std::vector<PlacedLabel> place_labels(std::span<const PlotLabel> labels, const LabelRoom& room) {
  return LabelPlacer(labels, room).run();
}

}  // namespace vkattn::bench

// See axes.hpp.
#include "axes.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "console.hpp"

namespace vkattn::picture {
namespace {

/// The digits after the point that distinguish multiples of the value.
int digits_of(double value) {
  return std::max(0, static_cast<int>(-std::floor(std::log10(value) + 1e-9)));
}

/// The digits of a tick that is 1, 2 or 5 times a power of ten. Small numbers have a shorter form.
std::string tick_label(double value) {
  constexpr double kSmall = 0.99e-4;
  if (value >= kSmall) return console::fixed(value, digits_of(value));
  const int exponent = -digits_of(value);
  return console::fixed(value / std::pow(10.0, exponent), 0) + "e" + std::to_string(exponent);
}

bool is_near(double value, double other) {
  return std::abs(value / other - 1) < 1e-6;
}

}  // namespace

LogAxis::LogAxis(double low, double high, double from, double to)
    : low_(low), high_(high), from_(from), to_(to) {}

double LogAxis::position(double value) const {
  return from_ + (to_ - from_) * std::log(value / low_) / std::log(high_ / low_);
}

std::vector<Tick> LogAxis::ticks() const {
  constexpr double kRoomy = 130;  // units in a decade with three labels
  constexpr double kRoom = 34;    // units in a decade with one label
  const double decade = std::abs(to_ - from_) / std::log10(high_ / low_);
  const int stride = std::max(1, static_cast<int>(std::ceil(kRoom / decade)));
  const auto first = static_cast<int>(std::floor(std::log10(low_)));
  const auto last = static_cast<int>(std::floor(std::log10(high_)));
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; ++exponent) {
    const double power = std::pow(10.0, exponent);
    for (int digit = 1; digit <= (stride == 1 ? 9 : 1); ++digit) {
      const double value = digit * power;
      if (value < low_ * (1 - 1e-9) || value > high_ * (1 + 1e-9)) continue;
      const bool labelled =
          digit == 1 ? exponent % stride == 0 : decade >= kRoomy && (digit == 2 || digit == 5);
      ticks.push_back({value, labelled ? tick_label(value) : ""});
    }
  }
  label_ends(ticks);
  return ticks;
}

void LogAxis::label_ends(std::vector<Tick>& ticks) const {
  constexpr double kApart = 20;
  for (const double end : {low_, high_}) {
    if (!is_near(round_up(end), end)) continue;
    std::erase_if(ticks, [&](const Tick& tick) { return is_near(tick.value, end); });
    for (Tick& tick : ticks) {
      if (std::abs(position(tick.value) - position(end)) < kApart) tick.label.clear();
    }
    ticks.insert(end == low_ ? ticks.begin() : ticks.end(), {end, tick_label(end)});
  }
}

double round_up(double value) {
  const double decade = std::pow(10.0, std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * decade >= value * (1 - 1e-9)) return digit * decade;
  }
  return 10 * decade;
}

double round_down(double value) {
  return 1 / round_up(1 / value);  // 1, 2 and 5 correspond to 10, 5 and 2 of the decade below
}

RoundScale::RoundScale(double largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return;
  step_ = round_up(largest / 5);
  top_ = step_ * std::ceil(largest / step_ - 1e-9);
}

std::vector<Tick> RoundScale::ticks() const {
  const int digits = digits_of(step_);
  std::vector<Tick> ticks;
  for (int i = 0; i * step_ <= top_ * (1 + 1e-9); ++i) {
    ticks.push_back({i * step_, i == 0 ? "0" : console::fixed(i * step_, digits)});
  }
  return ticks;
}

std::vector<Tick> ticks_to_largest(double largest, bool is_root) {
  constexpr double kNear = 0.07;  // share of the axis in which labels would overlap
  const RoundScale scale(largest);
  const double top = largest > 0 && std::isfinite(largest) ? largest : scale.top();
  std::vector<Tick> ticks = scale.ticks();
  const auto place = [&](double value) { return is_root ? std::sqrt(value / top) : value / top; };
  std::erase_if(ticks, [&](const Tick& tick) { return place(tick.value) > 1 - kNear; });
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

std::vector<Position> spread(std::span<const Position> points, double radius, const Box& frame) {
  constexpr int kMostPasses = 2000;
  constexpr double kGoldenAngle = 2.39996;  // so that no two of many equal points move in the same direction
  constexpr double kStep = 0.3;             // a small step, so that the first points do not move far
  const double least = 2 * radius, apart = least + 1;
  std::vector<Position> places(points.begin(), points.end());
  bool is_done = false;
  for (int pass = 0; pass < kMostPasses && !is_done; ++pass) {
    is_done = true;
    for (std::size_t i = 0; i < places.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Position way = {places[i].x - places[j].x, places[i].y - places[j].y};
        const double distance = std::hypot(way.x, way.y);
        if (distance >= apart) continue;
        is_done = is_done && distance >= least;
        const double angle = distance > 0 ? std::atan2(way.y, way.x) : kGoldenAngle * static_cast<double>(i);
        const double step = kStep * (apart - distance) / 2;
        const Position move = {step * std::cos(angle), step * std::sin(angle)};
        places[i] = {places[i].x + move.x, places[i].y + move.y};
        places[j] = {places[j].x - move.x, places[j].y - move.y};
      }
    }
    for (Position& place : places) {
      place = {std::clamp(place.x, frame.x + radius, frame.right() - radius),
               std::clamp(place.y, frame.y + radius, frame.bottom() - radius)};
    }
  }
  return places;
}

}  // namespace vkattn::picture

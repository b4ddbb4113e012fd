// The geometry of pictures: places, axes with their ticks, and marks that do not hide each other. It knows no
// drawing library. Lengths are in units of the picture. y grows downwards.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vkattn::picture {

struct Position {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0;

  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
  [[nodiscard]] Position center() const { return {x + width / 2, y + height / 2}; }
};

struct Tick {
  double value = 0;
  std::string label;  ///< if empty, the tick is only a thin line of the grid
};

/// A logarithmic axis. It maps values from `low` to `high` (0 < low < high) to lengths from `from` to `to`.
class LogAxis {
 public:
  LogAxis(double low, double high, double from, double to);

  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double position(double value) const;
  /// The ticks, ascending. They have labels at 1, 2 and 5 of each decade, or only at powers of ten if there
  /// is less room, and at ends that are round numbers.
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  /// Gives round ends a label, and removes labels that are too near to them.
  void label_ends(std::vector<Tick>& ticks) const;
  double low_, high_, from_, to_;
};

/// The next number of the form 1, 2 or 5 times a power of ten that is not above the value, or not below it.
/// Axes end there.
[[nodiscard]] double round_down(double value);
[[nodiscard]] double round_up(double value);

/// An axis from 0 to a round number that is at least the largest value. It has about five marks.
class RoundScale {
 public:
  explicit RoundScale(double largest);

  [[nodiscard]] double top() const { return top_; }
  [[nodiscard]] double step() const { return step_; }
  /// The ticks from 0 to the top, each with a label.
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  double top_ = 1, step_ = 0.2;
};

/// The ticks of an axis from 0 to the largest value: round steps, and the largest value itself, which no step
/// is near to. With `is_root` a value lies at the square root of its share, so there is a small step too.
[[nodiscard]] std::vector<Tick> ticks_to_largest(double largest, bool is_root);

/// How many labels of cells make one drawn label, if each needs `room` and cells are `cell` apart. For
/// numbers it is 2, 5, 10 and so on.
[[nodiscard]] std::size_t label_stride(double cell, double room, bool numbers);

/// Places for discs of that radius inside of the frame: at their points, or beside them if discs would hide
/// each other.
[[nodiscard]] std::vector<Position> spread(std::span<const Position> points, double radius, const Box& frame);

}  // namespace vkattn::picture

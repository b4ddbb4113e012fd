// The geometry of pictures: places, axes with their ticks, and marks that do not hide each other. Knows no
// drawing library. Lengths are in the picture's units; y grows downwards.
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
  std::string label;  ///< empty: a thin line of the grid only
};

/// From `low` to `high` (above 0, low below high) over the lengths `from` to `to`, by the logarithm.
class LogAxis {
 public:
  LogAxis(double low, double high, double from, double to);

  [[nodiscard]] double low() const { return low_; }
  [[nodiscard]] double high() const { return high_; }
  [[nodiscard]] double position(double value) const;
  /// Ascending; labels at 1, 2 and 5 of each decade where there is room, at powers of ten where there is
  /// less, and at ends that are round.
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  /// Ends that are round have a label, and what is too near to them has none.
  void label_ends(std::vector<Tick>& ticks) const;
  double low_, high_, from_, to_;
};

/// The next of 1, 2 and 5 times a power of ten that is not above, or not below: where axes end on a tick.
[[nodiscard]] double round_down(double value);
[[nodiscard]] double round_up(double value);

/// Of an axis from 0: a round number that is at least the largest value, and the distance of about five
/// marks.
class RoundScale {
 public:
  explicit RoundScale(double largest);

  [[nodiscard]] double top() const { return top_; }
  [[nodiscard]] double step() const { return step_; }
  /// From 0 to the top, each with a label.
  [[nodiscard]] std::vector<Tick> ticks() const;

 private:
  double top_ = 1, step_ = 0.2;
};

/// Of an axis from 0 to the largest value: round steps, and the largest itself, which no step is near to.
/// With `is_root` a value lies at the square root of its share, so there is a small one too.
[[nodiscard]] std::vector<Tick> ticks_to_largest(double largest, bool is_root);

/// Of labels along cells: every n-th is drawn, where each needs so much room and cells are so far apart.
/// Every second, fifth, tenth and so on of numbers.
[[nodiscard]] std::size_t label_stride(double cell, double room, bool numbers);

/// Places for discs of that radius, inside of the frame: at their points, or beside them where discs would
/// hide each other.
[[nodiscard]] std::vector<Position> spread(std::span<const Position> points, double radius, const Box& frame);

}  // namespace vkattn::picture

// The geometry of a plot: logarithmic axes, their ticks, and labels that do not overlap. Knows no drawing
// library. Lengths are in the picture's units; y grows downwards.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vkattn::bench {

struct PlotPosition {
  double x = 0, y = 0;
};

struct PlotBox {
  double x = 0, y = 0, width = 0, height = 0;

  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
  [[nodiscard]] PlotPosition center() const { return {x + width / 2, y + height / 2}; }
  [[nodiscard]] bool overlaps(const PlotBox& other) const;
  [[nodiscard]] bool contains(const PlotBox& other) const;
  /// The point of the box that is nearest to `to`.
  [[nodiscard]] PlotPosition nearest(const PlotPosition& to) const;
};

struct PlotLine {
  PlotPosition from, to;

  [[nodiscard]] bool crosses(const PlotBox& box) const;
  [[nodiscard]] bool crosses(const PlotLine& other) const;
};

struct PlotTick {
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
  /// less.
  [[nodiscard]] std::vector<PlotTick> ticks() const;

 private:
  double low_, high_, from_, to_;
};

/// Of an axis from 0: a round number that is at least the largest value, and the distance of about five
/// marks.
class RoundScale {
 public:
  explicit RoundScale(double largest);

  [[nodiscard]] double top() const { return top_; }
  [[nodiscard]] double step() const { return step_; }
  /// From 0 to the top, each with a label.
  [[nodiscard]] std::vector<PlotTick> ticks() const;

 private:
  double top_ = 1, step_ = 0.2;
};

/// Of an axis from 0 to the largest value: round steps, and the largest itself, which no step is near to.
/// With `is_root` a value lies at the square root of its share, so there is a small one too.
[[nodiscard]] std::vector<PlotTick> ticks_to_largest(double largest, bool is_root);

/// Of labels along cells: every n-th is drawn, where each needs so much room and cells are so far apart.
/// Every second, fifth, tenth and so on of numbers.
[[nodiscard]] std::size_t label_stride(double cell, double room, bool numbers);

/// A label that belongs to a point.
struct PlotLabel {
  PlotPosition anchor;
  double width = 0, height = 0;
  double short_width = 0;  ///< of what is written where the whole finds no room
};

struct PlacedLabel {
  PlotBox box;
  bool placed = false;     ///< false: there was no room even for the short one
  bool shortened = false;  ///< the box is for the short one
  bool leader = false;     ///< far enough from its point to need a line to it
  PlotLine line;           ///< from the point to the box
};

/// What labels are placed into.
struct LabelRoom {
  PlotBox frame;                    ///< labels stay inside
  std::span<const PlotBox> taken;   ///< no label covers these
  std::span<const PlotLine> lines;  ///< labels keep off these where they can
  double marker_radius = 0;         ///< of every point; no label covers a point
};

/// A place for each label: none overlaps another, a point or what is taken. Near its point where it can be.
/// Leaders keep off labels, but for those of shortened labels that have no other way.
[[nodiscard]] std::vector<PlacedLabel> place_labels(std::span<const PlotLabel> labels, const LabelRoom& room);

}  // namespace vkattn::bench

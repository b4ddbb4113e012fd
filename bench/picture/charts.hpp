// A picture of line charts that share their x axis, in a file or on a page.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "canvas.hpp"
#include "head.hpp"

namespace vkattn::picture {

struct Series {
  std::string name;              ///< series with one name in several charts are one entry of the legend
  std::vector<Position> points;  ///< x ascending, y from 0 upwards
  std::size_t color = 0;
  Look look = Look::kLine;
};

/// A horizontal line with its name at its right end.
struct Level {
  double value = 0;
  std::string name;
};

struct Chart {
  std::string title, note, y_axis;
  std::vector<Series> series;
  bool is_logarithmic = false;
  /// The top of an axis that is not logarithmic. A mark at the edge stands for a value above it, and the note
  /// counts those. With 0 the top is a round number above the values.
  double top = 0;
  std::vector<Level> levels;
};

struct ChartPage {
  std::string title, caption, x_axis;
  std::vector<Chart> charts;
  bool is_logarithmic =
      true;  ///< x axis: logarithmic with ticks where points are, otherwise from 0 to the last point
  double width = kPictureWidth, frame_height = 236;
  std::size_t across = 2;  ///< charts side by side
};

/// The bytes of the picture's file. Refuses a page without charts, or with fewer than two places on its x
/// axis.
[[nodiscard]] Result<std::string> draw_charts(const ChartPage& page, Format format);

/// One chart as elements of SVG for a page, which shows the numbers of points under the pointer. Empty if no
/// series has a point. It works without cairo.
[[nodiscard]] std::string draw_chart_for_page(const Chart& chart, const std::string& x_axis);

}  // namespace vkattn::picture

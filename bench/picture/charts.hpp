// A picture of line charts, which share their x axis: in a file, or on a page.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "canvas.hpp"
#include "head.hpp"

namespace vkattn::picture {

struct Series {
  std::string name;              ///< series of several charts with one name are one entry of the legend
  std::vector<Position> points;  ///< x ascending; y from 0 on
  std::size_t color = 0;
  Look look = Look::kLine;
};

/// A line across, with its name at its right end.
struct Level {
  double value = 0;
  std::string name;
};

struct Chart {
  std::string title, note, y_axis;
  std::vector<Series> series;
  bool is_logarithmic = false;
  /// Of an axis that is not logarithmic; a mark at the edge stands for what is above, and the note counts
  /// these. 0: a round number above the values.
  double top = 0;
  std::vector<Level> levels;
};

struct ChartPage {
  std::string title, caption, x_axis;
  std::vector<Chart> charts;
  bool is_logarithmic = true;  ///< the x axis: ticks where points are. Else from 0 to the last point
  double width = kPictureWidth, frame_height = 236;
  std::size_t across = 2;  ///< charts side by side
};

/// The bytes of the picture's file. Refuses a page without charts, or without two places on its x axis.
[[nodiscard]] Result<std::string> draw_charts(const ChartPage& page, Format format);

/// One chart as elements of SVG for a page, with the points' numbers under the pointer; empty where no series
/// has a point. Works without cairo.
[[nodiscard]] std::string draw_chart_for_page(const Chart& chart, const std::string& x_axis);

}  // namespace vkattn::picture

// Line charts as SVG, for pages.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace vkattn::cli {

struct Chart {
  struct Line {
    std::string name;
    std::vector<std::pair<double, double>> points;  ///< x > 0 in rising order, y >= 0
  };
  std::string title, x_label, y_label;
  std::vector<Line> lines;
};

/// An <svg> element: x doubles from mark to mark, y begins at 0. Empty where no line has a point.
[[nodiscard]] std::string draw_chart(const Chart& chart);

/// The text with what HTML and SVG would take for their own written out.
[[nodiscard]] std::string escaped(std::string_view text);

}  // namespace vkattn::cli

// A picture of charts side by side that share their x values, on a logarithmic axis.
#pragma once

#include <vkattn/result.hpp>

#include <cstddef>
#include <string>
#include <vector>

#include "plot_format.hpp"

namespace vkattn::bench {

struct ChartLine {
  std::string name;            ///< lines of several charts with one name are one entry of the legend
  std::vector<double> values;  ///< one for each x; from 0 on
  std::size_t color = 0;       ///< number of a series
  bool is_expected = false;    ///< a pale band beneath what was measured
};

struct Chart {
  std::string title, note;
  std::vector<ChartLine> lines;
  bool is_logarithmic = false;  ///< else from 0 to `top`
  double top = 0;               ///< 0: a round number above the values
};

struct ChartPage {
  std::string title, caption, x_axis;
  std::vector<double> x;  ///< ascending, above 0
  std::vector<Chart> charts;
};

/// The bytes of the picture's file. Refuses one without charts or with fewer than two x.
[[nodiscard]] Result<std::string> draw_charts(const ChartPage& page, PlotFormat format);

}  // namespace vkattn::bench

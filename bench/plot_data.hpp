// The contents of a report's picture: points, roofs and captions, as numbers and words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report.hpp"

namespace vkattn::bench {

/// One measured problem in the picture.
struct PlotPoint {
  std::size_t number = 0;  ///< counted from 1, in the order of the report
  std::string name;        ///< the name in the suite, or the problem string if problems were given
  std::string problem;     ///< the problem string of a suite's problem
  std::string kernel;
  std::size_t kernel_index = 0;  ///< index into PlotData::kernels
  double intensity = 0;          ///< floating-point operations for each byte
  double flops_per_second = 0;
  double median_ns = 0;
  double roof_share = 0;  ///< share of the lowest roof over this point
  std::string limit;      ///< the lowest roof: memory, cache, multiply-add or matrix; empty if unknown
};

/// A roof: a rate that the device was measured to reach.
struct PlotRoof {
  std::string name;
  double rate = 0;  ///< operations per second for a flat roof, bytes per second for a slope
};

struct PlotData {
  std::string title;                 ///< the device's name
  std::string caption;               ///< driver, date, version
  std::string note;                  ///< what is missing in the picture and why; may be empty
  std::vector<std::string> kernels;  ///< in order of appearance
  std::vector<PlotPoint> points;
  std::vector<PlotRoof> compute;  ///< descending rates
  std::vector<PlotRoof>
      memory;  ///< ascending rates: memory beyond every cache, then the caches that limit points
};

/// A measured row with a known number of operations and bytes becomes a point. The note counts the other
/// rows.
[[nodiscard]] PlotData plot_data(const Report& report);

}  // namespace vkattn::bench

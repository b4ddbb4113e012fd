// What the picture of a report shows: points, roofs and captions, as numbers and words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report.hpp"

namespace vkattn::bench {

/// One measured problem of the picture.
struct PlotPoint {
  std::size_t number = 0;  ///< from 1, in the order of the report
  std::string name;        ///< of the suite's entry; the problem string where problems were given
  std::string problem;     ///< the problem string of a suite's entry
  std::string kernel;
  std::size_t kernel_index = 0;  ///< into PlotData::kernels
  double intensity = 0;          ///< floating-point operations for each byte
  double flops_per_second = 0;
  double median_ns = 0;
  double roof_share = 0;  ///< of the lowest roof over this point
  std::string limit;      ///< which roof that is: memory, cache, multiply-add or matrix; empty: not known
};

/// A roof that the device was measured to reach.
struct PlotRoof {
  std::string name;
  double rate = 0;  ///< operations per second for a flat one, bytes per second for a slope
};

struct PlotData {
  std::string title;                 ///< the device
  std::string caption;               ///< driver, date, version
  std::string note;                  ///< what is not in the picture and why; may be empty
  std::vector<std::string> kernels;  ///< in order of appearance
  std::vector<PlotPoint> points;
  std::vector<PlotRoof> compute;  ///< descending rates
  std::vector<PlotRoof>
      memory;  ///< ascending: beyond every cache, then the caches that points are held against
};

/// Rows that were measured and have arithmetic and bytes become points; the others are counted in the note.
[[nodiscard]] PlotData plot_data(const Report& report);

}  // namespace vkattn::bench

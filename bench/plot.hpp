// The picture of a report: the rate of each problem over its arithmetic intensity, under the device's
// measured roofs (Williams, Waterman and Patterson, "Roofline", 2009), and a table of the problems below.
#pragma once

#include <vkattn/result.hpp>

#include <string>

#include "picture/canvas.hpp"
#include "plot_data.hpp"

namespace vkattn::bench {

/// Returns the bytes of the picture's file. Refuses data without points.
[[nodiscard]] Result<std::string> draw_plot(const PlotData& data, picture::Format format);

}  // namespace vkattn::bench

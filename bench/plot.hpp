// The picture of a report: each problem's rate over its arithmetic intensity, under the device's measured
// roofs (Williams, Waterman and Patterson, "Roofline", 2009), with a table of the problems beneath.
#pragma once

#include <vkattn/result.hpp>

#include <optional>
#include <string>
#include <string_view>

#include "plot_data.hpp"

namespace vkattn::bench {

enum class PlotFormat { kPng, kSvg };

/// By the ending of a file's name, case ignored; none for any other ending.
[[nodiscard]] std::optional<PlotFormat> plot_format(std::string_view file_name);

/// An error that says what to install, where this build cannot draw because cairo was not there.
[[nodiscard]] Result<void> check_plot_support();

/// The bytes of the picture's file. Refuses data without points.
[[nodiscard]] Result<std::string> draw_plot(const PlotData& data, PlotFormat format);

}  // namespace vkattn::bench

// What all pictures of the tool share, whatever they show: file formats and text.
#pragma once

#include <vkattn/result.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace vkattn::bench {

enum class PlotFormat { kPng, kSvg };

/// By the ending of a file's name, case ignored; none for any other ending.
[[nodiscard]] std::optional<PlotFormat> plot_format(std::string_view file_name);

/// An error that says what to install, where this build cannot draw because cairo was not there.
[[nodiscard]] Result<void> check_plot_support();

/// Text that can be drawn: no control characters, and bytes that are no UTF-8 (driver strings) are replaced.
[[nodiscard]] std::string drawable(const std::string& text);

}  // namespace vkattn::bench

// The report as a page.
#pragma once

#include <string>

#include "json.hpp"

namespace vkattn::cli {

/// An HTML page that needs no other file. `report` is that of make_report(), `roofline` an SVG picture or
/// empty.
[[nodiscard]] std::string report_page(const Json& report, const std::string& roofline);

}  // namespace vkattn::cli

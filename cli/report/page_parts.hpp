// Parts of a report's page. Each is empty where it would show nothing.
#pragma once

#include <string>

#include "json.hpp"

namespace vkattn::cli {

/// A cell of a table, with that class.
[[nodiscard]] std::string cell(const std::string& style, const std::string& text);
/// The class of cells that show a status.
[[nodiscard]] std::string status_style(const std::string& status);

/// A table of the steps of a section: names over kernels, with the reason of each refusal beneath.
[[nodiscard]] std::string kernel_table(const Json& report, const std::string& section);
/// Charts of the sweeps, and all times.
[[nodiscard]] std::string speed_part(const Json& report);
/// What the driver's compiler says of the pipelines.
[[nodiscard]] std::string statistics_part(const Json& report);

}  // namespace vkattn::cli

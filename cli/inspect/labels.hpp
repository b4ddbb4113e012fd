// What `vkattn inspect` calls the rows that it shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inspect/arguments.hpp"

namespace vkattn::cli {

/// The lines of a text, without what cannot be drawn.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

/// Rows that labels are for; `name` is what messages call them.
struct LabelledRows {
  std::string name;
  std::int64_t rows;
};

/// Those of --labels or --labels-file, one for each row of all that is given; empty where neither option was.
[[nodiscard]] std::vector<std::string> given_labels(const InspectArguments& arguments,
                                                    const std::vector<LabelledRows>& all);

}  // namespace vkattn::cli

// The labels of the rows that `vkattn inspect` shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inspect/arguments.hpp"

namespace vkattn::cli {

/// The lines of a text, without characters that cannot be drawn.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

/// Rows that need labels. Messages call them `name`.
struct LabelledRows {
  std::string name;
  std::int64_t rows;
};

/// The labels of --labels or --labels-file, one for each row in `all`. Empty if neither option was given.
[[nodiscard]] std::vector<std::string> given_labels(const InspectArguments& arguments,
                                                    const std::vector<LabelledRows>& all);

}  // namespace vkattn::cli

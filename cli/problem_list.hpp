// Problems from a command line: given as strings, or as the name of a suite.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench.hpp"
#include "suites.hpp"

namespace vkattn::cli {

/// The names of all suites, such as "smoke, llm", for messages.
[[nodiscard]] std::string suite_names();

/// The suite of that name. If there is none, a usage error that lists all.
[[nodiscard]] const bench::Suite& require_suite(const std::string& name);

/// The problems that the words name, or those of the suite. Giving both or neither is a usage error of
/// `command`.
[[nodiscard]] std::vector<bench::NamedProblem> read_problems(std::string_view command,
                                                             const std::vector<std::string>& words,
                                                             const std::string& suite);

}  // namespace vkattn::cli

// Problems from a command line: given as strings, or a suite by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench.hpp"
#include "suites.hpp"

namespace vkattn::cli {

/// "smoke, llm, …", for messages.
[[nodiscard]] std::string suite_names();

/// The suite of that name, or a usage error that lists them.
[[nodiscard]] const bench::Suite& require_suite(const std::string& name);

/// The problems that the words name, or those of the suite; a usage error of `command` where neither or both
/// are given.
[[nodiscard]] std::vector<bench::NamedProblem> read_problems(std::string_view command,
                                                             const std::vector<std::string>& words,
                                                             const std::string& suite);

}  // namespace vkattn::cli

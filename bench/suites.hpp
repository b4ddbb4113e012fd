// Named sets of problems: shapes of real models, as data.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace vkattn::bench {

struct SuiteProblem {
  std::string_view name;     ///< model and what it does there
  std::string_view problem;  ///< for parse_problem()
};

struct Suite {
  std::string_view name;
  std::string_view about;
  std::span<const SuiteProblem> problems;
};

[[nodiscard]] std::span<const Suite> suites();
/// Null where there is none of that name.
[[nodiscard]] const Suite* find_suite(std::string_view name);

}  // namespace vkattn::bench

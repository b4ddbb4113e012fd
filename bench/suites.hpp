// Named sets of problems with the shapes of real models, as data.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace vkattn::bench {

struct SuiteProblem {
  std::string_view name;     ///< the model, and what the problem does in it
  std::string_view problem;  ///< for parse_problem()
};

struct Suite {
  std::string_view name;
  std::string_view about;
  std::span<const SuiteProblem> problems;
};

[[nodiscard]] std::span<const Suite> suites();
/// Null if no suite has that name.
[[nodiscard]] const Suite* find_suite(std::string_view name);

}  // namespace vkattn::bench

// Problem strings in tests: see problem_text.hpp.
#include "support/problem_text.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace vkattn::tests {

using bench::parse_problem;

Problem parsed(std::string_view text) {
  Result<Problem> problem = parse_problem(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().message;
  return problem.ok() ? std::move(problem).value() : Problem{};
}

std::string error_of(std::string_view text) {
  const Result<Problem> problem = parse_problem(text);
  EXPECT_FALSE(problem.ok()) << text;
  return problem.ok() ? "" : problem.error().message;
}

}  // namespace vkattn::tests

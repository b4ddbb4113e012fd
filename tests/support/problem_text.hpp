// Problem strings in tests: what they say, or what is said against them.
#pragma once

#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::tests {

using bench::Problem;

/// An empty problem, and a failure of the test, where the text is none.
[[nodiscard]] Problem parsed(std::string_view text);
[[nodiscard]] inline AttentionDesc desc_of(std::string_view text) {
  return parsed(text).desc;
}
/// The message that refuses the text; empty, and a failure of the test, where it is a problem.
[[nodiscard]] std::string error_of(std::string_view text);

}  // namespace vkattn::tests

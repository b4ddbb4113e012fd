// Reads problem strings in tests: the problem, or the error.
#pragma once

#include <string>
#include <string_view>

#include "problem/problem.hpp"

namespace vkattn::tests {

using bench::Problem;

/// The problem. If the text is no problem string, the test fails and the problem is empty.
[[nodiscard]] Problem parsed(std::string_view text);
[[nodiscard]] inline AttentionDesc desc_of(std::string_view text) {
  return parsed(text).desc;
}
/// The message that refuses the text. If the text is a problem string, the test fails and the message is
/// empty.
[[nodiscard]] std::string error_of(std::string_view text);

}  // namespace vkattn::tests

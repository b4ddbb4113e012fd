// Results in tests: values that a test cannot go on without, and errors.
#pragma once

#include <vkattn/result.hpp>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/text.hpp"

namespace vkattn::tests {

inline void fail_at(const char* file, int line, const std::string& message) {
  GTEST_FAIL_AT(file, line) << message;
}

/// The value. If there is none, the test fails at the caller's line with the error's sentence, and ends.
template <class T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!result.ok()) {
    fail_at(file, line, result.error().message);
    // GoogleTest reports nothing more, because the failure was reported already.
    throw testing::AssertionException(
        testing::TestPartResult(testing::TestPartResult::kFatalFailure, file, line, ""));
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

/// The sentence that a call was refused with. Empty if the call succeeded.
template <class T>
[[nodiscard]] std::string message_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().message;
}

/// Checks that an error has the code, and that its message contains all words.
[[nodiscard]] inline testing::AssertionResult names(const Error& error, ErrorCode code,
                                                    const std::vector<std::string>& words) {
  if (error.code != code) {
    return testing::AssertionFailure()
           << "the code is " << static_cast<int>(error.code) << ": " << error.message;
  }
  for (const std::string& word : words) {
    if (const auto found = has(error.message, word); !found) return found;
  }
  return testing::AssertionSuccess();
}

/// Checks with names() that a call failed.
template <class T>
[[nodiscard]] testing::AssertionResult is_refused(const Result<T>& result, ErrorCode code,
                                                  const std::vector<std::string>& words) {
  if (result.ok()) return testing::AssertionFailure() << "nothing is refused";
  return names(result.error(), code, words);
}

}  // namespace vkattn::tests

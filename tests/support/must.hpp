// What a test cannot go on without.
#pragma once

#include <vkattn/result.hpp>

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

namespace vkattn::tests {

inline void fail_at(const char* file, int line, const std::string& message) {
  GTEST_FAIL_AT(file, line) << message;
}

/// The value. Where there is none the test fails in the caller's line with the error's sentence, and ends.
template <class T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!result.ok()) {
    fail_at(file, line, result.error().message);
    // It was reported already, so GoogleTest says no more of it.
    throw testing::AssertionException(
        testing::TestPartResult(testing::TestPartResult::kFatalFailure, file, line, ""));
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace vkattn::tests

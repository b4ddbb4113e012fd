// Values and errors of results, in one line.
#pragma once

#include <vkattn/result.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace vkattn::tests {

/// The message of an error; empty where there is none.
template <class T>
[[nodiscard]] std::string words_against(const Result<T>& result) {
  return result.ok() ? std::string() : result.error().message;
}

/// The value. Where there is none the test ends and fails, with the message behind what it is about.
template <class T>
[[nodiscard]] T value_of(Result<T> result, std::string_view about = "a value") {
  if (!result.ok()) throw std::runtime_error(std::string(about) + ": " + result.error().message);
  return *std::move(result);
}

}  // namespace vkattn::tests

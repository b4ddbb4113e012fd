// Ends a soak run if something fails.
#pragma once

#include <vkattn/result.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace vkattn::soak {

[[noreturn]] inline void fail(const std::string& what) {
  std::printf("FAILED: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
[[nodiscard]] T checked(Result<T> result, const std::string& what) {
  if (!result.ok()) fail(what + ": " + result.error().message);
  return *std::move(result);
}
inline void checked(const Result<void>& result, const std::string& what) {
  if (!result.ok()) fail(what + ": " + result.error().message);
}

}  // namespace vkattn::soak

// Shared by the files of this benchmark.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace vkattn {

extern const Runtime* runtime;  ///< the device of the whole benchmark; main() makes it

/// Ends the program with a sentence.
[[noreturn]] inline void give_up(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

/// The value of a result that the benchmark cannot run without.
/// @{
inline void must(const Result<void>& result) {
  if (!result) give_up(result.error().message);
}
template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().message);
  return *std::move(result);
}
/// @}

}  // namespace vkattn

// What the files of this benchmark share.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace vkattn {

extern const Runtime* runtime;  ///< the device that all of it runs on, made by main()

/// Ends the program with a sentence.
[[noreturn]] inline void give_up(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

/// The value of what a benchmark cannot go on without.
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

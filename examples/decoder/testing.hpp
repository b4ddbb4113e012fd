// What the tests of examples with models share.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdio>
#include <string>

namespace decoder {

inline int failures = 0;

// Counts and prints what does not hold.
inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

// True if the validation layer is installed.
inline bool has_validation() {
  vkattn::RuntimeOptions options;
  options.validation = true;
  return vkattn::Runtime::create(options).ok();
}

}  // namespace decoder

// Problems that fuzz targets plan for.
#pragma once

#include <string_view>

#include "fuzz/fuzz.hpp"
#include "problem/problem.hpp"

namespace vkattn::fuzz {

inline AttentionDesc problem(std::string_view text) {
  const auto parsed = bench::parse_problem(text);
  require(parsed.ok(), "the target's own problems can be read");
  return parsed->desc;
}

}  // namespace vkattn::fuzz

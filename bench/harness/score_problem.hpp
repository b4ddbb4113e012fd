// The score functions that problem strings name: their GLSL, their tables, and the same in C++ for the
// reference.
#pragma once

#include <vkattn/score_shaders.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "problem/problem.hpp"
#include "reference/reference.hpp"

namespace vkattn::harness {

using bench::Problem;

/// The members of ScoreFunctionDesc, and what it takes to run and check it.
struct ProblemScore {
  std::string source;  ///< empty: the problem has none
  std::string name;    ///< the word of the problem
  std::vector<ScoreBuffer> buffers;
  std::vector<std::vector<std::uint32_t>> tables;  ///< the bits of each element
  reference::ScoreHook hook;                       ///< in float64
};

/// The function of Problem::score, its tables drawn from the problem's seed.
[[nodiscard]] ProblemScore make_score(const Problem& problem);

}  // namespace vkattn::harness

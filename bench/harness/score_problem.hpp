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

/// The members of ScoreFunctionDesc.
struct ScoreText {
  std::string source;  ///< empty: the problem has none
  std::string name;    ///< the word of the problem
  std::vector<ScoreBuffer> buffers;
};

/// What it takes to run and check it, too.
struct ProblemScore : ScoreText {
  std::vector<std::vector<std::uint32_t>> tables;  ///< the bits of each element
  reference::ScoreHook hook;                       ///< in float64
};

/// The function of Problem::score without its tables, which may be large.
[[nodiscard]] ScoreText score_text(const Problem& problem);

/// The function of Problem::score, its tables drawn from the problem's seed.
[[nodiscard]] ProblemScore make_score(const Problem& problem);

}  // namespace vkattn::harness

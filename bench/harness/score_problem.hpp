// The score functions that problem strings name: their GLSL, their tables, and the equivalent C++ for the
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

/// The texts that ScoreFunctionDesc takes.
struct ScoreText {
  std::string source;  ///< empty if the problem has no score function
  std::string name;    ///< the word of the problem
  std::vector<ScoreBuffer> buffers;
};

/// Everything that is needed to run and check a score function.
struct ProblemScore : ScoreText {
  std::vector<std::vector<std::uint32_t>> tables;  ///< the bits of each element
  reference::ScoreHook hook;                       ///< in float64
};

/// The score function of Problem::score, without its tables, which may be large.
[[nodiscard]] ScoreText score_text(const Problem& problem);

/// The score function of Problem::score. Its tables are drawn from the problem's seed.
[[nodiscard]] ProblemScore make_score(const Problem& problem);

}  // namespace vkattn::harness

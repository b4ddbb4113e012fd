// Problems drawn from the whole space of descriptors.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::tests {

/// The problem string of a seed, always the same. Its arithmetic takes a CPU about a second at the most.
[[nodiscard]] std::string random_problem(std::uint64_t seed, bool with_score_functions);

}  // namespace vkattn::tests

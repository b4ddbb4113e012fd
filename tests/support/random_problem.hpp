// Draws problems from the whole space of descriptors.
#pragma once

#include <cstdint>
#include <string>

namespace vkattn::tests {

/// The problem string of a seed, always the same. Its arithmetic takes a CPU at most about a second. Another
/// `variant` is the same problem with somewhat shorter queries and keys, and with other lengths of batch
/// entries. It usually needs no other pipeline.
[[nodiscard]] std::string random_problem(std::uint64_t seed, bool with_score_functions,
                                         std::uint64_t variant = 0);

}  // namespace vkattn::tests

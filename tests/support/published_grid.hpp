// Problems that other projects publish as the parameters of their own tests, as problem strings.
#pragma once

#include <string>
#include <vector>

#include "support/grid.hpp"

namespace vkattn::tests {

/// Problems of one project with one pair of head dimensions.
struct PublishedGroup {
  std::string name;  ///< for the test's name
  std::vector<std::string> problems;
};

/// The part of all problems, counted in their order; groups without any are left out.
[[nodiscard]] std::vector<PublishedGroup> published_part(const std::vector<PublishedGroup>& groups,
                                                         const TestPart& part);

/// FlashAttention's lengths, causal lengths and caches; ggml's; PyTorch's. Thinned: so few that each two
/// values meet in one of them (some 500). Else the whole products (some 200000).
[[nodiscard]] std::vector<PublishedGroup> published_grid(bool thinned);

}  // namespace vkattn::tests

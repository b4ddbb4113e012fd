// Problems drawn from the whole space of descriptors, against the reference: VKATTN_RANDOM_CASES of them
// (500), from VKATTN_RANDOM_SEED (1) on. A failure names the problem, which repeats it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gpu/support.hpp"
#include "support/random_problem.hpp"

namespace vkattn::tests {
namespace {

using bench::parse_problem;

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  return std::strtoull(text, nullptr, 10);
}

class Random : public GpuTest {};

TEST_F(Random, ProblemsMatchTheReference) {
  const std::uint64_t count = number_from("VKATTN_RANDOM_CASES", 500);
  const std::uint64_t first = number_from("VKATTN_RANDOM_SEED", 1);
  std::uint64_t failures = 0, without_force = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const std::string text = random_problem(seed, can_compile_scores());
    const Result<Problem> problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << "seed " << seed << ": " << text << ": " << problem.error().message;
    const std::vector<std::string> kernels = accepting_kernels(problem.value().desc, capabilities());
    ASSERT_FALSE(kernels.empty()) << "seed " << seed << ": no kernel takes " << text;
    RunOptions options;
    options.kernel = kernels[seed % kernels.size()];
    if (seed % 5 == 0) options.kv_splits = 1 + seed % 4;
    // Before it runs: a driver that crashes leaves nothing else behind.
    std::printf("seed %llu, %s: %s\n", static_cast<unsigned long long>(seed), options.kernel.c_str(),
                text.c_str());
    std::fflush(stdout);
    const testing::AssertionResult right = runs_right(runtime(), problem.value(), options);
    if (is_without_force(right)) {
      ++without_force;
      continue;
    }
    EXPECT_TRUE(right) << "VKATTN_RANDOM_SEED=" << seed << " VKATTN_RANDOM_CASES=1";
    if (!right) ++failures;
  }
  EXPECT_LE(without_force, 1 + count / 100) << "problems whose comparison zeros would have passed";
}

}  // namespace
}  // namespace vkattn::tests

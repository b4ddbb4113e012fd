// Compares problems from the whole space of descriptors with the reference. VKATTN_RANDOM_CASES (500) is the
// number of seeds, from VKATTN_RANDOM_SEED (1) on. Each problem runs with VKATTN_RANDOM_DRAWS (3) sets of
// lengths. A third runs as if this device were a GPU of a family. A failure names the seed, which repeats it.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/gpu_family.hpp"
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

/// The family of a seed. Two thirds of the seeds have none: null.
const GpuFamily* drawn_family(std::uint64_t seed) {
  constexpr std::uint64_t kWithout = 2;  // seeds without a family for each seed with one
  const std::uint64_t drawn = std::mt19937_64(~seed)();
  if (drawn % (kWithout + 1) != 0) return nullptr;
  return &kGpuFamilies[drawn / (kWithout + 1) % std::size(kGpuFamilies)];
}

class Random : public GpuTest {
 protected:
  /// Runs a variant of a seed's problem. The seed draws the kernel among those that take the first variant.
  void run(std::uint64_t seed, std::uint64_t variant) {
    const std::string text = random_problem(seed, can_compile_scores(), variant);
    const Result<Problem> problem = parse_problem(text);
    ASSERT_TRUE(problem.ok()) << "seed " << seed << ": " << text << ": " << problem.error().message;
    const std::vector<std::string> kernels = accepting_kernels(problem.value().desc, capabilities());
    ASSERT_FALSE(kernels.empty()) << "seed " << seed << ": no kernel takes " << text;
    if (variant == 0) {
      kernel_ = kernels[seed % kernels.size()];
      is_float16_ = seed / kernels.size() % 2 == 0;
    }
    if (!std::ranges::count(kernels, kernel_)) return;
    RunOptions options;
    options.kernel = kernel_;
    if (seed % 5 == 0) options.kv_splits = 1 + seed % 4;
    // The same seeds decide on a form of matrix2.
    const bool in_lanes =
        kernel_ == "matrix2" && is_float16_ && reason_against_lanes(runtime(), problem->desc).empty();
    if (in_lanes) options.kernel = kRowsInLanes;
    const bool float16 = kernel_ == "tile" && is_float16_ && can_be_float16(*problem);
    if (float16) options.arithmetic_type = DataType::kFloat16;
    if (const GpuFamily* const family = drawn_family(seed); family != nullptr)
      run_as(*family, options, runtime(), problem->desc);
    const std::string where = options.family.empty() ? "" : " as on " + std::string(options.family);
    // Prints before the run, because a driver that crashes leaves no other trace.
    std::printf("seed %llu, %s%s%s: %s\n", static_cast<unsigned long long>(seed), options.kernel.c_str(),
                float16 ? " in float16" : "", where.c_str(), text.c_str());
    std::fflush(stdout);
    ++runs_;
    const testing::AssertionResult right = runs_right(runtime(), problem.value(), options);
    if (is_without_force(right)) {
      without_force_.insert(seed);
      return;
    }
    EXPECT_TRUE(right) << "VKATTN_RANDOM_SEED=" << seed
                       << " VKATTN_RANDOM_CASES=1 VKATTN_RANDOM_DRAWS=" << variant + 1;
    if (!right) ++failures_;
  }

  static bool can_be_float16(const Problem& problem) {
    const AttentionDesc& desc = problem.desc;
    const auto is_float16 = [](const TensorDesc& tensor) { return tensor.type == DataType::kFloat16; };
    return capabilities().shader_float16 && is_float16(desc.query) && is_float16(desc.key) &&
           is_float16(desc.value);
  }

  std::string kernel_;
  bool is_float16_ = false;  ///< uses float16 arithmetic if tile takes the problem in it
  std::uint64_t runs_ = 0, failures_ = 0;
  std::set<std::uint64_t> without_force_;  ///< seeds of results that zeros would have passed
};

TEST_F(Random, ProblemsMatchTheReference) {
  // A pipeline takes a CPU one to ten seconds, another problem on it milliseconds.
  const std::uint64_t draws = number_from("VKATTN_RANDOM_DRAWS", 3);
  const std::uint64_t count = number_from("VKATTN_RANDOM_CASES", 500);
  const std::uint64_t first = number_from("VKATTN_RANDOM_SEED", 1);
  for (std::uint64_t seed = first; seed < first + count && failures_ < 5; ++seed) {
    for (std::uint64_t variant = 0; variant < draws; ++variant) run(seed, variant);
    if (HasFatalFailure()) return;
  }
  EXPECT_GE(runs_, count * (draws + 1) / 2) << "kernels that take a problem take it with other lengths";
  EXPECT_LE(without_force_.size(), 1 + count / 100)
      << "problems whose comparison zeros would have passed: " << testing::PrintToString(without_force_);
}

}  // namespace
}  // namespace vkattn::tests

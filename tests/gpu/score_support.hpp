// What the tests of score functions share: functions in GLSL, and the same in C++ for the reference.
#pragma once

#include <vkattn/score_function.hpp>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gpu/any_kernel.hpp"

namespace vkattn::tests {

inline constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// A score in the reference: what the GLSL of a case does. -inf hides the key.
using Score = std::function<double(double s, const reference::RowIndex& row, std::int64_t key)>;

[[nodiscard]] ScoreSetup setup(const char* source, std::vector<ScoreBuffer> buffers,
                               std::vector<std::vector<std::uint32_t>> tables, const Score& score);

/// The words of a table.
[[nodiscard]] std::vector<std::uint32_t> bits(const std::vector<float>& values);

/// A prefix of 20 or 7 tokens that all see, by batch entry.
[[nodiscard]] ScoreSetup prefix();

/// Documents of 3, 30 and 40 tokens and a last one of what is left.
[[nodiscard]] std::int64_t document(std::int64_t token);
[[nodiscard]] ScoreSetup documents();

/// A bias for each head and for each distance up to 8.
[[nodiscard]] ScoreSetup relative_bias();

/// Both functions, and rows that see nothing. Every part of the position counts.
[[nodiscard]] ScoreSetup both();

class ScoreFunctions : public AnyKernelTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (std::string reason = AnyKernelTest::reason_to_skip(); !reason.empty()) return reason;
    const auto plan = make_plan(runtime(), parsed(typed("9x20 d16")).desc, options(prefix()));
    return !plan.ok() && is_compiler_too_old(plan.error()) ? plan.error().message : "";
  }
  static RunOptions options(ScoreSetup score) { return {.kernel = kernel(), .score = std::move(score)}; }
};

}  // namespace vkattn::tests

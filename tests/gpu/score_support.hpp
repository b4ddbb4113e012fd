// Shared by the tests of score functions: functions in GLSL, and equal functions in C++ for the reference.
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

/// A score in the reference that equals the GLSL of a case. -inf hides the key.
using Score = std::function<double(double s, const reference::RowIndex& row, std::int64_t key)>;

[[nodiscard]] ScoreSetup setup(const char* source, std::vector<ScoreBuffer> buffers,
                               std::vector<std::vector<std::uint32_t>> tables, const Score& score);

/// The bits of the numbers as the words of a table.
[[nodiscard]] std::vector<std::uint32_t> bits(const std::vector<float>& values);

/// A prefix of 20 or 7 tokens, by batch entry, that all queries see.
[[nodiscard]] ScoreSetup prefix();

/// The document of a token. Documents have 3, 30 and 40 tokens, and the last one has the rest.
[[nodiscard]] std::int64_t document(std::int64_t token);
[[nodiscard]] ScoreSetup documents();

/// A bias for each head and each distance up to 8.
[[nodiscard]] ScoreSetup relative_bias();

/// Prefix and documents together, and rows that see nothing. It uses every part of the position.
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

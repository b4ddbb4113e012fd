// Every two features in one problem: a covering set over all of them, on every kernel that takes them.
// feature_test.cpp has features alone and in combinations chosen by hand.
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/support.hpp"
#include "support/pairwise.hpp"

namespace vkattn::tests {
namespace {

/// What a row has a value of. Storage comes with the head dims.
enum Factor : std::size_t {
  kStorage,
  kOutput,
  kLayout,
  kPosition,
  kAlibi,
  kSoftcap,
  kMask,
  kLengths,
  kMapping,
  kSinks,
  kDropout,
  kWeights,
  kLse,
  kParts,
  kFactorCount,
};

using Words = std::vector<std::string_view>;

/// Keys in so many parts.
constexpr std::string_view kThreeParts = "parts=3";
constexpr std::size_t kSequences = 4;  ///< of kLengths: queries and keys packed

/// A, B, F and S stand for numbers of the query length's size: see with_numbers().
const std::array<Words, kFactorCount> kWords{
    Words{"d20 dv12 f32", "d20 dv12 f16", "d20 dv12 bf16", "d32 dv64 f16 cache=q8_0", "d32 f32 cache=q4_0",
          "d20 dv12 bf16 cache=e4m3"},
    Words{"", "output=f32", "output=f16", "output=bf16"},
    Words{"", "layout=bshd"},
    Words{"", "causal align=bottom-right", "window=16,0 align=bottom-right", "window=-1,9 align=S",
          "window=40,20 causal align=S", "window=30,-1"},
    Words{"", "alibi", "alibi=given"},
    Words{"", "softcap=4"},
    Words{"", "mask=f32:bhqk", "mask=f16:hqk", "mask=bytes:bqk", "mask=bits:bhk",
          "mask=bits:bhqk hidden=0.8 block=32", "mask=f32:hq"},
    Words{"", "kv_lengths=129,40", "query_lengths=A,F", "query_lengths=F,B kv_lengths=77,129",
          "sequences query_lengths=A,F kv_lengths=120,129",
          "sequences=queries query_lengths=A,F kv_lengths=120,129"},
    Words{"", "ring=100", "page=16", "page=7"},
    Words{"", "sinks"},
    Words{"", "dropout=0.3 dropout_seed=9"},
    Words{"", "weights=scores", "weights=softcap", "weights=masked", "weights=probabilities"},
    Words{"", "lse"},
    Words{"", kThreeParts},
};
/// What kernels on matrix units take.
const Words kMatrixStorage{"d24 dv16 f16", "d32 dv64 f16 cache=q8_0", "d64 dv32 f16 key=q4_0",
                           "d20 dv12 f16 cache=e4m3"};

std::vector<std::size_t> sizes_of(const Words& storage) {
  std::vector<std::size_t> sizes;
  for (const Words& words : kWords) sizes.push_back(words.size());
  sizes[kStorage] = storage.size();
  return sizes;
}

/// Rows in which every two values meet; with this seed they are few. Packed keys in a cache are refused:
/// such a row becomes two, one without the cache and one without the sequences.
std::vector<FactorRow> rows_of_pairs(const Words& storage) {
  std::vector<FactorRow> rows;
  for (const FactorRow& row : pairwise_rows(sizes_of(storage), 1981)) {
    rows.push_back(row);
    if (row[kLengths] != kSequences || row[kMapping] == 0) continue;
    rows.back()[kMapping] = 0;
    rows.push_back(row);
    rows.back()[kLengths] = 0;
  }
  return rows;
}

/// decode takes few rows, the others enough for several tiles.
std::string with_numbers(std::string_view words, bool few_rows) {
  std::string text;
  for (const char c : words) {
    const bool is_number = !text.empty() && (text.back() == '=' || text.back() == ',');
    if (is_number && c == 'A') {
      text += few_rows ? "2" : "45";
    } else if (is_number && c == 'B') {
      text += few_rows ? "1" : "33";
    } else if (is_number && c == 'F') {
      text += few_rows ? "3" : "70";  // all queries
    } else if (is_number && c == 'S') {
      text += few_rows ? "60" : "30";  // among the keys
    } else {
      text += c;
    }
  }
  return text;
}

struct PairProblem {
  std::string text;
  std::uint32_t kv_splits = 0;
};

std::vector<PairProblem> problems_of_pairs(const Words& storage, bool few_rows) {
  std::vector<PairProblem> problems;
  for (const FactorRow& row : rows_of_pairs(storage)) {
    PairProblem problem;
    problem.text = few_rows ? "3x129" : "70x129";
    problem.text += " b2 hq4 hkv2 ";
    problem.text += storage[row[kStorage]];
    for (std::size_t factor = kStorage + 1; factor < kFactorCount; ++factor) {
      const std::string_view words = kWords[factor][row[factor]];
      if (words == kThreeParts) {
        problem.kv_splits = 3;
      } else if (!words.empty()) {
        problem.text += " ";
        problem.text += with_numbers(words, few_rows);
      }
    }
    problem.text += " seed=" + std::to_string(problems.size() + 2);
    problems.push_back(problem);
  }
  return problems;
}

class FeaturePairs : public KernelTest {};
class MatrixFeaturePairs : public MatrixKernelTest {};

TEST(FeaturePairsSet, HasEveryPairButThoseRefused) {
  for (const Words& storage : {kWords[kStorage], kMatrixStorage}) {
    PairCoverage coverage(sizes_of(storage));
    for (const FactorRow& row : rows_of_pairs(storage)) coverage.cover(row);
    const std::size_t refused = kWords[kMapping].size() - 1;
    EXPECT_EQ(coverage.open_pairs(kLengths, kMapping), refused);
    EXPECT_EQ(coverage.open_pairs(), refused);
    for (const bool few_rows : {false, true}) {
      const std::vector<PairProblem> problems = problems_of_pairs(storage, few_rows);
      EXPECT_LE(problems.size(), 60U);
      for (const PairProblem& problem : problems) EXPECT_EQ(parsed(problem.text).desc.batch, 2);
    }
  }
  for (std::size_t mapping = 1; mapping < kWords[kMapping].size(); ++mapping) {
    std::string text = "b2 70x129 d20 ";
    text.append(with_numbers(kWords[kLengths][kSequences], false))
        .append(" ")
        .append(kWords[kMapping][mapping]);
    EXPECT_NE(error_of(text), "");
  }
}

TEST_P(FeaturePairs, MatchTheReference) {
  RunOptions options;
  options.kernel = kernel();
  const std::vector<PairProblem> problems = problems_of_pairs(kWords[kStorage], kernel() == "decode");
  for (const PairProblem& problem : part_of(std::span(problems))) {
    options.kv_splits = problem.kv_splits;
    EXPECT_TRUE(runs_right(runtime(), problem.text, options)) << "parts of the keys: " << problem.kv_splits;
  }
}

TEST_P(MatrixFeaturePairs, MatchTheReference) {
  RunOptions options;
  options.kernel = kernel();
  const std::vector<PairProblem> problems = problems_of_pairs(kMatrixStorage, false);
  for (const PairProblem& problem : part_of(std::span(problems))) {
    // As where keys in a cache cannot be addressed as a tensor, and for matrix2 where they are quantised.
    if (!reason_against(runtime(), kernel(), problem.text).empty()) continue;
    if (kernel() != "matrix") options.kv_splits = problem.kv_splits;  // matrix has all keys in one part
    EXPECT_TRUE(runs_right(runtime(), problem.text, options)) << "parts of the keys: " << options.kv_splits;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, FeaturePairs, testing::ValuesIn(kKernelNames), kernel_test_name);
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixFeaturePairs, testing::ValuesIn(kMatrixKernelNames), kernel_test_name);

}  // namespace
}  // namespace vkattn::tests

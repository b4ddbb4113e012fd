// Covering sets, on every kernel that takes them: every two values of anything that changes the pipeline meet
// in one problem. One set is for shader forms without features, one for forms with features. A row of a set
// is a pipeline, which costs a CPU driver about a second. A problem costs milliseconds. So each row has
// several problems with their own sizes, memory and data. Every third pipeline has the form for a GPU of a
// family, as if this device were one. random_test.cpp draws from the whole space.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/gpu_family.hpp"
#include "gpu/support.hpp"
#include "support/pairwise.hpp"

namespace vkattn::tests {
namespace {

using Words = std::vector<std::string_view>;

/// The factors of a row. If a set does not vary a factor, the set has one value for it. Each value is words
/// of a problem, in which '*' stands for a length for each batch entry, '?' for an alignment of positions and
/// '@' for the heads of a mask.
enum Factor : std::size_t {
  kStorage,  ///< types and head dims
  kOutput,
  kAligned,
  kQueries,  ///< whether the query length is one of the few or the many of kQueryLengths
  kKeys,
  kPosition,
  kLse,
  kParts,
  kLengths,
  kAlibi,
  kSoftcap,
  kMask,
  kMapping,
  kSinks,
  kDropout,
  kWeights,
  kDevice,  ///< the device as it is, or as if it had no 16-bit storage
  kFactorCount,
};
using Set = std::array<Words, kFactorCount>;

constexpr std::string_view kThreeParts = "parts=3";
// Values in kFeatures.
constexpr std::size_t kSequences = 4;        ///< of kLengths: queries and keys packed
constexpr std::size_t kSlopesTimesMask = 3;  ///< of kAlibi: they need a mask that is additive

const Words kNone{""};
const Words kDevices{"", "in words"};
const Words kAlignments{"aligned=16", "aligned=0"};
const Words kFewOrMany{"few", "many"}, kThreeClasses{"few", "some", "many"};

/// The set without features. storages_of() joins dims and types.
const Words kDims{"d1",  "d3",   "d8",   "d31",        "d40",  "d64",        "d71",
                  "d80", "d111", "d128", "d192 dv128", "d255", "d576 dv512", "d33 dv575"};
const Set kPlain{
    kDims,
    {"f32", "f16", "bf16", "query=f16 key=bf16 value=f32 output=f16",
     "query=f32 key=f16 value=bf16 output=bf16", "query=bf16 key=f32 value=f16 output=f32", "f16 output=f32"},
    kAlignments,
    kFewOrMany,
    kThreeClasses,
    {"", "causal align=?", "causal align=bottom-right"},
    {"", "lse"},
    {"", kThreeParts},
    {"", "kv_lengths=*"},
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    kNone,
    kDevices};

const Set kFeatures{
    Words{"d19 dv11 f32", "d35 dv67 f16", "d40 bf16", "d32 dv64 f16 cache=q8_0", "d96 f32 cache=q4_0",
          "d20 dv12 bf16 cache=e4m3", "d31 dv64 f32 value=q8_0", "d64 dv33 f16 key=q4_0"},
    {"", "output=f32", "output=f16", "output=bf16"},
    kAlignments,
    kFewOrMany,
    kFewOrMany,
    {"", "causal align=bottom-right", "window=16,0 align=bottom-right", "window=-1,9 align=?",
     "window=40,20 causal align=?", "window=30,-1"},
    {"", "lse"},
    {"", kThreeParts},
    {"", "kv_lengths=*", "query_lengths=*", "query_lengths=* kv_lengths=*",
     "sequences query_lengths=* kv_lengths=*", "sequences=queries query_lengths=* kv_lengths=*"},
    {"", "alibi", "alibi=given", "alibi=times-mask"},
    {"", "softcap=4"},
    {"", "mask=f32:bhqk", "mask=f16:h@qk", "mask=bytes:bqk", "mask=bits:bhk",
     "mask=bits:bhqk hidden=0.8 block=32", "mask=f32:hq"},
    {"", "ring=100", "page=16", "page=7"},
    {"", "sinks"},
    {"", "dropout=0.3"},
    {"", "weights=scores", "weights=softcap", "weights=masked", "weights=probabilities"},
    kDevices};

/// Reduces a set to what kernels on matrix units take.
Set on_matrices(Set set) {
  set[kDevice] = kNone;  // these kernels need 16-bit storage
  if (set[kMask].size() == 1) {
    set[kOutput] = {"f16", "f16 output=f32", "f16 output=bf16"};
  } else {
    set[kStorage] = {"d24 dv16 f16", "d32 dv64 f16 cache=q8_0", "d64 dv32 f16 key=q4_0",
                     "d20 dv12 f16 cache=e4m3"};
  }
  return set;
}

/// Reduces a set to what float16 arithmetic takes.
Set in_float16(const Set& set) {
  Set all = on_matrices(set);
  if (set[kMask].size() > 1) all[kStorage] = {"d24 dv16 f16", "d35 dv67 f16", "d64 dv20 f16"};
  return all;
}

/// Whether a row's slopes multiply a mask that is not there, or not additive.
bool lacks_numbers(const Set& set, const FactorRow& row) {
  const std::string_view mask = set[kMask][row[kMask]];
  return row[kAlibi] == kSlopesTimesMask && !mask.starts_with("mask=f");
}

/// Rows in which every two values meet. Packed keys in a cache are refused, and so are slopes that multiply
/// another mask than an additive one. Such a row becomes two, each without one of the two values.
std::vector<FactorRow> rows_of(const Set& set) {
  std::vector<std::size_t> sizes;
  for (const Words& words : set) sizes.push_back(words.size());
  std::vector<FactorRow> rows = pairwise_rows(sizes, 1981);
  const auto split = [&](std::size_t i, Factor one, std::size_t one_value, Factor other,
                         std::size_t other_value) {
    FactorRow second = rows[i];
    rows[i][one] = one_value;
    second[other] = other_value;
    rows.push_back(second);
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {  // the split rows too
    if (rows[i][kLengths] == kSequences && rows[i][kMapping] != 0) split(i, kMapping, 0, kLengths, 0);
    if (lacks_numbers(set, rows[i])) split(i, kMask, 1, kAlibi, 0);
  }
  return rows;
}

/// Lengths around the edges of tiles.
const std::array<std::vector<std::int64_t>, 2> kQueryLengths{{{1, 2, 5, 8, 9}, {31, 33, 64, 65, 129, 203}}};
const std::array<std::vector<std::int64_t>, 3> kKeyLengths{
    {{0, 1, 7, 9, 31}, {32, 33, 63, 64, 65, 113, 127}, {128, 129, 255, 256, 257, 600}}};

struct PairProblem {
  std::string text;
  std::uint32_t kv_splits = 0;
  bool in_words = false;  ///< as if without 16-bit storage
};

constexpr std::uint64_t kProblemsPerRow = 4;

/// Draws what a row leaves open. The row's seed decides everything that changes the pipeline, so that the
/// problems of a row share one.
class PairDraw {
 public:
  PairDraw(const Set& set, const FactorRow& row, bool few_rows, std::uint64_t row_seed, std::uint64_t seed)
      : random_(seed), seed_(seed) {
    for (std::size_t factor = 0; factor < kFactorCount; ++factor) words_[factor] = set[factor][row[factor]];
    const bool three_classes = set[kKeys].size() == kKeyLengths.size();
    query_length_ = one_of(kQueryLengths[row[kQueries]]);
    kv_length_ = one_of(kKeyLengths[row[kKeys] + (three_classes || row[kKeys] == 0 ? 0 : 1)]);
    draw_heads(few_rows, row_seed);
    draw_memory(row_seed);
  }

  PairProblem problem() {
    PairProblem problem;
    problem.text = "b" + std::to_string(batch_) + " hq" + std::to_string(query_heads_) + " hkv" +
                   std::to_string(kv_heads_) + " " + std::to_string(query_length_) + "x" +
                   std::to_string(kv_length_);
    for (std::size_t factor = 0; factor < kFactorCount; ++factor) {
      if (words_[factor] == kThreeParts) {
        problem.kv_splits = 3;
      } else if (factor == kDevice) {
        problem.in_words = !words_[factor].empty();
      } else if (factor != kQueries && factor != kKeys) {
        add(problem.text, with_numbers(words_[factor]));
      }
    }
    add(problem.text, memory_);
    add_data(problem.text);
    if (!words_[kDropout].empty()) add(problem.text, "dropout_seed=" + std::to_string(below(1000)));
    add(problem.text, "seed=" + std::to_string(seed_));
    return problem;
  }

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  template <class T>
  T one_of(const std::vector<T>& values) {
    return values[below(values.size())];
  }
  static void add(std::string& text, std::string_view words) {
    if (!words.empty()) text.append(" ").append(words);
  }
  /// Whether the name of a type begins with `begin`, after a space or an equals sign.
  [[nodiscard]] bool stores(std::string_view begin) const {
    const std::string types = " " + std::string(words_[kStorage]) + " " + std::string(words_[kOutput]);
    return types.find(" " + std::string(begin)) != std::string::npos ||
           types.find("=" + std::string(begin)) != std::string::npos;
  }
  [[nodiscard]] bool has_blocks() const { return stores("q8_0") || stores("q4_0"); }

  /// Draws the heads. It takes fewer if a problem would take a CPU long. decode holds 16 rows of one KV head.
  void draw_heads(bool few_rows, std::uint64_t row_seed) {
    struct Heads {
      std::int64_t query, kv;
    };
    constexpr std::array<Heads, 6> kHeads{{{1, 1}, {3, 3}, {4, 1}, {8, 2}, {5, 1}, {6, 2}}};
    const Heads heads = kHeads[row_seed / kProblemsPerRow % kHeads.size()];
    batch_ = 1 + static_cast<std::int64_t>(below(3));
    query_heads_ = heads.query;
    kv_heads_ = heads.kv;
    const std::int64_t most = 16 / (heads.query / heads.kv);
    if (few_rows) query_length_ = (query_length_ - 1) % most + 1;
    const AttentionDesc dims = parsed("1x1 " + std::string(words_[kStorage])).desc;
    const auto is_too_much = [&] {
      return batch_ * query_heads_ * query_length_ * kv_length_ * (dims.head_dim + dims.value_dim) >
             20'000'000;
    };
    while (is_too_much() && batch_ > 1) --batch_;
    if (is_too_much()) query_heads_ = kv_heads_ = 1;
  }

  /// Lengths from a list: all, none, half and so on.
  std::string lengths(std::int64_t most) {
    const std::array<std::int64_t, 5> values{most, 0, most / 2, std::min<std::int64_t>(most, 1),
                                             std::max<std::int64_t>(most - 1, 0)};
    const std::uint64_t first = below(values.size());
    std::string text;
    for (std::int64_t b = 0; b < batch_; ++b) {
      const std::int64_t length = values[(first + static_cast<std::uint64_t>(b)) % values.size()];
      text += (b == 0 ? "" : ",") + std::to_string(length);
    }
    return text;
  }

  std::string with_numbers(std::string_view words) {
    std::string text;
    for (const char c : words) {
      if (c == '*') {
        text += lengths(text.ends_with("query_lengths=") ? query_length_ : kv_length_);
      } else if (c == '?') {
        text += std::to_string(one_of<std::int64_t>({-5, 7, kv_length_ / 2, 100}));
      } else if (c == '@') {
        text += std::to_string(query_heads_ % 2 == 0 ? query_heads_ / 2 : query_heads_);
      } else {
        text += c;
      }
    }
    return text;
  }

  /// Draws free elements after rows and before tensors. Multiples of 8 allow loads of 16 bytes. They change
  /// the pipeline, so all problems of a row have the same ones.
  void draw_memory(std::uint64_t row_seed) {
    std::mt19937_64 random(row_seed);
    const auto one = [&](const std::vector<std::string_view>& values) {
      return values[random() % values.size()];
    };
    memory_ = one({"", "", "layout=bshd"});
    if (has_blocks()) return;
    add(memory_, one({"", "pad=8", "pad=3", "pad=1"}));
    if (stores("e4m3")) return;
    const bool is_aligned = words_[kAligned] == kAlignments[0];
    add(memory_, is_aligned ? one({"", "shift=8"}) : one({"", "shift=1", "shift=2", "shift=5", "shift=8"}));
  }

  /// Steep scores leave float32 too little to compare. Tiny numbers are subnormal in smaller types.
  void add_data(std::string& text) {
    const std::string_view scale =
        below(4) == 0 ? one_of<std::string_view>({"scale=-0.2", "scale=0.01", "scale=3"}) : "";
    const std::string_view data =
        below(4) == 0 ? one_of<std::string_view>({"data=uniform", "data=dominant", "data=equal"}) : "";
    const bool is_steep = scale == "scale=3" || data == "data=dominant";
    const bool may_be_tiny =
        !stores("f16") && !stores("q8_0") && !stores("q4_0") && !stores("e4m3") && !is_steep;
    add(text, scale);
    add(text, data);
    if (below(4) != 0) return;
    add(text, is_steep      ? one_of<std::string_view>({"", "magnitude=0.1"})
              : may_be_tiny ? one_of<std::string_view>({"magnitude=1e-06", "magnitude=10", "magnitude=1000"})
                            : one_of<std::string_view>({"magnitude=0.001", "magnitude=10"}));
  }

  std::mt19937_64 random_;
  std::uint64_t seed_;
  std::array<std::string_view, kFactorCount> words_;
  std::string memory_;
  std::int64_t batch_ = 1, query_heads_ = 1, kv_heads_ = 1, query_length_ = 1, kv_length_ = 1;
};

std::vector<PairProblem> problems_of(const Set& set, bool few_rows) {
  std::vector<PairProblem> problems;
  const std::vector<FactorRow> rows = rows_of(set);
  for (const FactorRow& row : rows) {
    for (std::uint64_t i = 0; i < kProblemsPerRow; ++i) {
      problems.push_back(PairDraw(set, row, few_rows, problems.size() - i, problems.size() + 1).problem());
    }
  }
  return problems;
}

TEST(PairSets, HaveEveryPairButThoseRefused) {
  for (const Set& set : {kPlain, kFeatures, on_matrices(kPlain), on_matrices(kFeatures)}) {
    std::vector<std::size_t> sizes;
    for (const Words& words : set) sizes.push_back(words.size());
    PairCoverage coverage(sizes);
    for (const FactorRow& row : rows_of(set)) coverage.cover(row);
    EXPECT_EQ(coverage.open_pairs(kLengths, kMapping), set[kMapping].size() - 1);
    const auto of_no_numbers = static_cast<std::size_t>(
        std::ranges::count_if(set[kMask], [](std::string_view mask) { return !mask.starts_with("mask=f"); }));
    const std::size_t of_slopes = set[kAlibi].size() > kSlopesTimesMask ? of_no_numbers : 0;
    EXPECT_EQ(coverage.open_pairs(kAlibi, kMask), of_slopes);
    EXPECT_EQ(coverage.open_pairs(), set[kMapping].size() - 1 + of_slopes);
    for (const bool few_rows : {false, true}) {
      const std::vector<PairProblem> problems = problems_of(set, few_rows);
      EXPECT_LE(problems.size(), 110 * kProblemsPerRow);
      for (const PairProblem& problem : problems) {
        const Result<void> valid = validate(parsed(problem.text).desc);
        EXPECT_TRUE(valid.ok()) << problem.text << ": " << valid.error().message;
      }
    }
  }
  for (std::size_t mapping = 1; mapping < kFeatures[kMapping].size(); ++mapping) {
    EXPECT_NE(error_of("b2 70x129 d20 sequences query_lengths=9,3 kv_lengths=7,129 " +
                       std::string(kFeatures[kMapping][mapping])),
              "");
  }
}

class Pairs : public KernelTest {
 protected:
  /// Runs the wanted part of a set's rows.
  static void run(const Set& set, DataType arithmetic_type = DataType::kFloat32) {
    const std::vector<PairProblem> problems = problems_of(set, kernel() == "decode");
    std::vector<std::size_t> rows;
    for (std::size_t first = 0; first < problems.size(); first += kProblemsPerRow) rows.push_back(first);
    std::size_t without_force = 0, number = 0;
    double largest_share = 0;
    FamilyTurns turns;
    for (const std::size_t first : part_of(std::span<const std::size_t>(rows))) {
      const GpuFamily* family = nullptr;
      for (std::size_t i = first; i < first + kProblemsPerRow; ++i) {
        RunOptions options{.kernel = kernel(),
                           .kv_splits = problems[i].kv_splits,
                           .arithmetic_type = arithmetic_type,
                           .largest_share = &largest_share};
        if (problems[i].in_words) {
          options.device = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
        }
        const AttentionDesc desc = parsed(problems[i].text).desc;
        if (i == first) family = turns.next(options, runtime(), desc);
        if (family != nullptr) run_as(*family, options, runtime(), desc);
        const testing::AssertionResult right = runs_right(runtime(), problems[i].text, options);
        ++number;
        if (is_without_force(right)) {
          ++without_force;
          std::printf("without force: %s\n", problems[i].text.c_str());
        } else {
          EXPECT_TRUE(right) << "parts of the keys: " << options.kv_splits;
        }
      }
    }
    EXPECT_GT(number, 0U);
    std::printf("%zu problems, at most %.2f of the tolerance; %zu pipelines as on GPUs of families\n", number,
                largest_share, turns.taken());
    turns.expect_some();
    // A 25th of a whole set, or a twelfth with the wide tolerance of float16 arithmetic. A part of a set has
    // few problems, of which two may be without force by chance, or with the wide tolerance one row's: they
    // share what flattens their scores.
    const bool is_float16 = arithmetic_type == DataType::kFloat16;
    const std::size_t by_chance = is_float16 ? kProblemsPerRow : 2, share = is_float16 ? 12 : 25;
    EXPECT_LE(without_force, by_chance + number / share)
        << "problems whose comparison zeros would have passed";
    // Vulkan lets devices truncate, so that all rounding errors add up in one direction.
    if (is_float16 && capabilities().rounds_float16_to_nearest) {
      EXPECT_LT(largest_share, 0.8) << "the tolerance of float16 arithmetic has a margin";
    }
  }
};
class MatrixPairs : public Pairs {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override { return reason_against_kernel(); }
};

class Float16Pairs : public Pairs {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    return capabilities().shader_float16 ? "" : "the device has no shaderFloat16";
  }
};

TEST_P(Pairs, OfPlainKernels) {
  run(kPlain);
}
TEST_P(Pairs, OfFeatures) {
  run(kFeatures);
}
TEST_P(MatrixPairs, OfPlainKernels) {
  run(on_matrices(kPlain));
}
TEST_P(MatrixPairs, OfFeatures) {
  Set set = on_matrices(kFeatures);
  // matrix2 takes no blocks with scales of their own.
  if (kernel().starts_with("matrix2")) {
    set[kStorage] = {"d24 dv16 f16", "d64 dv36 f16 cache=e4m3", "d33 dv64 f16 key=e4m3",
                     "d20 dv17 f16 value=e4m3"};
  }
  run(set);
}

TEST_P(Float16Pairs, OfPlainKernels) {
  run(in_float16(kPlain), DataType::kFloat16);
}
TEST_P(Float16Pairs, OfFeatures) {
  run(in_float16(kFeatures), DataType::kFloat16);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Float16Pairs, testing::Values("tile"), kernel_test_name);
INSTANTIATE_TEST_SUITE_P(Kernels, Pairs, testing::ValuesIn(kKernelNames), kernel_test_name);
INSTANTIATE_TEST_SUITE_P(Matrix, MatrixPairs, testing::ValuesIn(kMatrixKernelNames), kernel_test_name);

}  // namespace
}  // namespace vkattn::tests

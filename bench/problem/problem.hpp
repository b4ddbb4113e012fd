// A problem as one string. The command line, suites, tests and failure messages all use it.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::bench {

/// How random inputs are drawn.
enum class DataKind {
  kNormal,    ///< N(0,1) times magnitude
  kUniform,   ///< uniform in [0, 1) times magnitude
  kDominant,  ///< normal, with one key whose score is far above the others
  kEqual,     ///< all scores equal: constant Q and K, normal V
};

/// The dimensions that a mask varies along. It repeats along the others.
struct MaskDims {
  bool batch = false;
  bool head = false;
  bool query = true;
  bool key = true;

  bool operator==(const MaskDims&) const = default;
};

/// A score function (score_function.hpp) that belongs to a problem, with tables of random numbers. The
/// descriptor has no AttentionDesc::score_function: the caller that plans such a problem compiles it.
enum class ScoreKind {
  kNone,
  kAlibi,   ///< subtracts the standard slopes times the distance between query and key
  kPrefix,  ///< shows keys up to the query's position, and all keys of a prefix; one prefix length for each
            ///< batch entry
  kDocuments,  ///< shows keys of the query's own document, if several documents lie in a row
  kBias,       ///< adds a number for each head and each distance up to 128 in either direction
};

/// The operation that a problem computes.
enum class Operation {
  kForward,
  kBackward,  ///< the gradients, from the output and the lse of a forward pass: gradients.hpp
  kMatmul,    ///< a matrix multiplication
};

/// The operands of a matrix multiplication that are stored transposed.
enum class Transposed { kNone, kA, kB, kBoth };

/// A descriptor, and everything that is needed to make its data again.
struct Problem {
  Operation operation = Operation::kForward;
  AttentionDesc desc;  ///< unused by Operation::kMatmul, which has only `matmul` and `transposed`, and shift
                       ///< and dropout_seed
  MatmulDesc matmul;
  Transposed transposed = Transposed::kNone;
  std::int64_t row_padding = 0;  ///< unused elements after each row of Q, K, V and O
  std::int64_t shift = 0;        ///< unused elements before each tensor in its buffer
  /// One length for each batch entry if desc.kv_lengths or desc.query_lengths is kPerEntry. For packed
  /// sequences and packed queries, the lengths that the cumulative lengths are made from.
  std::vector<std::int32_t> kv_lengths;
  std::vector<std::int32_t> query_lengths;
  MaskDims mask_dims;
  double hidden_share = 0.25;     ///< share of the mask's positions that are hidden
  double zero_share = 0;          ///< share of the positions to which a mask that is added adds 0
  std::int64_t hidden_block = 1;  ///< positions are hidden, or add 0, in squares with this side
  std::uint64_t dropout_seed = 1;
  std::uint32_t dropout_offset = 0;
  ScoreKind score = ScoreKind::kNone;
  /// This many keys at the end of each batch entry are appended to K and V by the device (vkattn/cache.hpp).
  /// If K or V is quantised, the new rows are float32 before. With a rotary style the new keys and the
  /// queries, of which there are as many, are rotated on the way, in all dims, by their positions. If only
  /// the queries are packed, the new keys are packed like them: each batch entry has as many as it has
  /// queries, but at most `appended`.
  std::int64_t appended = 0;
  RotaryStyle rotary = RotaryStyle::kNone;
  DataKind data = DataKind::kNormal;
  double magnitude = 1.0;
  std::uint64_t seed = 1;

  /// Sets the fields that follow from the others: strides with padding, also those of the mask, the totals of
  /// packed sequences, and a page table that holds kv_length keys and has spare pages.
  void lay_out();

 private:
  void lay_out_matmul();
};

/// The number of pages of a paged problem that belong to no batch entry.
inline constexpr std::int64_t kSparePages = 3;

/// Reads a string such as `b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right`. problem_help()
/// explains the words. They may stand in any order. The error for an unknown or malformed word names the
/// word. The result passes validate().
[[nodiscard]] Result<Problem> parse_problem(std::string_view text);

/// The shortest string that parse_problem() turns into the same problem.
[[nodiscard]] std::string to_string(const Problem& problem);

/// The words that parse_problem() takes, for --help.
[[nodiscard]] std::string problem_help();

}  // namespace vkattn::bench

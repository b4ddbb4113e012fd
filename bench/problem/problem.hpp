// A problem as one string, the same on the command line, in suites, tests and failure messages.
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
  kDominant,  ///< normal, and one key whose score towers over the others
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

/// A score function (score_function.hpp) that a problem brings along, with tables of random numbers.
/// The descriptor has no AttentionDesc::score_function: whoever plans such a problem compiles it.
enum class ScoreKind {
  kNone,
  kAlibi,      ///< the standard slopes times the distance between query and key, subtracted
  kPrefix,     ///< keys up to the query's own number, and all of a prefix; one length per batch entry
  kDocuments,  ///< keys of the query's own document, of several in a row
  kBias,       ///< a number for each head and distance of up to 128 either way, added
};

/// What is computed of a problem.
enum class Operation {
  kForward,
  kBackward,  ///< the gradients, by the output and lse of a forward pass: gradients.hpp
  kMatmul,    ///< a matrix multiplication
};

/// Operands of a matrix multiplication that lie in memory as their transposes do.
enum class Transposed { kNone, kA, kB, kBoth };

/// A descriptor with everything that is needed to make its data again.
struct Problem {
  Operation operation = Operation::kForward;
  AttentionDesc desc;  ///< but of Operation::kMatmul, which has only what follows, shift and seed
  MatmulDesc matmul;
  Transposed transposed = Transposed::kNone;
  std::int64_t row_padding = 0;  ///< elements left free after each row of Q, K, V and O
  std::int64_t shift = 0;        ///< elements left free before each tensor in its buffer
  /// One per batch entry where desc.kv_lengths or desc.query_lengths is kPerEntry; of packed sequences and
  /// packed queries the lengths that the cumulative ones are made of.
  std::vector<std::int32_t> kv_lengths;
  std::vector<std::int32_t> query_lengths;
  MaskDims mask_dims;
  double hidden_share = 0.25;     ///< of the mask
  std::int64_t hidden_block = 1;  ///< positions are hidden in squares of so many
  std::uint64_t dropout_seed = 1;
  std::uint32_t dropout_offset = 0;
  ScoreKind score = ScoreKind::kNone;
  /// The last so many keys of each batch entry come into K and V by an append on the device
  /// (vkattn/cache.hpp), at first from float32 where K or V is quantised. With a rotary style they are turned
  /// on the way, all dims by their positions, and so are the queries, of which there are as many. Where the
  /// queries are packed alone, new keys are packed like them: of each batch entry as many as it has queries,
  /// at most so many.
  std::int64_t appended = 0;
  RotaryStyle rotary = RotaryStyle::kNone;
  DataKind data = DataKind::kNormal;
  double magnitude = 1.0;
  std::uint64_t seed = 1;

  /// Sets what follows from the other fields: strides with padding, a mask's too, the totals of packed
  /// sequences, and a page table that holds kv_length keys with pages to spare.
  void lay_out();

 private:
  void lay_out_matmul();
};

/// Pages of a paged problem that belong to no batch entry.
inline constexpr std::int64_t kSparePages = 3;

/// Reads a string such as `b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right`: words in any order,
/// which problem_help() explains. An unknown or malformed word is an error that names it. The result passes
/// validate().
[[nodiscard]] Result<Problem> parse_problem(std::string_view text);

/// The shortest string that parse_problem() turns into the same problem.
[[nodiscard]] std::string to_string(const Problem& problem);

/// The words parse_problem() takes, for --help.
[[nodiscard]] std::string problem_help();

}  // namespace vkattn::bench

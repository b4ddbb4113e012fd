// A problem as one string, the same on the command line, in suites, tests and failure messages.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn {

/// How random inputs are drawn.
enum class DataKind {
  kNormal,    ///< N(0,1) times magnitude
  kUniform,   ///< uniform in [0, 1) times magnitude
  kDominant,  ///< normal, and one key whose score towers over the others
  kEqual,     ///< all scores equal: constant Q and K, normal V
};

/// A descriptor with everything that is needed to make its data again.
struct Problem {
  AttentionDesc desc;
  Layout layout = Layout::kBhsd;
  std::int64_t row_padding = 0;          ///< elements left free after each row of Q, K, V and O
  std::int64_t shift = 0;                ///< elements left free before each tensor in its buffer
  std::vector<std::int32_t> kv_lengths;  ///< one per batch entry where desc.has_kv_lengths
  DataKind data = DataKind::kNormal;
  double magnitude = 1.0;
  std::uint64_t seed = 1;
};

/// Reads a string such as `b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right`. Words, in any order:
///   b2            batch (1)                    h8 / hq32 hkv8   heads (1)
///   q1 kv4096     lengths; 512x512 is both     d128 dv64        head_dim, value_dim (head_dim)
///   f32 f16 bf16  storage of all tensors (f32); query=f16 key=… value=… output=… for one
///   causal        align=top-left|bottom-right|OFFSET            scale=X   lse
///   kv_lengths=5,0,17                          layout=bhsd|bshd|packed
///   pad=N         row padding                  shift=N          first element of each tensor
///   aligned=4     alignment_bytes of Q, K, V and O (16, or 0 with a shift)
///   data=normal|uniform|dominant|equal         magnitude=X      seed=N
/// An unknown or malformed word is an error that names it. The result passes validate().
[[nodiscard]] Result<Problem> parse_problem(std::string_view text);

/// The shortest string that parse_problem() turns into the same problem.
[[nodiscard]] std::string to_string(const Problem& problem);

/// The words parse_problem() takes, for --help.
[[nodiscard]] std::string_view problem_help();

}  // namespace vkattn

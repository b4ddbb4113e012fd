// Problems of features and of several together: one list for everything that is observed of them. Results are
// right (feature_test.cpp), gradients are (backward_test.cpp), what is hidden reaches neither
// (poison_test.cpp), and any number in lengths and page tables is clamped (garbage_test.cpp). Each takes the
// rows in which there is something to observe. pairs_test.cpp has each feature with each other.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vkattn::tests {

/// Words that a problem gets besides its sizes. Q, A and B stand for the query length and for two that are
/// shorter. With the word lse gradients are those of a loss that depends on the lse too.
struct FeatureProblem {
  const char* words;
  bool hides_keys = false;     ///< some rows of K and V are hidden from all queries
  bool hides_queries = false;  ///< some queries see nothing, where Q stands for 70
  /// Whole blocks are hidden, and before a window whole steps of 64 keys: gradients on matrix units promise
  /// only that nothing of these reaches them.
  bool by_position = false;
};

inline constexpr FeatureProblem kFeatureProblems[] = {
    // Of one feature each, but where two belong together: kSingleFeatures.
    {"causal", true, false, true},
    {"causal align=bottom-right"},
    {"window=20,5 align=30", true},
    {"window=7,-1 align=bottom-right", true},
    {"kv_lengths=100,41", true, false, true},
    {"query_lengths=B,Q", false, true, true},
    {"sequences query_lengths=B,A kv_lengths=100,29"},
    {"sequences=queries query_lengths=B,A kv_lengths=129,0", true, true, true},
    {"mask=f32:bhqk hidden=0.3"},
    {"mask=f16:k"},
    {"mask=bits:bhqk hidden=0.6 block=16"},
    {"mask=bytes:q hidden=0.5"},
    {"softcap=2"},
    {"alibi=given"},
    {"alibi"},
    {"sinks"},
    {"dropout=0.3"},
    // Their ends: nothing visible, windows that begin beyond the keys, sinks far above the scores, batches
    // without rows.
    {"window=300,-1 align=310 lse"},
    {"window=-1,300 align=-295 lse"},
    {"window=0,0 align=bottom-right kv_lengths=129,40"},
    {"mask=bits:bhqk hidden=1 lse"},
    {"mask=bits:hqk hidden=0.8 block=32 window=60,60"},
    {"mask=f16:hqk hidden=0.3 zeros=0.6 block=64"},
    {"mask=bits:bhqk hidden=0.3 block=16 window=50,-1 align=40"},  // steps begin within blocks
    {"sinks mask=bits hidden=1 lse"},
    {"sinks alibi align=300 output=f32 lse"},
    {"sequences query_lengths=0,0 kv_lengths=20,129 lse"},  // no tensor of queries at all
    {"sequences query_lengths=A,B kv_lengths=0,0 lse"},
    {"sequences=queries query_lengths=0,0 page=16 lse"},
    {"sequences=queries query_lengths=Q,B kv_lengths=129,100 ring=50 window=30,0 align=bottom-right sinks "
     "lse"},
    {"window=20,-1 align=50 lse"},  // rows of a tile see the last keys, some of them earlier ones
    {"page=1 kv_lengths=100,129"},
    {"page=32 causal align=bottom-right"},
    {"weights=probabilities kv_lengths=129,40 sinks window=50,3"},
    {"softcap=4 alibi mask=f16 sinks causal align=bottom-right kv_lengths=120,77 query_lengths=A,Q "
     "dropout=0.1 lse"},
    // Weights have passes of their own, which read lengths and page tables again.
    {"weights=scores kv_lengths=129,40 query_lengths=A,B"},
    {"weights=probabilities page=16 kv_lengths=40,129 causal align=bottom-right"},
    {"weights=masked page=7 query_lengths=B,Q mask=bits:bhqk hidden=0.8 block=32"},
    {"weights=probabilities ring=50 kv_lengths=40,129 alibi align=bottom-right"},
    // Masks that repeat, whose gradients are sums.
    {"mask=f32:q"},
    {"mask=f16:bh"},
    {"mask=f32:hk lse"},
    {"mask=f16:bqk softcap=3"},
    {"mask=f32:bk query_lengths=A,B"},
    // Heads of the mask in turn, and slopes that multiply it.
    {"mask=f16:bh2qk", false, false},
    {"mask=bits:h2qk hidden=0.97 block=64 lse", true, true},
    {"mask=f32:hqk alibi=times-mask"},
    {"mask=f32:bh2qk hidden=0.95 block=64 alibi=times-mask lse", true, true},
    {"mask=f16:h2k alibi=times-mask hidden=0.5 block=4 softcap=3", true},
    {"mask=f16:qk alibi=times-mask causal align=bottom-right window=30,-1 query_lengths=A,Q "
     "kv_lengths=129,40 lse"},
    // Every kind of hiding.
    {"mask=f32:k hidden=0.5 block=4 softcap=4 lse", true},
    {"mask=f32:bhqk hidden=0.95 block=64 lse", true, true},
    {"mask=f16:bhqk hidden=0.97 block=64 alibi=given lse", true, true},
    {"mask=f16:bk hidden=0.7 block=1", true},
    {"mask=bytes:bhk hidden=0.5 block=8 causal lse", true, true},
    {"mask=bits:bhk hidden=0.5 block=3", true},
    {"mask=bits:bhqk hidden=0.97 block=64 lse", true, true},
    {"mask=bits:q hidden=0.5 block=3 sinks", false, true},
    {"causal align=-3 lse", true, true, true},
    {"causal align=-40 sinks alibi=given lse", true, true, true},
    {"window=5,3 lse", true, false, true},
    {"window=10,0 align=bottom-right", true},
    {"window=10,5 align=74", true, true, true},
    {"window=3,3 align=100 sinks", true, true},
    {"kv_lengths=41,0", true, true, true},
    {"kv_lengths=40,129 causal lse", true, false, true},
    {"query_lengths=A,0 causal align=7", true, true, true},
    {"query_lengths=A,0 kv_lengths=100,129", true, true, true},
    {"query_lengths=A,Q kv_lengths=129,40 causal align=bottom-right alibi", true, true, true},
    {"ring=64 kv_lengths=129,40 lse", true},
    {"ring=120 kv_lengths=129,120 window=9,0 align=bottom-right", true},
    {"page=16 kv_lengths=100,3 lse", true},
    {"page=7 window=20,0 align=bottom-right", true},
    {"sequences query_lengths=B,A kv_lengths=30,50 causal align=-5 lse", true, true, true},
    {"sequences=queries query_lengths=B,A kv_lengths=100,30 page=16 causal align=bottom-right lse", true},
    {"mask=bytes:k hidden=0.5 block=4 causal window=60,0 align=bottom-right query_lengths=Q,A "
     "kv_lengths=120,77 alibi softcap=4 sinks weights=probabilities lse",
     true, true},
    {"dropout=0.3 mask=bits:k hidden=0.5 block=5 lse", true},
};

inline constexpr std::span<const FeatureProblem> kSingleFeatures = std::span(kFeatureProblems).first(17);
static_assert(std::string_view(kSingleFeatures.back().words) == "dropout=0.3");

/// The rows that an observer takes.
template <class Takes>
[[nodiscard]] std::vector<FeatureProblem> feature_problems(const Takes& takes) {
  std::vector<FeatureProblem> rows;
  std::ranges::copy_if(kFeatureProblems, std::back_inserter(rows), takes);
  return rows;
}

/// The problem with query lengths Q, A and B, of 129 keys.
[[nodiscard]] inline std::string with_sizes(std::string_view words, const std::array<const char*, 3>& lengths,
                                            std::string_view sizes) {
  std::string text = std::string(lengths[0]) + "x129 " + std::string(sizes) + " ";
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_length = i > 0 && (words[i - 1] == '=' || words[i - 1] == ',');
    const std::size_t letter = std::string_view("QAB").find(words[i]);
    text += is_length && letter != std::string_view::npos ? lengths[letter] : std::string(1, words[i]);
  }
  return text;
}
/// Enough rows for several tiles, and few for decode.
inline constexpr std::array kManyLengths{"70", "45", "33"}, kFewLengths{"3", "2", "1"};

}  // namespace vkattn::tests

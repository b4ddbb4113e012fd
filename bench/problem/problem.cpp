// Writing problem strings, and the words that they are made of.
#include "problem/problem.hpp"

#include <array>
#include <utility>
#include <vector>

#include "problem/words.hpp"

namespace vkattn {
namespace {

using detail::number_text;

class Writer {
 public:
  void word(std::string_view text) {
    if (!text_.empty()) text_ += ' ';
    text_ += text;
  }
  template <class T>
  void word(std::string_view prefix, T number) {
    word(std::string(prefix) + number_text(number));
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void write_sizes(Writer& writer, const AttentionDesc& desc) {
  if (desc.batch != 1) writer.word("b", desc.batch);
  if (desc.query_heads != desc.kv_heads) {
    writer.word("hq", desc.query_heads);
    writer.word("hkv", desc.kv_heads);
  } else if (desc.query_heads != 1) {
    writer.word("h", desc.query_heads);
  }
  writer.word(number_text(desc.query_length) + "x" + number_text(desc.kv_length));
  writer.word("d", desc.head_dim);
  if (desc.value_dim != desc.head_dim) writer.word("dv", desc.value_dim);
}

/// The commonest type of floats as one word, the exceptions by name.
void write_types(Writer& writer, const AttentionDesc& desc) {
  const std::array<std::pair<std::string_view, DataType>, 4> tensors{{{"query=", desc.query.type},
                                                                      {"key=", desc.key.type},
                                                                      {"value=", desc.value.type},
                                                                      {"output=", desc.output.type}}};
  std::array<int, 6> counts{};
  for (const auto& tensor : tensors) ++counts[static_cast<std::size_t>(tensor.second)];
  auto common = DataType::kFloat32;
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16}) {
    // float32 needs no word of its own, so another type has to be commoner to be worth one.
    if (counts[static_cast<std::size_t>(type)] > counts[static_cast<std::size_t>(common)]) common = type;
  }
  if (common != DataType::kFloat32) writer.word(name(common));
  const bool one_cache = desc.key.type == desc.value.type;
  for (const auto& [key, type] : tensors) {
    if (type == common || (one_cache && key == "value=")) continue;
    writer.word(std::string(one_cache && key == "key=" ? "cache=" : key) + std::string(name(type)));
  }
}

void write_lengths(Writer& writer, std::string_view key, const std::vector<std::int32_t>& lengths) {
  std::string word(key);
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i > 0) word += ',';
    word += number_text(lengths[i]);
  }
  writer.word(word);
}

void write_mask(Writer& writer, const Problem& problem) {
  constexpr std::array<std::string_view, 5> kTypes{"", "f32", "f16", "bytes", "bits"};
  const MaskDesc& mask = problem.desc.mask;
  if (mask.type == MaskType::kNone) return;
  std::string word = "mask=" + std::string(kTypes[static_cast<std::size_t>(mask.type)]);
  const MaskDims& dims = problem.mask_dims;
  if (dims != MaskDims{}) {
    word += ':';
    if (dims.batch) word += 'b';
    if (dims.head) word += 'h';
    if (dims.query) word += 'q';
    if (dims.key) word += 'k';
  }
  writer.word(word);
  if (problem.hidden_share != Problem{}.hidden_share) writer.word("hidden=", problem.hidden_share);
  if (problem.hidden_block != 1) writer.word("block=", problem.hidden_block);
}

void write_score_function(Writer& writer, const Problem& problem) {
  constexpr std::array<std::string_view, 5> kKinds{"", "score=alibi", "score=prefix", "score=documents",
                                                   "score=bias"};
  if (problem.score != ScoreKind::kNone) writer.word(kKinds[static_cast<std::size_t>(problem.score)]);
}

void write_scores(Writer& writer, const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  if (desc.causal) writer.word("causal");
  if (desc.window != SlidingWindow{}) {
    writer.word("window=" + number_text(desc.window.left) + "," + number_text(desc.window.right));
  }
  if (desc.alibi == Alibi::kStandard) writer.word("alibi");
  if (desc.alibi == Alibi::kGiven) writer.word("alibi=given");
  if (desc.align == Align::kBottomRight) writer.word("align=bottom-right");
  if (desc.align == Align::kOffset) writer.word("align=", desc.offset);
  if (desc.scale.has_value()) writer.word("scale=", *desc.scale);
  if (desc.softcap != 0) writer.word("softcap=", desc.softcap);
  write_mask(writer, problem);
  write_score_function(writer, problem);
  if (desc.has_sinks) writer.word("sinks");
  if (desc.dropout == 0) return;
  writer.word("dropout=", desc.dropout);
  if (problem.dropout_seed != Problem{}.dropout_seed) writer.word("dropout_seed=", problem.dropout_seed);
  if (problem.dropout_offset != 0) writer.word("dropout_offset=", problem.dropout_offset);
}

void write_options(Writer& writer, const Problem& problem) {
  constexpr std::array<std::string_view, 5> kStages{"", "weights=scores", "weights=softcap", "weights=masked",
                                                    "weights=probabilities"};
  const AttentionDesc& desc = problem.desc;
  if (desc.has_lse) writer.word("lse");
  if (desc.weights != WeightsStage::kNone) writer.word(kStages[static_cast<std::size_t>(desc.weights)]);
  if (desc.has_cumulative_lengths) writer.word("sequences");
  if (desc.has_cumulative_query_lengths) writer.word("sequences=queries");
  if (desc.has_query_lengths || desc.has_packed_queries()) {
    write_lengths(writer, "query_lengths=", problem.query_lengths);
  }
  if (desc.has_kv_lengths || desc.has_cumulative_lengths) {
    write_lengths(writer, "kv_lengths=", problem.kv_lengths);
  }
  if (desc.cache.mapping == KeyMapping::kRing) writer.word("ring=", desc.cache.ring_length);
  if (desc.cache.mapping == KeyMapping::kPaged) writer.word("page=", desc.cache.page_size);
  if (problem.appended != 0) writer.word("append=", problem.appended);
  if (problem.rotary == RotaryStyle::kInterleaved) writer.word("rotary=interleaved");
  if (problem.rotary == RotaryStyle::kHalfSplit) writer.word("rotary=half-split");
}

void write_memory(Writer& writer, const Problem& problem) {
  if (problem.layout == Layout::kBshd) writer.word("layout=bshd");
  if (problem.layout == Layout::kPackedQkv) writer.word("layout=packed");
  if (problem.row_padding != 0) writer.word("pad=", problem.row_padding);
  if (problem.shift != 0) writer.word("shift=", problem.shift);
  const std::uint32_t alignment = problem.desc.query.alignment_bytes;
  if (alignment != detail::default_alignment(problem)) writer.word("aligned=", alignment);
}

void write_data(Writer& writer, const Problem& problem) {
  switch (problem.data) {
    case DataKind::kNormal:
      break;
    case DataKind::kUniform:
      writer.word("data=uniform");
      break;
    case DataKind::kDominant:
      writer.word("data=dominant");
      break;
    case DataKind::kEqual:
      writer.word("data=equal");
      break;
  }
  if (problem.magnitude != 1.0) writer.word("magnitude=", problem.magnitude);
  if (problem.seed != 1) writer.word("seed=", problem.seed);
}

}  // namespace

std::string to_string(const Problem& problem) {
  Writer writer;
  write_sizes(writer, problem.desc);
  write_types(writer, problem.desc);
  write_scores(writer, problem);
  write_options(writer, problem);
  write_memory(writer, problem);
  write_data(writer, problem);
  return writer.take();
}

std::string_view problem_help() {
  return
      R"(A problem is one string of words in any order, such as
  "b1 hq32 hkv8 q1 kv4096 d128 f16 causal align=bottom-right"

  b2                  batch (1)
  h8, or hq32 hkv8    query and key/value heads (1; one given alone is both)
  q1 kv4096           query and key length; 512x512 is both
  d128 dv64           head dimension of Q and K, and of V and O (as d)
  f32 f16 bf16        storage of all tensors (f32)
  query=f16           storage of one; also key=, value=, output=
  cache=q8_0          storage of key and value; these may also be q8_0, q4_0 or
                      e4m3, as may key= and value=
  causal              a query sees no later key
  window=512,0        a query sees so many keys to its left and right; -1 is
                      unlimited
  alibi               linear biases; alibi=given with slopes of their own
  align=top-left      for the three above: query 0 at key 0 (the default), or
                      bottom-right: the last query at the last key, or a number:
                      query 0 at that key
  scale=0.5           instead of 1/sqrt(d)
  softcap=50          scores within so much of 0, by tanh
  mask=bits           f32 or f16 to add, or bytes or bits; with the dimensions
                      that it varies along: mask=f32:bhqk (qk)
  hidden=0.5          share of the mask that is hidden (0.25)
  block=64            hidden in squares of so many positions (1)
  score=documents     with a score function and its tables: alibi, prefix,
                      documents or bias (a build that compiles them is needed)
  sinks               a logit for each head that has no value
  dropout=0.1         share of the probabilities that is dropped; with
  dropout_seed=7      and dropout_offset=3 (1 and 0)
  lse                 write the log-sum-exp of each row
  weights=scores      write the weights: scores, softcap, masked, probabilities
  kv_lengths=5,0,17   visible keys of each batch entry
  query_lengths=3,1,9 queries of each batch entry
  sequences           packed without padding; query_lengths= and kv_lengths= are
                      those of each sequence
  sequences=queries   the queries alone packed, as for continuous batching; keys
                      in whatever cache
  ring=512            a cache that keeps so many keys
  page=16             a cache in pages of so many keys, in random order
  append=5            the last keys of each batch entry are appended on the
                      device before attention is computed; of packed queries
                      as many as there are, at most so many, packed like them
  rotary=half-split   those keys and the queries, as many, are turned by their
                      positions; half-split or interleaved
  layout=bshd         memory order: bhsd (the default), bshd or packed
  pad=3               free elements after each row
  shift=1             free elements before each tensor
  aligned=4           promised alignment of each tensor in bytes, 0 for its
                      element's size (16, or 0 with a shift)
  data=uniform        normal (the default), uniform, dominant or equal
  magnitude=10        factor of the data (1)
  seed=7              of the data (1)
)";
}

}  // namespace vkattn

// The table of problem words: see word_table.hpp. Plain numbers, flags and names share a reader and a writer.
// Both take the member that they read or write.
#include "problem/word_table.hpp"

#include <iterator>

#include "problem/word_values.hpp"

namespace vkattn::bench {

namespace {

using enum Form;

/// A member of the problem or of its descriptor.
template <auto target, class P>
auto& member(P& problem) {
  if constexpr (requires { problem.*target; }) {
    return problem.*target;
  } else {
    return problem.desc.*target;
  }
}

template <auto target>
Result<void> read_plain(const Given& given, Problem& problem) {
  return read_piece(given, given.value, member<target>(problem));
}

/// The number, unless it is the default of a problem.
template <auto target>
Text write_plain(const Problem& problem) {
  const Problem silent;
  const auto value = member<target>(problem);
  return value == member<target>(silent) ? Text() : number_text(value);
}

template <bool (*applies)(const Problem&), auto target>
Text write_where(const Problem& problem) {
  return applies(problem) ? write_plain<target>(problem) : Text();
}

template <auto target>
Result<void> read_flag(const Given&, Problem& problem) {
  member<target>(problem) = true;
  return {};
}

template <auto target>
Text write_flag(const Problem& problem) {
  return member<target>(problem) ? Text("") : Text();
}

template <auto target, const auto& names>
Result<void> read_choice(const Given& given, Problem& problem) {
  return read_name(given, names, member<target>(problem));
}

template <auto target, const auto& names>
Text write_choice(const Problem& problem) {
  const Problem silent;
  const auto value = member<target>(problem);
  return value == member<target>(silent) ? Text() : Text(name_of(names, value));
}

/// For example "bhsd (the default), bshd or packed": marks the default of a problem.
template <auto target, const auto& names>
std::string choices_text() {
  const Problem silent;
  std::string text;
  std::size_t left = std::size(names);
  for (const auto& name : names) {
    text += name.text;
    if (name.value == member<target>(silent)) text += " (the default)";
    --left;
    if (left != 0) text += left == 1 ? " or " : ", ";
  }
  return text;
}

constexpr Word row(Form form, std::string_view key, std::string_view example, std::string_view help,
                   decltype(Word::read) read, decltype(Word::write) write,
                   std::array<std::string_view, 2> sets = {}, WordOption option = {}) {
  return {form, key, example, help, read, write, sets, option};
}

/// Makes rows of plain numbers, flags and names.
template <auto target>
constexpr Word plain(std::string_view key, std::string_view example, std::string_view help,
                     WordOption option = {}) {
  return row(kSetting, key, example, help, read_plain<target>, write_plain<target>, {}, option);
}

template <auto target>
constexpr Word flag(std::string_view key, std::string_view help, WordOption option = {}) {
  return row(kFlag, key, key, help, read_flag<target>, write_flag<target>, {}, option);
}

template <auto target, const auto& names>
constexpr Word choice(std::string_view key, std::string_view example, std::string_view help,
                      WordOption option = {}) {
  Word word =
      row(kSetting, key, example, help, read_choice<target, names>, write_choice<target, names>, {}, option);
  word.choices = choices_text<target, names>;
  return word;
}

constexpr Word about(Subject subject, Word word) {
  word.subject = subject;
  return word;
}

using D = AttentionDesc;
using M = MatmulDesc;
using P = Problem;

constexpr Word kWords[] = {
    about(Subject::kBoth, row(kSize, "b", "b2", "batch (1)", read_batch, write_batch)),
    about(
        Subject::kMatmul,
        row(kFlag, "matmul", "matmul",
            "a product of matrices instead of attention; it takes b2, f16, output=, shift=, aligned=, seed= "
            "and these words:",
            read_operation<Operation::kMatmul>, write_operation<Operation::kMatmul>, {"operation"})),
    about(Subject::kMatmul, row(kProduct, "", "512x256x1024", "rows, columns and the inner size", read_sizes,
                                write_sizes, {"sizes"})),
    row(kSize, "h", "h8, or hq32 hkv8", "query and key/value heads (1; one given alone is both)", read_heads,
        write_heads, {"hq", "hkv"}),
    row(kSize, "hq", "", "", read_plain<&D::query_heads>, write_heads_apart<&D::query_heads>),
    row(kSize, "hkv", "", "", read_plain<&D::kv_heads>, write_heads_apart<&D::kv_heads>),
    row(kSize, "q", "q1 kv4096", "query and key length; 512x512 is both", read_plain<&D::query_length>,
        write_nothing),
    row(kSize, "kv", "", "", read_plain<&D::kv_length>, write_nothing),
    row(kCross, "", "", "", read_cross, write_cross, {"q", "kv"}),
    row(kSize, "d", "d128 dv64", "head dimension of Q and K, and of V and O (as d)", read_plain<&D::head_dim>,
        write_head_dim),
    row(kSize, "dv", "", "", read_plain<&D::value_dim>, write_value_dim),

    about(Subject::kBoth, row(kFlag, "f32", "f32 f16 bf16", "storage of all tensors (f32)", read_nothing,
                              write_nothing, {"type"})),
    about(Subject::kBoth,
          row(kFlag, "f16", "", "", read_nothing, write_common_type<DataType::kFloat16>, {"type"})),
    about(Subject::kBoth,
          row(kFlag, "bf16", "", "", read_nothing, write_common_type<DataType::kBfloat16>, {"type"})),
    row(kSetting, "query", "query=f16", "storage of one; also key=, value=, output=",
        read_type<&D::query, kFloatNames>, write_type<&D::query>),
    row(kSetting, "cache", "cache=q8_0",
        "storage of key and value; these may also be q8_0, q4_0 or e4m3, as may key= and value=",
        read_cache_type, write_cache_type<true, &D::key>, {"key", "value"}),
    row(kSetting, "key", "", "", read_type<&D::key, kTypeNames>, write_cache_type<false, &D::key>),
    row(kSetting, "value", "", "", read_type<&D::value, kTypeNames>, write_cache_type<false, &D::value>),
    about(Subject::kBoth, row(kSetting, "output", "", "", read_output_type, write_output_type)),

    flag<&D::causal>("causal", "a query sees no later key",
                     {"--causal", "", "A query sees no key after its own position"}),
    row(kSetting, "window", "window=512,0",
        "a query sees so many keys to its left and right; -1 is unlimited, alone both", read_window,
        write_window, {},
        {"--window", "L,R",
         "A query sees L keys before and R after its own position; -1: no bound, alone for both"}),
    row(kFlag, "alibi", "alibi",
        "linear biases; alibi=given with slopes of their own, alibi=times-mask if these multiply the mask",
        read_standard_alibi, write_standard_alibi, {},
        {"--alibi", "", "Subtract slope times distance from the scores (ALiBi)"}),
    row(kSetting, "alibi", "", "", read_choice<&D::alibi, kAlibiNames>, write_given_alibi, {},
        {"--alibi-slopes", "F.npy", "--alibi with slopes of your own (heads,)",
         &AttentionTensors::alibi_slopes, "given"}),
    // Strings say this by the row before: no flag in them has an '='.
    row(kFlag, "alibi=times-mask", "", "", read_times_mask, write_nothing, {"alibi"},
        {"--alibi-times-mask", "", "--alibi-slopes multiply --mask, and no distance is subtracted"}),
    row(kSetting, "align", "align=top-left",
        "where causal, window and alibi place the queries: query 0 at key 0 (top-left, the default), the "
        "last query at the last key (bottom-right), or query 0 at the key of this number",
        read_align, write_align, {},
        {"--align", "WHERE",
         "Key position of query 0 for --causal, --window and --alibi: top-left (0, the default), "
         "bottom-right (the last query meets the last key) or a number"}),
    row(kSetting, "scale", "scale=0.5", "instead of 1/sqrt(d)", read_scale, write_scale, {},
        {"--scale", "X", "Factor of the scores, default 1/sqrt(dim)"}),
    plain<&D::softcap>("softcap", "softcap=50", "scores within so much of 0, by tanh",
                       {"--softcap", "X", "Keep scores within X of 0: X tanh(score / X)"}),
    row(kSetting, "mask", "mask=bits",
        "f32 or f16 to add, or bytes or bits; with the dimensions that it varies along: mask=f32:bhqk (qk), "
        "or mask=f32:h2qk with 2 heads, which the query heads take in turn",
        read_mask, write_mask),
    row(kSetting, "hidden", "hidden=0.5", "share of the mask that is hidden (0.25)", read_hidden,
        write_where<is_masked, &P::hidden_share>),
    row(kSetting, "zeros", "zeros=0.5",
        "share to which a mask of f32 or f16 adds 0 (0); 1: all that it shows", read_zeros,
        write_where<adds_mask, &P::zero_share>),
    row(kSetting, "block", "block=64", "the mask hides or adds 0 to squares of so many positions (1)",
        read_block, write_where<is_masked, &P::hidden_block>),
    choice<&P::score, kScoreNames>("score", "score=documents",
                                   "with a score function and its tables (a build that compiles them is "
                                   "needed)"),
    flag<&D::has_sinks>(
        "sinks", "a logit for each head that has no value",
        {"--sinks", "F.npy", "A logit for each head that has no value (heads,)", &AttentionTensors::sinks}),
    plain<&D::dropout>("dropout", "dropout=0.1",
                       "share of the probabilities that is dropped, 1 for all; with",
                       {"--dropout", "P", "Drop this share of the probabilities; 1 gives zeros"}),
    row(kSetting, "dropout_seed", "dropout_seed=7", "and dropout_offset=3 (1 and 0)",
        read_plain<&P::dropout_seed>, write_where<drops, &P::dropout_seed>, {},
        {"--dropout-seed", "S", "Seed of --dropout, default 1"}),
    row(kSetting, "dropout_offset", "", "", read_plain<&P::dropout_offset>,
        write_where<drops, &P::dropout_offset>),

    row(kFlag, "backward", "backward", "the gradients, all that the problem has, in place of the output",
        read_operation<Operation::kBackward>, write_operation<Operation::kBackward>, {"operation"}),
    row(kFlag, "lse", "lse", "write the log-sum-exp of each row", read_flag<&D::has_lse>, write_lse),
    choice<&D::weights, kWeightsNames>(
        "weights", "weights=scores", "write weights",
        {"--weights-stage", "STAGE",
         "Which weights --weights writes, masked ones with -inf where hidden, by default the last of"}),
    row(kFlag, "sequences", "sequences",
        "packed without padding; query_lengths= and kv_lengths= are those of each sequence", read_packed,
        write_packed),
    row(kSetting, "sequences", "sequences=queries",
        "the queries alone packed, as for continuous batching; keys in whatever cache", read_packed_queries,
        write_packed_queries),
    row(kSetting, "query_lengths", "query_lengths=3,1,9", "queries of each batch entry",
        read_lengths<&P::query_lengths>, write_query_lengths),
    row(kSetting, "kv_lengths", "kv_lengths=5,0,17", "visible keys of each batch entry",
        read_lengths<&P::kv_lengths>, write_kv_lengths),
    row(kSetting, "ring", "ring=512", "a cache that keeps so many keys",
        read_cache<KeyMapping::kRing, &CacheLayout::ring_length>,
        write_cache<KeyMapping::kRing, &CacheLayout::ring_length>, {"mapping"}),
    row(kSetting, "page", "page=16", "a cache in pages of so many keys, in random order",
        read_cache<KeyMapping::kPaged, &CacheLayout::page_size>,
        write_cache<KeyMapping::kPaged, &CacheLayout::page_size>, {"mapping"}),
    plain<&P::appended>(
        "append", "append=5",
        "the device first appends so many keys, the last ones of each batch entry; if queries are packed, "
        "the new keys are too: one for each query, at most so many"),
    choice<&P::rotary, kRotaryNames>("rotary", "rotary=half-split",
                                     "the appended keys and the queries are turned by their positions"),

    choice<&D::layout, kLayoutNames>("layout", "layout=bshd", "memory order"),
    plain<&P::row_padding>("pad", "pad=3", "free elements after each row"),
    about(Subject::kBoth, plain<&P::shift>("shift", "shift=1", "free elements before each tensor")),
    about(Subject::kBoth,
          row(kSetting, "aligned", "aligned=4",
              "promised alignment of each tensor in bytes, 0 for its element's size (16, or 0 with a shift)",
              read_aligned, write_aligned)),
    choice<&P::data, kDataNames>("data", "data=uniform", "what is drawn"),
    row(kSetting, "magnitude", "magnitude=10", "factor of the data (1)", read_magnitude,
        write_plain<&P::magnitude>),
    about(Subject::kBoth, plain<&P::seed>("seed", "seed=7", "of the data (1)")),

    about(Subject::kMatmul,
          row(kSetting, "a", "a=bf16", "storage of a; a=ones has none and sums the columns of b", read_a_type,
              write_a_type)),
    about(Subject::kMatmul, row(kSetting, "b", "b=q8_0", "of b, which may also be q8_0 or q4_0", read_b_type,
                                write_b_type, {"b="})),
    about(Subject::kMatmul, row(kFlag, "bias", "bias", "one for each column; bias=f32 with a type of its own",
                                read_bias, write_bias)),
    about(Subject::kMatmul, row(kSetting, "bias", "", "", read_bias_type, write_bias_type)),
    about(Subject::kMatmul, row(kFlag, "accumulates", "accumulates", "added to what the output holds",
                                read_accumulates, write_accumulates)),
    about(Subject::kMatmul,
          choice<&P::transposed, kTransposedNames>("transposed", "transposed=b", "in memory; ab is both")),
};

}  // namespace

std::string with_choices(std::string_view help, const Word& word) {
  std::string text(help);
  if (word.choices != nullptr) text += ": " + word.choices();
  return text;
}

std::span<const Word> words() {
  return kWords;
}

}  // namespace vkattn::bench

// The options of `vkattn run`.
#include "run_arguments.hpp"

#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "console.hpp"
#include "error.hpp"
#include "file_names.hpp"
#include "problem/words.hpp"

namespace vkattn::cli {
namespace {

/// The value that a word names, or a usage error with all of them.
template <class T>
T choose(const std::string& option, const std::string& word,
         std::span<const std::pair<std::string_view, T>> choices) {
  std::vector<std::string_view> names;
  std::string list;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i].first == word) return choices[i].second;
    names.push_back(choices[i].first);
    list += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + std::string(choices[i].first);
  }
  const auto meant = bench::closest_word(word, names);
  fail_usage(option + " needs " + list + ", not '" + console::printable(word) + "'" +
             (meant ? "; did you mean " + std::string(*meant) + "?" : ""));
}

using TypeChoice = std::pair<std::string_view, DataType>;
constexpr std::array<TypeChoice, 6> kTypes{
    TypeChoice{"f32", DataType::kFloat32},   TypeChoice{"f16", DataType::kFloat16},
    TypeChoice{"bf16", DataType::kBfloat16}, TypeChoice{"q8_0", DataType::kQ8_0},
    TypeChoice{"q4_0", DataType::kQ4_0},     TypeChoice{"e4m3", DataType::kFloat8E4m3}};

float parse_float(const std::string& option, const std::string& text) {
  const auto value = static_cast<float>(parse_number(option, text));
  if (!std::isfinite(value)) fail_usage(option + " " + text + " does not fit float32");
  return value;
}

void require_inputs(const RunArguments& arguments) {
  for (const auto& [name, value] :
       {std::pair("--query", &arguments.query), std::pair("--key", &arguments.key),
        std::pair("--value", &arguments.value)}) {
    if (value->empty()) {
      fail_usage(std::string("run needs --query, --key and --value; ") + name + " is missing");
    }
  }
  if (arguments.past_key.empty() != arguments.past_value.empty()) {
    fail_usage("--past-key and --past-value belong together; " +
               std::string(arguments.past_key.empty() ? "--past-key" : "--past-value") + " is missing");
  }
  const bool present = !arguments.present_key.empty() || !arguments.present_value.empty();
  if (present && arguments.past_key.empty()) {
    fail_usage(
        "--present-key and --present-value join past and new keys, so they need --past-key and "
        "--past-value");
  }
}

/// Packed arrays have no padding for other lengths to count in, and no batch entries to put a past before.
void require_sense_of_packing(const RunArguments& a) {
  const bool packed_keys = !a.cumulative_kv_lengths.empty();
  if (a.cumulative_query_lengths.empty()) {
    if (!packed_keys) return;
    fail_usage(
        "--cumulative-kv-lengths packs the keys of queries that are packed too; give "
        "--cumulative-query-lengths with it");
  }
  if (!a.query_lengths.empty()) {
    fail_usage(
        "--cumulative-query-lengths already says how many queries each sequence has; leave out "
        "--query-lengths");
  }
  if (!packed_keys) return;
  if (!a.kv_lengths.empty()) {
    fail_usage(
        "--cumulative-kv-lengths already says how many keys each sequence has; leave out --kv-lengths");
  }
  if (!a.past_key.empty()) {
    fail_usage(
        "--past-key and --past-value go before the keys of batch entries, but --cumulative-kv-lengths "
        "packs these; leave it out, and give --key and --value a batch axis");
  }
}

/// No file that is written may be another one, read or written.
void require_different_files(const RunArguments& a) {
  FileNames files;
  files.add_input("--query", a.query);
  files.add_input("--key", a.key);
  files.add_input("--value", a.value);
  files.add_input("--past-key", a.past_key);
  files.add_input("--past-value", a.past_value);
  files.add_input("--mask", a.mask);
  files.add_input("--alibi-slopes", a.alibi_slopes);
  files.add_input("--sink", a.sink);
  files.add_input("--kv-lengths", a.kv_lengths);
  files.add_input("--query-lengths", a.query_lengths);
  files.add_input("--cumulative-query-lengths", a.cumulative_query_lengths);
  files.add_input("--cumulative-kv-lengths", a.cumulative_kv_lengths);
  add_score_files(files, a.score);
  add_tuning_file(files, a.where);
  files.add_output("--output", a.output);
  files.add_output("--lse", a.lse);
  files.add_output("--weights", a.weights);
  files.add_output("--present-key", a.present_key);
  files.add_output("--present-value", a.present_value);
}

void parse_types(const RunArguments& arguments, RunOptions& options) {
  using LayoutChoice = std::pair<std::string_view, Layout>;
  constexpr std::array<LayoutChoice, 2> kLayouts{LayoutChoice{"bhsd", Layout::kBhsd},
                                                 LayoutChoice{"bshd", Layout::kBshd}};
  options.layout = choose<Layout>("--layout", arguments.layout, kLayouts);
  if (!arguments.type.empty()) {
    options.type = choose<DataType>("--type", arguments.type, std::span(kTypes).first(3));
  }
  if (arguments.kv_type.empty()) return;
  const std::size_t comma = arguments.kv_type.find(',');
  options.key_type = choose<DataType>("--kv-type", arguments.kv_type.substr(0, comma), kTypes);
  options.value_type = comma == std::string::npos
                           ? options.key_type
                           : choose<DataType>("--kv-type", arguments.kv_type.substr(comma + 1), kTypes);
}

// What the library takes.
constexpr std::int64_t kMaxWindow = std::int64_t{1} << 30;
constexpr float kMinSoftcap = 1e-30F, kMaxSoftcap = 1e30F;

void parse_window(const std::string& text, SlidingWindow& window) {
  const auto side = [](const std::string& number, std::int64_t& keys) {
    return bench::read_number(number, keys) == bench::NumberError::kNone && keys >= kUnlimited &&
           keys <= kMaxWindow;
  };
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos && side(text.substr(0, comma), window.left) &&
      side(text.substr(comma + 1), window.right)) {
    return;
  }
  fail_usage("--window needs two counts of keys, left and right, such as 512,0, each up to " +
             std::to_string(kMaxWindow) + " or -1 for no bound, not '" + console::printable(text) + "'");
}

void parse_softcap(const std::string& text, RunOptions& options) {
  if (bench::read_number(text, options.softcap) == bench::NumberError::kNone &&
      (options.softcap == 0 || (options.softcap >= kMinSoftcap && options.softcap <= kMaxSoftcap))) {
    return;
  }
  fail_usage("--softcap needs a number from 1e-30 to 1e30, or 0 for none, not '" + console::printable(text) +
             "'");
}

void parse_align(const std::string& text, RunOptions& options) {
  if (text == "top-left") {
    options.align = Align::kTopLeft;
  } else if (text == "bottom-right") {
    options.align = Align::kBottomRight;
  } else if (bench::read_number(text, options.offset) == bench::NumberError::kNone) {
    options.align = Align::kOffset;
  } else {
    fail_usage("--align needs top-left, bottom-right or a whole number, not '" + console::printable(text) +
               "'");
  }
}

void parse_positions(const RunArguments& arguments, RunOptions& options) {
  options.causal = arguments.causal;
  if (!arguments.window.empty()) parse_window(arguments.window, options.window);
  if (arguments.alibi && !arguments.alibi_slopes.empty()) {
    fail_usage("--alibi takes the standard slopes and --alibi-slopes those of a file; give one of them");
  }
  if (arguments.alibi) options.alibi = Alibi::kStandard;
  if (!arguments.alibi_slopes.empty()) options.alibi = Alibi::kGiven;
  if (arguments.align.empty()) return;
  if (!options.causal && arguments.window.empty() && options.alibi == Alibi::kNone) {
    fail_usage("--align says where query 0 lies among the keys, so it needs --causal, --window or --alibi");
  }
  parse_align(arguments.align, options);
}

void parse_weights(const RunArguments& arguments, RunOptions& options) {
  using Stage = std::pair<std::string_view, WeightsStage>;
  constexpr std::array<Stage, 4> kStages{
      Stage{"scores", WeightsStage::kScores}, Stage{"softcap", WeightsStage::kSoftcap},
      Stage{"masked", WeightsStage::kMasked}, Stage{"probabilities", WeightsStage::kProbabilities}};
  if (!arguments.weights.empty()) options.weights = WeightsStage::kProbabilities;
  if (arguments.weights_stage.empty()) return;
  if (arguments.weights.empty()) fail_usage("--weights-stage says which weights --weights writes; give both");
  options.weights = choose<WeightsStage>("--weights-stage", arguments.weights_stage, kStages);
}

void parse_dropout(const RunArguments& arguments, RunOptions& options) {
  if (!arguments.dropout.empty()) {
    // Of shares that round to 1 in float32 no probability would be left.
    const bool number = bench::read_number(arguments.dropout, options.dropout) == bench::NumberError::kNone;
    if (!number || !(options.dropout >= 0 && options.dropout < 1)) {
      fail_usage("--dropout needs a share from 0 to 0.9999999, not '" +
                 console::printable(arguments.dropout) + "'");
    }
  }
  if (arguments.seed.empty()) return;
  if (arguments.dropout.empty()) fail_usage("--seed is for --dropout; give both");
  if (bench::read_number(arguments.seed, options.dropout_seed) != bench::NumberError::kNone) {
    fail_usage("--seed needs a whole number of up to 64 bits, not '" + console::printable(arguments.seed) +
               "'");
  }
}

void add_file_options(CLI::App& app, RunArguments& a) {
  add_value(app, "--query", a.query, "Q.npy",
            "Queries (batch, heads, length, dim); rank 3: one batch entry, 2: one head");
  add_value(app, "--key", a.key, "K.npy",
            "Keys; heads may be fewer than the query's (grouped-query attention)");
  add_value(app, "--value", a.value, "V.npy", "Values; their last dimension may differ from the others'");
  add_value(app, "--past-key", a.past_key, "P.npy", "Keys of a cache, which come before those of --key");
  add_value(app, "--past-value", a.past_value, "P.npy", "Their values");
  add_value(app, "--output", a.output, "O.npy", "Write the result: float16 for f16, else float32");
  add_value(app, "--lse", a.lse, "L.npy",
            "Write the log-sum-exp of each row's scores, float32 (batch, heads, length)");
  add_value(app, "--weights", a.weights, "W.npy",
            "Write the attention weights, float32 (batch, heads, query length, key length)");
  add_value(app, "--weights-stage", a.weights_stage, "STAGE",
            "Which: scores, softcap, masked (-inf where hidden) or probabilities (the default)");
  add_value(app, "--present-key", a.present_key, "O.npy", "Write past and new keys as one array");
  add_value(app, "--present-value", a.present_value, "O.npy", "Write past and new values as one array");
  add_value(
      app, "--layout", a.layout, "ORDER",
      "Order of the axes: bhsd (batch, heads, length, dim; the default) or bshd (batch, length, heads, dim)");
}

void add_definition_options(CLI::App& app, RunArguments& a) {
  add_value(app, "--scale", a.scale, "X", "Factor of the scores, default 1/sqrt(dim)");
  add_value(app, "--softcap", a.softcap, "X", "Keep scores within X of 0: X tanh(score / X)");
  add_value(app, "--mask", a.mask, "M.npy",
            "Added to the scores, or bool or uint8: what is not 0 may be seen. Of a shape that broadcasts to "
            "(batch, heads, "
            "query length, key length); keys beyond a short one are hidden");
  add_switch(app, "--causal", a.causal, "A query sees no key after its own position");
  add_value(app, "--window", a.window, "L,R",
            "A query sees L keys before and R after its own position; -1: no bound");
  add_switch(app, "--alibi", a.alibi, "Subtract slope times distance from the scores (ALiBi)");
  add_value(app, "--alibi-slopes", a.alibi_slopes, "F.npy", "The same with slopes of your own (heads,)");
  add_value(app, "--align", a.align, "WHERE",
            "Key position of query 0 for --causal, --window and --alibi: top-left (0, the default), "
            "bottom-right (the last query meets the last key) or a number");
  add_value(app, "--sink", a.sink, "F.npy", "A logit for each head that has no value (heads,)");
  add_value(app, "--dropout", a.dropout, "P", "Drop this share of the probabilities");
  add_value(app, "--seed", a.seed, "S", "Seed of --dropout, default 1");
}

}  // namespace

void add_run_arguments(CLI::App& app, RunArguments& a) {
  add_file_options(app, a);
  add_definition_options(app, a);
  add_value(app, "--kv-lengths", a.kv_lengths, "N.npy",
            "Keys in use of each batch entry, of any integer type (batch,)");
  add_value(app, "--query-lengths", a.query_lengths, "N.npy",
            "Queries of each batch entry, likewise; what is written beyond them is 0, in L.npy -inf");
  add_value(app, "--cumulative-query-lengths", a.cumulative_query_lengths, "N.npy",
            "Packed sequences (varlen): Q.npy holds them one after the other, (heads, rows, dim) or with "
            "--layout bshd (rows, heads, dim), and N.npy is 0 and then the row at which each ends "
            "(batch + 1,); O.npy is packed alike, L.npy is (heads, rows)");
  add_value(app, "--cumulative-kv-lengths", a.cumulative_kv_lengths, "N.npy",
            "The same for K.npy and V.npy; without it these keep a batch axis and padding, as a cache has "
            "them. Weights and masks count within each sequence, up to the longest query and key length");
  add_value(app, "--type", a.type, "TYPE",
            "Storage on the device: f32, f16 or bf16; default f16 where all inputs are float16, else f32");
  add_value(app, "--kv-type", a.kv_type, "TYPE[,TYPE]",
            "Storage of keys and values, if another: these, or quantised to q8_0, q4_0 or e4m3; of two the "
            "first is for keys, the second for values");
  add_score_options(app, a.score);
  add_value(app, "--kernel", a.kernel, "NAME", "Use this kernel or fail (vkattn devices lists them)");
  add_switch(app, "--strict-nonfinite", a.strict_nonfinite,
             "Only kernels in which no NaN or infinity of a hidden value reaches the output");
  add_device_option(app, a.where);
  add_tuning_option(app, a.where);
  add_switch(app, "--check", a.check,
             "Compare every row with the float64 reference; exit 1 above the tolerance");
  add_switch(app, "--json", a.json, "Print JSON");
  set_help(app, "vkattn run --query Q.npy --key K.npy --value V.npy [OPTIONS]",
           "Inputs are float16, float32 or float64. Each value is rounded once, to the storage type.\n\n"
           "Examples:\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --check\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --lse L.npy \\\n"
           "             --causal --align bottom-right --type f16 --layout bshd\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy \\\n"
           "             --window 512,0 --align bottom-right --sink S.npy --kv-type q8_0 --check\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --mask M.npy --weights W.npy\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --past-key PK.npy \\\n"
           "             --past-value PV.npy --present-key NK.npy --present-value NV.npy \\\n"
           "             --output O.npy --causal --align bottom-right\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy \\\n"
           "             --score documents.glsl --score-buffer document=ids.npy\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --layout bshd \\\n"
           "             --cumulative-query-lengths cu_seqlens_q.npy \\\n"
           "             --cumulative-kv-lengths cu_seqlens_k.npy --causal --align bottom-right\n");
}

RunOptions parse_run_arguments(const RunArguments& arguments) {
  require_inputs(arguments);
  require_sense_of_packing(arguments);
  require_different_files(arguments);
  RunOptions options;
  options.query = arguments.query;
  options.key = arguments.key;
  options.value = arguments.value;
  options.past_key = arguments.past_key;
  options.past_value = arguments.past_value;
  options.mask = arguments.mask;
  options.alibi_slopes = arguments.alibi_slopes;
  options.sink = arguments.sink;
  options.kv_lengths = arguments.kv_lengths;
  options.query_lengths = arguments.query_lengths;
  options.cumulative_query_lengths = arguments.cumulative_query_lengths;
  options.cumulative_kv_lengths = arguments.cumulative_kv_lengths;
  options.lse = !arguments.lse.empty();
  parse_types(arguments, options);
  parse_positions(arguments, options);
  parse_weights(arguments, options);
  parse_dropout(arguments, options);
  if (!arguments.scale.empty()) options.scale = parse_float("--scale", arguments.scale);
  if (!arguments.softcap.empty()) parse_softcap(arguments.softcap, options);
  require_known_kernel(arguments.kernel);
  return options;
}

}  // namespace vkattn::cli

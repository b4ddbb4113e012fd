// The options of `vkattn run`.
#include "run_arguments.hpp"

#include <span>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "file_names.hpp"
#include "run_gradients.hpp"

namespace vkattn::cli {
namespace {

template <class T>
T choose(std::string_view option, std::string_view text, std::span<const bench::Name<T>> names) {
  T value{};
  read_option(option, text, [&](const bench::Given& given) { return bench::read_name(given, names, value); });
  return value;
}

constexpr FileOption<RunFiles> kRunArrays[] = {
    {"--query", &RunFiles::query, "Q.npy",
     "Queries (batch, heads, length, dim); rank 3: one batch entry, 2: one head"},
    {"--key", &RunFiles::key, "K.npy",
     "Keys; heads may be fewer than the query's (grouped-query attention), and one batch entry is for all"},
    {"--value", &RunFiles::value, "V.npy", "Values; their last dimension may differ from the others'"},
    {"--past-key", &RunFiles::past_key, "P.npy", "Keys of a cache, which come before those of --key"},
    {"--past-value", &RunFiles::past_value, "P.npy", "Their values"}};

constexpr FileOption<RunFiles> kMaskAndLengths[] = {
    {"--mask", &RunFiles::mask, "M.npy",
     "Added to the scores, or bools or integers: what is not 0 may be seen. Of a shape that broadcasts to "
     "(batch, heads, query length, key length); keys beyond a short one are hidden"},
    {"--kv-lengths", &RunFiles::kv_lengths, "N.npy",
     "Keys in use of each batch entry, of any integer type (batch,)"},
    {"--query-lengths", &RunFiles::query_lengths, "N.npy",
     "Queries of each batch entry, likewise; what is written beyond them is 0, in L.npy -inf"},
    {"--cumulative-query-lengths", &RunFiles::cumulative_query_lengths, "N.npy",
     "Packed sequences (varlen): Q.npy holds them one after the other, (heads, rows, dim) or with --layout "
     "bshd (rows, heads, dim), and N.npy is 0 and then the row at which each ends (batch + 1,); O.npy is "
     "packed alike, L.npy is (heads, rows)"},
    {"--cumulative-kv-lengths", &RunFiles::cumulative_kv_lengths, "N.npy",
     "The same for K.npy and V.npy; without it these keep a batch axis and padding, as a cache has them. "
     "Weights and masks count within each sequence, up to the longest query and key length"},
    {"--ring-lengths", &RunFiles::ring_lengths, "N.npy",
     "K.npy and V.npy are rings: key j lies in row j mod their length, so that only the last ones exist, and "
     "N.npy is how many each batch entry has had (batch,)"},
    {"--page-table", &RunFiles::page_table, "T.npy",
     "K.npy and V.npy are pages (pages, heads, keys of a page, dim), and T.npy says which each batch entry "
     "has, in their order (batch, pages); with --kv-lengths as many as these need"}};

constexpr FileOption<RunFiles> kRotaryFiles[] = {
    {"--query-positions", &RunFiles::query_positions, "P.npy",
     "Positions of queries for --rotary, integers (length,) or (batch, length); by default query i is at "
     "i + offset, as --align has it"},
    {"--key-positions", &RunFiles::key_positions, "P.npy",
     "Positions of keys, likewise; by default key j is at j"},
    {"--rotary-frequencies", &RunFiles::rotary_frequencies, "F.npy",
     "Radians for each position, one for each pair of dims, in place of base^(-2i / dims)"}};

constexpr FileOption<RunFiles> kGradientInputs[] = {
    {"--grad-output", &RunFiles::grad_output, "G.npy",
     "The gradient of a loss with respect to the output, of O.npy's shape: what the gradients of the inputs "
     "are made of"},
    {"--grad-lse", &RunFiles::grad_lse, "G.npy",
     "The gradient of the loss with respect to the lse, of L.npy's shape, if the loss depends on that too"}};

void require_inputs(const RunArguments& arguments) {
  for (const FileOption<RunFiles>& option : std::span(kRunArrays).first(3)) {
    if (!(arguments.*option.path).empty()) continue;
    fail_usage(std::string("run needs --query, --key and --value; ") + option.name + " is missing");
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

/// Two options that set the same fact, or that place keys in two ways.
struct Conflict {
  std::string RunFiles::*given;
  std::string RunFiles::*other;
  const char* text;
};

constexpr Conflict kConflicts[] = {
    {&RunFiles::cumulative_query_lengths, &RunFiles::query_lengths,
     "--cumulative-query-lengths already says how many queries each sequence has; leave out --query-lengths"},
    {&RunFiles::cumulative_kv_lengths, &RunFiles::kv_lengths,
     "--cumulative-kv-lengths already says how many keys each sequence has; leave out --kv-lengths"},
    {&RunFiles::cumulative_kv_lengths, &RunFiles::past_key,
     "--past-key and --past-value go before the keys of batch entries, but --cumulative-kv-lengths packs "
     "these; leave it out, and give --key and --value a batch axis"},
    {&RunFiles::ring_lengths, &RunFiles::kv_lengths,
     "--ring-lengths already says how many keys each batch entry has had; leave out --kv-lengths"},
    {&RunFiles::ring_lengths, &RunFiles::page_table,
     "--ring-lengths and --page-table say where keys lie in two ways; give one of them"},
    {&RunFiles::ring_lengths, &RunFiles::cumulative_kv_lengths,
     "--ring-lengths takes keys of batch entries, but --cumulative-kv-lengths packs them; give one of them"},
    {&RunFiles::page_table, &RunFiles::cumulative_kv_lengths,
     "--page-table takes keys in pages, but --cumulative-kv-lengths packs them; give one of them"},
    {&RunFiles::ring_lengths, &RunFiles::past_key,
     "--past-key and --past-value go before keys in one piece, but --ring-lengths makes --key a ring; join "
     "them beforehand"},
    {&RunFiles::page_table, &RunFiles::past_key,
     "--past-key and --past-value go before keys in one piece, but --page-table has --key in pages; put them "
     "into pages too"}};

/// --rotary turns rows on the device, and only keys in one piece.
void require_sense_of_rotary(const RunArguments& a) {
  if (a.rotary.empty()) {
    const bool says_more = !a.rotary_dims.empty() || !a.rotary_base.empty() || !a.query_positions.empty() ||
                           !a.key_positions.empty() || !a.rotary_frequencies.empty();
    if (says_more)
      fail_usage("positions, dims, base and frequencies are for --rotary; give its style with it");
    return;
  }
  if (!a.ring_lengths.empty() || !a.page_table.empty() || !a.past_key.empty()) {
    fail_usage(
        "--rotary turns keys in one piece, but a ring, pages and --past-key hold turned keys; turn the "
        "queries beforehand");
  }
  if (asks_for_gradients(a)) {
    fail_usage("gradients are those of turned queries and keys, which --rotary makes; turn them beforehand");
  }
}

RotaryDesc read_rotary(const RunArguments& a) {
  RotaryDesc rotary;
  if (a.rotary.empty()) return rotary;
  rotary.style = choose<RotaryStyle>("--rotary", a.rotary, bench::kRotaryNames);
  if (!a.rotary_dims.empty()) rotary.dims = parse_integer("--rotary-dims", a.rotary_dims);
  if (!a.rotary_dims.empty() && rotary.dims < 2)
    fail_usage("--rotary-dims is " + a.rotary_dims +
               " but must be an even number from 2 to the head dimension");
  if (!a.rotary_base.empty()) rotary.base = parse_number("--rotary-base", a.rotary_base);
  return rotary;
}

void require_sense_of_lengths(const RunFiles& a) {
  if (a.cumulative_query_lengths.empty() && !a.cumulative_kv_lengths.empty()) {
    fail_usage(
        "--cumulative-kv-lengths packs the keys of queries that are packed too; give "
        "--cumulative-query-lengths with it");
  }
  for (const Conflict& conflict : kConflicts) {
    if (!(a.*conflict.given).empty() && !(a.*conflict.other).empty()) fail_usage(conflict.text);
  }
}

/// No file that is written may be a file that is read or written by another option.
void require_different_files(const RunArguments& a) {
  FileNames files;
  files.add_inputs(kRunArrays, a);
  files.add_inputs(kMaskAndLengths, a);
  files.add_inputs(kRotaryFiles, a);
  for (const WordArgument& argument : a.words) {
    if (argument.word->option.tensor != nullptr) {
      files.add_input(std::string(argument.word->option.name), argument.text);
    }
  }
  add_score_files(files, a.score);
  files.add_inputs(kGradientInputs, a);
  add_tuning_file(files, a.where);
  add_output_files(files, a);
}

void parse_types(const RunArguments& arguments, RunOptions& options) {
  options.problem.desc.layout = choose<Layout>("--layout", arguments.layout, bench::kArrayLayoutNames);
  if (!arguments.type.empty()) {
    options.type = choose<DataType>("--type", arguments.type, bench::kFloatNames);
  }
  if (arguments.kv_type.empty()) return;
  const std::string_view text = arguments.kv_type;
  const std::size_t comma = text.find(',');
  options.key_type = choose<DataType>("--kv-type", text.substr(0, comma), bench::kTypeNames);
  options.value_type = comma == std::string_view::npos
                           ? options.key_type
                           : choose<DataType>("--kv-type", text.substr(comma + 1), bench::kTypeNames);
}

/// Refuses an option that only adds to another option, if that other option is missing.
void require_sense_of_words(const RunArguments& a) {
  if (is_given(a.words, "--alibi-slopes") && is_given(a.words, "--alibi")) {
    fail_usage("--alibi takes the standard slopes and --alibi-slopes those of a file; give one of them");
  }
  if (is_given(a.words, "--alibi-times-mask") && a.mask.empty())
    fail_usage("--alibi-times-mask is for an additive --mask; give both");
  if (a.rotary.empty()) require_sense_of_align(a.words);  // --align also places the queries of --rotary
  if (is_given(a.words, "--weights-stage") && a.weights.empty()) {
    fail_usage("--weights-stage says which weights --weights writes; give both");
  }
  if (is_given(a.words, "--dropout-seed") && !is_given(a.words, "--dropout"))
    fail_usage("--dropout-seed is for --dropout; give both");
}

/// Gradients need the gradient of the output, and each needs its input.
void require_sense_of_gradients(const RunArguments& a) {
  std::vector<std::string> options;
  for (const OutputRow& row : output_rows()) {
    if (!row.is_gradient()) continue;
    const std::string option = row.option.name;
    options.push_back(option);
    if (!row.is_given(a)) continue;
    if (a.grad_output.empty())
      fail_usage(option + " is made of the gradient of the output; give --grad-output with it");
    if (row.gradient.of == nullptr) continue;
    const std::string of = row.gradient.of;
    if (of == "--mask" ? a.mask.empty() : !is_given(a.words, of))
      fail_usage(option + " is the gradient of " + of + "; give both");
  }
  const bool any = asks_for_gradients(a);
  if (!a.grad_output.empty() && !any) {
    std::string names;
    for (const std::string& option : options) {
      const bool is_last = option == options.back();
      names += (names.empty() ? "" : is_last ? " or " : ", ") + option;
    }
    fail_usage("--grad-output is what gradients are made of; say which to write: " + names);
  }
  if (!a.grad_lse.empty() && a.grad_output.empty()) {
    fail_usage(
        "--grad-lse is for a loss that also has --grad-output; give both, zeros where the loss depends on "
        "the lse alone");
  }
  if (!a.backward_kernel.empty() && !any)
    fail_usage("--backward-kernel is for gradients; give --grad-output and say which to write");
  if (read_arithmetic(a.choice) != DataType::kFloat32 && any) {
    fail_usage("gradients are those of float32 arithmetic: leave out --arithmetic");
  }
}

void add_problem_options(CLI::App& app, RunArguments& a) {
  add_file_options(app, kRunArrays, a);
  add_output_options(app, a, false);
  add_value(
      app, "--layout", a.layout, "ORDER",
      "Order of the axes: bhsd (batch, heads, length, dim; the default) or bshd (batch, length, heads, dim)");
  for (const bench::Word& word : bench::words()) {
    if (!word.option.name.empty()) a.words.push_back({&word, ""});
  }
  add_word_options(app, a.words);
  add_file_options(app, kMaskAndLengths, a);
  add_value(
      app, "--rotary", a.rotary, "STYLE",
      "Turn queries and keys by their positions first: half-split (dims i and i + dims / 2) or interleaved "
      "(2i and 2i + 1)");
  add_value(app, "--rotary-dims", a.rotary_dims, "N", "The first so many dims, default all");
  add_value(app, "--rotary-base", a.rotary_base, "X", "Base of the frequencies, default 10000");
  add_file_options(app, kRotaryFiles, a);
}

}  // namespace

void add_run_arguments(CLI::App& app, RunArguments& a) {
  add_problem_options(app, a);
  add_file_options(app, kGradientInputs, a);
  add_output_options(app, a, true);
  add_value(app, "--type", a.type, "TYPE",
            "Storage on the device: f32, f16 or bf16; default f16 where all inputs are float16, else f32");
  add_value(
      app, "--kv-type", a.kv_type, "TYPE[,TYPE]",
      "Storage of keys and values on the device, if not that of --type: f32, f16, bf16, or quantised to "
      "q8_0, q4_0 or e4m3; two types are for keys and for values");
  add_score_options(app, a.score);
  add_kernel_option(app, a.choice);
  add_value(app, "--backward-kernel", a.backward_kernel, "NAME",
            "Use this kernel for gradients or fail, default: that of --kernel");
  add_arithmetic_option(app, a.choice);
  add_strict_option(app, a.choice);
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
           "             --window 512,0 --align bottom-right --sinks S.npy --kv-type q8_0 --check\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --mask M.npy --weights W.npy\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --past-key PK.npy \\\n"
           "             --past-value PV.npy --present-key NK.npy --present-value NV.npy \\\n"
           "             --output O.npy --causal --align bottom-right\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --causal --grad-output DO.npy \\\n"
           "             --grad-query DQ.npy --grad-key DK.npy --grad-value DV.npy --check\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy \\\n"
           "             --score documents.glsl --score-buffer document=ids.npy\n"
           "  vkattn run --query Q.npy --key K.npy --value V.npy --output O.npy --layout bshd \\\n"
           "             --cumulative-query-lengths cu_seqlens_q.npy \\\n"
           "             --cumulative-kv-lengths cu_seqlens_k.npy --causal --align bottom-right\n");
}

RunOptions parse_run_arguments(const RunArguments& arguments) {
  require_inputs(arguments);
  require_sense_of_lengths(arguments);
  require_sense_of_rotary(arguments);
  require_sense_of_words(arguments);
  require_sense_of_gradients(arguments);
  require_different_files(arguments);
  RunOptions options;
  static_cast<RunFiles&>(options) = arguments;
  for (const WordArgument& argument : arguments.words) {
    const bench::WordOption& option = argument.word->option;
    if (option.tensor == nullptr || !argument.is_given()) continue;
    options.per_head.push_back({std::string(option.name), argument.text, option.tensor});
  }
  parse_types(arguments, options);
  options.rotary = read_rotary(arguments);
  if (!arguments.weights.empty()) options.problem.desc.weights = WeightsStage::kProbabilities;
  options.problem.desc.has_lse = !arguments.lse.empty() || asks_for_gradients(arguments);
  parse_words(arguments.words, options.problem);
  options.is_align_left_out = asks_for_positions(arguments.words) && !is_given(arguments.words, "--align");
  require_known_kernel(arguments.choice.kernel);
  if (asks_for_gradients(arguments))
    (void)backward_kernel(arguments.choice.kernel, arguments.backward_kernel);
  return options;
}

}  // namespace vkattn::cli

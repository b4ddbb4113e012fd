// See arguments.hpp.
#include "inspect/arguments.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "error.hpp"
#include "file_names.hpp"

namespace vkattn::cli {
namespace {

/// Problem words that have a meaning for the weights of one batch entry.
constexpr std::array<std::string_view, 6> kWords = {"--causal", "--window", "--alibi",
                                                    "--align",  "--scale",  "--softcap"};

constexpr std::string_view mode_option(InspectMode mode) {
  constexpr std::array<std::string_view, 5> kOptions = {"--text", "--query and --key",
                                                        "--input and --weights", "--sweep-dim", "--memory"};
  return kOptions.at(static_cast<std::size_t>(mode));
}

/// An option that was given, and the modes that it belongs to.
struct Given {
  std::string_view option;
  bool is_given;
  std::vector<InspectMode> belongs_to;
};

void require_belonging(InspectMode mode, const InspectArguments& a) {
  using enum InspectMode;
  std::vector<Given> all = {{"--heads", !a.heads.empty(), {kText, kLayer, kMemory}},
                            {"--kv-heads", !a.kv_heads.empty(), {kLayer}},
                            {"--head-dim", !a.head_dim.empty(), {kText, kLayer, kMemory}},
                            {"--seed", !a.seed.empty(), {kText, kSweep}},
                            {"--layout", !a.layout.empty(), {kArrays}},
                            {"--batch", !a.batch.empty(), {kArrays}},
                            {"--layer", !a.layer.empty(), {kLayer}},
                            {"--labels", !a.labels.empty(), {kArrays, kLayer}},
                            {"--labels-file", !a.labels_file.empty(), {kArrays, kLayer}},
                            {"--colors", !a.colors.empty(), {kText, kArrays, kLayer}},
                            {"--colors-per-head", a.colors_per_head, {kText, kArrays, kLayer}},
                            {"--value", !a.value.empty(), {kArrays}},
                            {"--output", !a.output.empty(), {kLayer}},
                            {"--print", a.print_weights, {kText, kArrays, kLayer}},
                            {"--steps", a.steps, {kText, kArrays, kLayer}},
                            {"--plot", !a.plot.empty(), {kText, kArrays, kLayer, kSweep}},
                            {"--check", a.check, {kText, kArrays, kLayer, kSweep}}};
  for (const WordArgument& word : a.words) {
    all.push_back({word.word->option.name, word.is_given(), {kText, kArrays, kLayer}});
  }
  for (const Given& given : all) {
    if (!given.is_given || std::ranges::find(given.belongs_to, mode) != given.belongs_to.end()) continue;
    std::string places;
    for (const InspectMode each : given.belongs_to) {
      places += (places.empty() ? "" : " or ") + std::string(mode_option(each));
    }
    fail_usage(std::string(given.option) + " has no meaning with " + std::string(mode_option(mode)) +
               "; it goes with " + places);
  }
}

}  // namespace

InspectMode inspect_mode(const InspectArguments& a) {
  const bool arrays = !a.query.empty() || !a.key.empty();
  const bool layer = !a.input.empty() || !a.weights.empty();
  const std::array<std::pair<InspectMode, bool>, 5> ways = {
      std::pair(InspectMode::kText, !a.text.empty()), std::pair(InspectMode::kArrays, arrays),
      std::pair(InspectMode::kLayer, layer), std::pair(InspectMode::kSweep, !a.sweep_dim.empty()),
      std::pair(InspectMode::kMemory, !a.memory.empty())};
  std::optional<InspectMode> mode;
  for (const auto& [way, is_given] : ways) {
    if (!is_given) continue;
    if (mode) {
      fail_usage("give one of " + std::string(mode_option(*mode)) + " and " + std::string(mode_option(way)) +
                 ", not both");
    }
    mode = way;
  }
  if (!mode)
    fail_usage("inspect needs --query and --key, --input and --weights, --text, --sweep-dim or --memory");
  if (arrays && (a.query.empty() || a.key.empty())) {
    fail_usage(std::string("--query and --key belong together; ") + (a.query.empty() ? "--query" : "--key") +
               " is missing");
  }
  if (layer && (a.input.empty() || a.weights.empty())) {
    fail_usage(std::string("--input and --weights belong together; ") +
               (a.input.empty() ? "--input" : "--weights") + " is missing");
  }
  require_belonging(*mode, a);
  if (!a.value.empty() && !a.steps) fail_usage("--value is for the output that --steps shows; give --steps");
  if (!a.labels.empty() && !a.labels_file.empty()) fail_usage("give one of --labels and --labels-file");
  if (!a.colors.empty() && a.colors != "linear" && a.colors != "sqrt")
    fail_usage("--colors is '" + a.colors + "' but must be linear or sqrt");
  if ((!a.colors.empty() || a.colors_per_head) && a.plot.empty())
    fail_usage(std::string(a.colors.empty() ? "--colors-per-head" : "--colors") +
               " is for the picture of --plot; give --plot");
  require_sense_of_align(a.words);
  FileNames files;
  files.add_input("--query", a.query);
  files.add_input("--key", a.key);
  files.add_input("--value", a.value);
  files.add_input("--input", a.input);
  files.add_input("--weights", a.weights);
  files.add_input("--labels-file", a.labels_file);
  add_tuning_file(files, a.where);
  files.add_output("--plot", a.plot);
  files.add_output("--output", a.output);
  return *mode;
}

std::int64_t number_of(const std::string& option, const std::string& text, std::int64_t least,
                       std::int64_t most, std::int64_t otherwise) {
  if (text.empty()) return otherwise;
  const std::int64_t value = parse_integer(option, text);
  if (value < least || value > most) {
    fail_usage(option + " " + text + " is not from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value;
}

std::vector<std::int64_t> numbers_of(const std::string& option, const std::string& text, std::int64_t least,
                                     std::int64_t most) {
  constexpr std::size_t kMostNumbers = 16;
  std::vector<std::int64_t> numbers;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find(',', begin);
    const std::string word = text.substr(begin, end == std::string::npos ? end : end - begin);
    if (word.empty()) fail_usage(option + " needs a number before and after each comma");
    numbers.push_back(number_of(option, word, least, most, 0));
  }
  std::ranges::sort(numbers);
  if (const auto twice = std::ranges::adjacent_find(numbers); twice != numbers.end())
    fail_usage(option + " names " + std::to_string(*twice) + " twice");
  if (numbers.size() > kMostNumbers) {
    fail_usage(option + " takes up to " + std::to_string(kMostNumbers) + " numbers, and these are " +
               std::to_string(numbers.size()));
  }
  return numbers;
}

std::uint64_t seed_of(const InspectArguments& arguments) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::uint64_t>(number_of("--seed", arguments.seed, 0, kMost, 1));
}

namespace {

void add_layer_options(CLI::App& app, InspectArguments& a) {
  add_value(app, "--input", a.input, "X.safetensors|.npy",
            "The input of a layer, (length, width) or a batch of one: of the first kind of file its tensor "
            "LAYER.input, with the metadata 'labels', a line for each row");
  add_value(
      app, "--weights", a.weights, "W.safetensors",
      "The layer's in_proj_weight, or q_proj_weight and k_proj_weight, and in_proj_bias, as "
      "nn.MultiheadAttention of PyTorch has them; or q_proj.weight, query.weight, to_q.weight or wq.weight "
      "with the key's and their biases, or qkv.weight, as published models name them. Rotary positions, "
      "which no file of weights tells, are left out");
  add_value(app, "--layer", a.layer, "NAME",
            "What comes before these names and a dot, such as blocks.0.attention");
  add_value(
      app, "--output", a.output, "O.npy",
      "Write the layer's output, of the input's shape: attention with W_V, which stands beside W_Q, then "
      "W_O (out_proj.weight, o_proj.weight, proj.weight, to_out.0.weight or wo.weight) and its bias");
}

}  // namespace

void add_inspect_arguments(CLI::App& app, InspectArguments& a) {
  add_value(
      app, "--text", a.text, "TEXT",
      "Words as tokens, with embeddings and projections from a seed: untrained, so that the weights show "
      "the mechanism and carry no meaning");
  add_value(app, "--heads", a.heads, "N",
            "Heads of --text (4, at most 16), --weights (must be given) and --memory (1)");
  add_value(app, "--head-dim", a.head_dim, "N",
            "Dimension of a head, default 64; with --weights their sizes tell it");
  add_value(app, "--kv-heads", a.kv_heads, "N",
            "Heads of keys and values of --weights, where their sizes leave it open");
  add_value(app, "--seed", a.seed, "S", "Of --text and --sweep-dim, default 1");
  add_value(app, "--query", a.query, "Q.npy",
            "Queries (batch, heads, length, dim); rank 3: one batch entry, 2: one head");
  add_value(app, "--key", a.key, "K.npy",
            "Keys; heads may be fewer than the query's (grouped-query attention)");
  add_value(app, "--value", a.value, "V.npy", "Values, for the output that --steps shows");
  add_layer_options(app, a);
  add_value(app, "--layout", a.layout, "ORDER",
            "Order of the axes: bhsd (batch, heads, length, dim; the default) or bshd");
  add_value(app, "--batch", a.batch, "N", "The batch entry to look at, default 0");
  add_value(app, "--labels", a.labels, "TEXT", "Words for the queries and keys, one for each");
  add_value(app, "--labels-file", a.labels_file, "FILE",
            "The same from a file, a label in each line, or a JSON list of texts: labels may have spaces");
  for (const std::string_view name : kWords) {
    for (const bench::Word& word : bench::words()) {
      if (word.option.name == name) a.words.push_back({&word, ""});
    }
  }
  add_word_options(app, a.words);
  add_value(app, "--sweep-dim", a.sweep_dim, "D,D,...",
            "Random unit-normal queries and keys of these dimensions: deviation of scores, entropy, largest "
            "weight and gradient with and without the scale 1/sqrt(D)");
  add_value(app, "--memory", a.memory, "N,N,...",
            "What a score matrix of N x N would take, and what this library takes");
  add_switch(app, "--print", a.print_weights,
             "Print the weights, up to 12 queries and keys, in place of their statistics");
  add_switch(app, "--steps", a.steps,
             "Print each step: scores, scaled and masked (where they change), weights, and with --value the "
             "output");
  add_value(app, "--plot", a.plot, "FILE.png|.svg", "Also draw it: a heat map for each head, or the sweep");
  add_value(app, "--colors", a.colors, "SCALE",
            "Of the heat maps: linear (the default), or sqrt, which tells small weights apart");
  add_switch(
      app, "--colors-per-head", a.colors_per_head,
      "Each head's largest weight has the last colour, so that a sharp head leaves others their contrast");
  add_device_option(app, a.where);
  add_switch(app, "--check", a.check,
             "Compare every weight with the float64 reference; exit 1 above the tolerance");
  add_switch(app, "--json", a.json, "Print JSON, with every weight");
  set_help(
      app, "vkattn inspect (--text | --query --key | --input --weights | --sweep-dim | --memory) [OPTIONS]",
      "Weights are computed on the device. Entropy is 0 bits where a row looks at one key, and log2 of the\n"
      "keys that it sees where it looks at all alike.\n\n"
      "Examples:\n"
      "  vkattn inspect --text \"The animal slept because it was tired\" \\\n"
      "                 --plot heads.png\n"
      "  vkattn inspect --query Q.npy --key K.npy --causal --plot heads.svg --check\n"
      "  vkattn inspect --query Q.npy --key K.npy --value V.npy --labels \"cat sat\" --steps\n"
      "  vkattn inspect --query Q.npy --key K.npy --labels \"to be or not to be\" --json\n"
      "  vkattn inspect --input X.npy --weights model.safetensors --layer blocks.0.attention --heads 4 "
      "--causal \\\n"
      "                 --output O.npy\n"
      "  vkattn inspect --sweep-dim 4,16,64,256,512 --plot scale.png\n"
      "  vkattn inspect --memory 512,4096,32768 --heads 32 --head-dim 128\n");
}

}  // namespace vkattn::cli

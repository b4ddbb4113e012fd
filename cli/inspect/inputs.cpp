// See inputs.hpp.
#include "inspect/inputs.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "inspect/labels.hpp"
#include "inspect/tokens.hpp"
#include "json.hpp"
#include "npy.hpp"
#include "problem/names.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {
namespace {

void require_batch(const InputFile& query, std::int64_t batch) {
  if (batch < query.batch) return;
  fail_usage("--batch " + std::to_string(batch) + ": " + query.text() + " has " +
             console::count(static_cast<std::uint64_t>(query.batch), "batch entry") + ", counted from 0");
}

/// Reads a file's array from the chosen batch entry on.
std::vector<float> read_entry(InputFile& input, std::int64_t batch, const TensorDesc& storage) {
  const std::int64_t elements = input.reader.header().elements;
  std::vector<float> values = take(npy::read_floats(input.reader, elements));
  values.erase(values.begin(), values.begin() + batch * storage.strides.value().batch);
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (!std::ranges::all_of(values, is_finite))
    fail_usage(input.text() + " has a NaN, or a number beyond float32; weights need finite numbers");
  return values;
}

void require_sizes(const RunInputs& files) {
  const InputFile& query = files.query;
  const InputFile& key = files.key;
  if (query.length == 0 || query.heads == 0) fail_usage(query.text() + " has no rows to look at");
  if (key.length < 2) {
    fail_usage(key.text() + " has " + console::count(static_cast<std::uint64_t>(key.length), "key") +
               "; weights of fewer than 2 say nothing");
  }
  // The files exist, so their sizes are small: no product of two of them comes near 2^63.
  if (query.length > kMostWeights / key.length || query.heads > kMostWeights / (query.length * key.length)) {
    fail_usage(query.text() + " and " + key.text() + " make more than the " + std::to_string(kMostWeights) +
               " weights that inspect takes");
  }
}

}  // namespace

AttentionDesc desc_with_output(AttentionDesc desc) {
  desc = desc.resolved();
  desc.layout = Layout::kBhsd;
  desc.output = {};
  desc = desc.resolved();
  require(validate(desc));
  return desc;
}

AttentionDesc desc_of_words(const InspectArguments& arguments) {
  Problem problem;
  parse_words(arguments.words, problem);
  return problem.desc;
}

void set_stand_in_values(AttentionDesc& desc) {
  desc = desc.resolved();
  desc.value = desc.key;
  desc.value_dim = 1;
  desc.output = {};
  desc = desc.resolved();
  require(validate(desc));
}

std::vector<std::string> number_labels(std::int64_t count) {
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(std::to_string(i));
  return labels;
}

std::string file_label(const std::string& path) {
  return drawable(std::filesystem::path(path).filename().string());
}

InspectInputs inputs_of_text(const InspectArguments& arguments) {
  InspectInputs inputs;
  const std::vector<std::string> tokens = read_tokens("--text", arguments.text);
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count < 2 || count > kMostTokens) {
    fail_usage("--text has " + console::count(tokens.size(), "token") + "; inspect takes from 2 to " +
               std::to_string(kMostTokens));
  }
  const ProjectionSettings settings{number_of("--heads", arguments.heads, 1, kMostTextHeads, 4),
                                    number_of("--head-dim", arguments.head_dim, 1, kMaxHeadDim, 64),
                                    seed_of(arguments)};
  inputs.desc = desc_of_words(arguments);
  inputs.desc.query_heads = inputs.desc.kv_heads = settings.heads;
  inputs.desc.query_length = inputs.desc.kv_length = count;
  inputs.desc.head_dim = settings.head_dim;
  set_stand_in_values(inputs.desc);
  inputs.query = project_tokens(tokens, settings, Projection::kQuery);
  inputs.key = project_tokens(tokens, settings, Projection::kKey);
  inputs.query_labels = inputs.key_labels = tokens;
  for (const std::string& token : tokens) inputs.source += (inputs.source.empty() ? "" : " ") + token;
  inputs.warning = "Untrained: embeddings and projections are random (seed " + std::to_string(settings.seed) +
                   "), so the weights show the mechanism and carry no meaning.";
  return inputs;
}

InspectInputs inputs_of_arrays(const InspectArguments& arguments) {
  RunOptions options;
  options.query = arguments.query;
  options.key = arguments.key;
  options.value = arguments.value.empty() ? arguments.key : arguments.value;
  options.type = DataType::kFloat32;
  options.problem.desc = desc_of_words(arguments);
  if (!arguments.layout.empty()) {
    read_option("--layout", arguments.layout, [&](const bench::Given& given) {
      return bench::read_name(given, bench::kArrayLayoutNames, options.problem.desc.layout);
    });
  }
  const std::int64_t batch = number_of("--batch", arguments.batch, 0, INT32_MAX, 0);
  RunInputs files = open_run_inputs(options);
  require_sizes(files);
  require_batch(files.query, batch);
  InspectInputs inputs;
  inputs.advice = files.warnings;
  inputs.desc = files.problem.desc;
  inputs.query = read_entry(files.query, batch, inputs.desc.query);
  inputs.key = read_entry(files.key, batch, inputs.desc.key);
  inputs.desc.batch = 1;
  if (!arguments.value.empty()) {
    inputs.value = read_entry(files.value, batch, inputs.desc.value);
    inputs.output_desc = desc_with_output(inputs.desc);
  }
  set_stand_in_values(inputs.desc);
  inputs.source = file_label(arguments.query);
  if (arguments.key != arguments.query) inputs.source += " and " + file_label(arguments.key);
  if (files.query.batch > 1) inputs.source += ", batch entry " + std::to_string(batch);
  inputs.query_labels = number_labels(inputs.desc.query_length);
  inputs.key_labels = number_labels(inputs.desc.kv_length);
  const std::vector<std::string> labels = given_labels(
      arguments, {{files.query.text(), inputs.desc.query_length}, {files.key.text(), inputs.desc.kv_length}});
  inputs.labels_are_numbers = labels.empty();
  if (!labels.empty()) inputs.query_labels = inputs.key_labels = labels;
  return inputs;
}

}  // namespace vkattn::cli

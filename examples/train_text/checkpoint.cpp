#include "train_text/checkpoint.hpp"

#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

#include "decoder/text.hpp"

namespace train_text {

namespace {

constexpr const char* kTraining = "training.safetensors";

vkattn::TensorToStore floats(std::string name, std::vector<std::int64_t> shape,
                             std::span<const float> values) {
  return {std::move(name), vkattn::StoredType::kFloat32, std::move(shape), std::as_bytes(values)};
}

void add_parameters(std::vector<vkattn::TensorToStore>& tensors, const Parameters& parameters,
                    const std::string& prefix, std::span<const float> all) {
  for (const Parameter& each : parameters.all()) {
    tensors.push_back(floats(
        prefix + each.name, {each.tensor.outputs, each.tensor.inputs},
        all.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.elements()))));
  }
}

// Visits the numbers among the metadata, with what they are called and their ranges.
template <class Progress, class Visit>
void visit_numbers(Progress& progress, const Visit& visit) {
  visit("heads", progress.shape.heads, 1, 1024);
  visit("layers", progress.shape.layers, 1, 32);
  visit("context", progress.shape.context, 2, 65536);
  visit("width", progress.shape.width, 1, 65536);
  visit("batch", progress.batch, 1, 65536);
  visit("seed", progress.seed, 0, UINT64_MAX);
  visit("rate", progress.rate, 0, 1);
}

vkattn::Error about(const std::filesystem::path& path, const std::string& what) {
  return decoder::refusal(path.string() + ": " + what);
}

}  // namespace

vkattn::Result<void> save(const std::filesystem::path& folder, const Progress& progress,
                          const Parameters& parameters) {
  const std::vector<float> values = parameters.values.read();
  const std::vector<float> means = parameters.means.read(), squares = parameters.squares.read();
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {"vocabulary", progress.vocabulary}};
  visit_numbers(progress, [&](const char* name, auto number, auto...) {
    std::array<char, 32> text{};  // the same bits are read from it
    metadata[name].assign(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
  });
  std::vector<vkattn::TensorToStore> tensors;
  add_parameters(tensors, parameters, "", values);
  if (auto status = vkattn::write_safetensors(folder / "model.safetensors", tensors, metadata); !status)
    return status;
  add_parameters(tensors, parameters, "adamw.mean.", means);
  add_parameters(tensors, parameters, "adamw.square.", squares);
  tensors.push_back(floats("losses", {std::ssize(progress.losses)}, progress.losses));
  return vkattn::write_safetensors(folder / kTraining, tensors, metadata);
}

vkattn::Result<Progress> load_progress(const std::filesystem::path& folder) {
  auto file = vkattn::SafetensorsFile::open(folder / kTraining);
  if (!file) return file.error();
  Progress progress;
  std::string refusal;  // for the first text that is no number in range
  visit_numbers(progress, [&]<class T>(const char* name, T& number, auto least, auto most) {
    const auto found = file->metadata().find(name);
    const std::string text = found == file->metadata().end() ? "" : found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    const bool fits = is_number && number >= static_cast<T>(least) && number <= static_cast<T>(most);
    if (!fits && refusal.empty())
      refusal = "the metadata '" + std::string(name) + "' are '" + text.substr(0, 40) +
                "', which is no such number";
  });
  if (!refusal.empty()) return about(file->path(), refusal);
  const auto vocabulary = file->metadata().find("vocabulary");
  if (vocabulary == file->metadata().end())
    return about(file->path(), "has no vocabulary among its metadata");
  progress.vocabulary = vocabulary->second;
  auto losses = file->read_floats("losses");
  if (!losses) return losses.error();
  progress.losses = std::move(*losses);
  return progress;
}

vkattn::Result<void> load_parameters(const std::filesystem::path& folder, const Parameters& parameters) {
  auto file = vkattn::SafetensorsFile::open(folder / kTraining);
  if (!file) return file.error();
  const std::array<std::pair<const char*, const Floats*>, 3> arrays = {
      {{"", &parameters.values}, {"adamw.mean.", &parameters.means}, {"adamw.square.", &parameters.squares}}};
  for (const auto& [prefix, array] : arrays) {
    std::vector<float> all(static_cast<std::size_t>(parameters.size()));
    for (const Parameter& each : parameters.all()) {
      const std::array<std::int64_t, 2> shape = {each.tensor.outputs, each.tensor.inputs};
      const auto values = file->read_floats(prefix + each.name, shape);
      if (!values) return values.error();
      std::ranges::copy(*values, all.begin() + static_cast<std::ptrdiff_t>(each.offset));
    }
    array->write(all);
  }
  return {};
}

vkattn::Result<void> save_attention_inputs(const std::filesystem::path& folder,
                                           const std::vector<std::vector<float>>& inputs,
                                           const std::vector<std::string>& labels) {
  std::vector<vkattn::TensorToStore> tensors;
  for (std::size_t layer = 0; layer < inputs.size(); ++layer)
    tensors.push_back(floats(block_name(layer) + "attention.input",
                             {std::ssize(labels), std::ssize(inputs[layer]) / std::ssize(labels)},
                             inputs[layer]));
  std::string lines;
  for (const std::string& label : labels) lines += (lines.empty() ? "" : "\n") + label;
  return vkattn::write_safetensors(folder / "inspect.safetensors", tensors, {{"labels", lines}});
}

}  // namespace train_text

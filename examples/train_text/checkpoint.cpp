#include "train_text/checkpoint.hpp"

#include <vkattn/safetensors.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

namespace train_text {

namespace {

using Metadata = std::map<std::string, std::string>;

constexpr const char* kTraining = "training.safetensors";

vkattn::TensorToStore floats(std::string name, std::vector<std::int64_t> shape,
                             std::span<const float> values) {
  return {std::move(name), vkattn::StoredType::kFloat32, std::move(shape), std::as_bytes(values)};
}

void add_parameters(std::vector<vkattn::TensorToStore>& tensors, const Parameters& parameters,
                    const std::string& prefix, std::span<const float> all) {
  for (const Parameter& each : parameters.all()) {
    tensors.push_back(floats(
        prefix + each.name, {each.rows, each.columns},
        all.subspan(static_cast<std::size_t>(each.offset), static_cast<std::size_t>(each.elements()))));
  }
}

// The parts of a shape that the files' tensors do not tell.
Metadata shape_metadata(const Progress& progress) {
  return {{"format", "pt"},
          {"vocabulary", progress.vocabulary},
          {"heads", std::to_string(progress.shape.heads)},
          {"layers", std::to_string(progress.shape.layers)},
          {"context", std::to_string(progress.shape.context)},
          {"width", std::to_string(progress.shape.width)}};
}

// The text of a number that is read back with the same bits.
std::string exact_text(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

// Reads numbers of the metadata, and keeps an error for the first text that is not one in range.
struct NumberReader {
  const Metadata& metadata;
  std::string refusal;

  template <class T>
  void read(const std::string& name, T& value, T least, T most) {
    const auto found = metadata.find(name);
    const std::string text = found == metadata.end() ? "" : found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = error == std::errc() && end == text.data() + text.size();
    if ((!is_number || !(value >= least && value <= most)) && refusal.empty())
      refusal = "the metadata '" + name + "' are '" + text.substr(0, 40) + "', which is no such number";
  }
};

vkattn::Error about(const std::filesystem::path& path, const std::string& what) {
  return {vkattn::ErrorCode::kInvalidArgument, 0, path.string() + ": " + what};
}

}  // namespace

vkattn::Result<void> save(const std::filesystem::path& folder, const Progress& progress,
                          const Parameters& parameters) {
  const std::vector<float> values = parameters.values.read();
  const std::vector<float> means = parameters.means.read(), squares = parameters.squares.read();
  std::vector<vkattn::TensorToStore> tensors;
  add_parameters(tensors, parameters, "", values);
  const Metadata metadata = shape_metadata(progress);
  if (auto status = vkattn::write_safetensors(folder / "model.safetensors", tensors, metadata); !status)
    return status;
  add_parameters(tensors, parameters, "adamw.mean.", means);
  add_parameters(tensors, parameters, "adamw.square.", squares);
  tensors.push_back(floats("losses", {static_cast<std::int64_t>(progress.losses.size())}, progress.losses));
  Metadata all = metadata;
  all["batch"] = std::to_string(progress.batch);
  all["seed"] = std::to_string(progress.seed);
  all["rate"] = exact_text(progress.rate);
  return vkattn::write_safetensors(folder / kTraining, tensors, all);
}

vkattn::Result<Progress> load_progress(const std::filesystem::path& folder) {
  auto file = vkattn::SafetensorsFile::open(folder / kTraining);
  if (!file) return file.error();
  Progress progress;
  NumberReader numbers{file->metadata(), {}};
  numbers.read<std::int64_t>("heads", progress.shape.heads, 1, 1024);
  numbers.read<std::int64_t>("layers", progress.shape.layers, 1, 32);
  numbers.read<std::int64_t>("context", progress.shape.context, 2, 65536);
  numbers.read<std::int64_t>("width", progress.shape.width, 1, 65536);
  numbers.read<std::int64_t>("batch", progress.batch, 1, 65536);
  numbers.read<std::uint64_t>("seed", progress.seed, 0, UINT64_MAX);
  numbers.read<float>("rate", progress.rate, 0, 1);
  if (!numbers.refusal.empty()) return about(file->path(), numbers.refusal);
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
      const std::array<std::int64_t, 2> shape = {each.rows, each.columns};
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
  const auto rows = static_cast<std::int64_t>(labels.size());
  for (std::size_t layer = 0; layer < inputs.size(); ++layer) {
    tensors.push_back(floats(block_name(static_cast<std::int64_t>(layer)) + "attention.input",
                             {rows, static_cast<std::int64_t>(inputs[layer].size()) / rows}, inputs[layer]));
  }
  std::string lines;
  for (const std::string& label : labels) lines += (lines.empty() ? "" : "\n") + label;
  return vkattn::write_safetensors(folder / "inspect.safetensors", tensors, {{"labels", lines}});
}

}  // namespace train_text

#include "train_text/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace train_text {

namespace {

constexpr std::int64_t kAlignment = 64;  // floats: every device takes bindings at multiples of 256 bytes

// The deviation of a matrix's numbers that keeps the size of activations (He's, without its factor for a
// ReLU).
float deviation(std::int64_t inputs) {
  return 1 / std::sqrt(static_cast<float>(inputs));
}

std::vector<Parameter> list_parameters(const Shape& shape) {
  const std::int64_t width = shape.width, hidden = shape.hidden();
  // With more layers, each one adds less (GPT-2).
  const float depth = 1 / std::sqrt(static_cast<float>(2 * shape.layers));
  std::vector<Parameter> all;
  const auto add = [&](const std::string& name, std::int64_t rows, std::int64_t columns, float size) {
    const std::int64_t offset =
        all.empty() ? 0
                    : (all.back().offset + all.back().elements() + kAlignment - 1) / kAlignment * kAlignment;
    all.push_back({name, rows, columns, size, offset});
  };
  add("token_embedding.weight", shape.vocabulary, width, 0.5F);
  add("position_embedding.weight", shape.context, width, 0.1F);
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(shape.layers); ++layer) {
    const std::string block = block_name(layer);
    add(block + "attention.in_proj_weight", 3 * width, width, deviation(width));
    add(block + "attention.out_proj.weight", width, width, deviation(width) * depth);
    add(block + "mlp.up.weight", hidden, width, deviation(width));
    add(block + "mlp.down.weight", width, hidden, deviation(hidden) * depth);
  }
  // Zeros: at first all tokens are equally likely, so the loss begins at ln(vocabulary).
  add("head.weight", shape.vocabulary, width, 0);
  return all;
}

}  // namespace

std::string block_name(std::size_t layer) {
  return "blocks." + std::to_string(layer) + ".";
}

Parameters::Parameters(const vkattn::Runtime& runtime, const Shape& shape)
    : shape_(shape),
      parameters_(list_parameters(shape)),
      size_(parameters_.back().offset + parameters_.back().elements()),
      values(runtime, size_),
      gradients(runtime, size_),
      means(runtime, size_),
      squares(runtime, size_) {
  const std::vector<float> zeros(static_cast<std::size_t>(size_));
  for (const Floats* array : {&values, &gradients, &means, &squares}) array->write(zeros);
}

void Parameters::initialise(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  // Box and Muller's method, as every standard library has its own normal_distribution.
  const auto normal = [&] {
    constexpr double kUnit = 0x1p-53, kTurn = 6.283185307179586;
    const double radius = std::sqrt(-2 * std::log(static_cast<double>((random() >> 11U) + 1) * kUnit));
    return radius * std::cos(kTurn * static_cast<double>(random() >> 11U) * kUnit);
  };
  std::vector<float> all(static_cast<std::size_t>(size_));
  for (const Parameter& parameter : parameters_) {
    for (std::int64_t i = 0; i < parameter.elements(); ++i)
      all[static_cast<std::size_t>(parameter.offset + i)] =
          static_cast<float>(normal()) * parameter.deviation;
  }
  values.write(all);
}

std::int64_t Parameters::count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.elements();
  return count;
}

const Parameter& Parameters::at(std::string_view name) const {
  return *std::ranges::find(parameters_, name, &Parameter::name);
}

vkattn::BufferRange Parameters::range(const Floats& array, std::string_view name) const {
  const Parameter& found = at(name);
  vkattn::BufferRange range = array.range(found.offset);
  range.size = static_cast<VkDeviceSize>(found.elements()) * sizeof(float);
  return range;
}

}  // namespace train_text

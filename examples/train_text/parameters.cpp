#include "train_text/parameters.hpp"

#include <vkattn/initialisation.hpp>

#include <cmath>
#include <span>

namespace train_text {

namespace {

constexpr std::int64_t kAlignment = 64;  // floats: every device takes bindings at multiples of 256 bytes

// The deviation of a matrix's numbers that keeps the size of activations (He's, without its factor for a
// ReLU).
float deviation(std::int64_t inputs) {
  return 1 / std::sqrt(static_cast<float>(inputs));
}

std::vector<Parameter> list_parameters(const Shape& shape, decoder::Weights& weights) {
  const std::int64_t width = shape.width, hidden = shape.hidden();
  // With more layers, each one adds less (GPT-2).
  const float depth = 1 / std::sqrt(static_cast<float>(2 * shape.layers));
  std::vector<Parameter> all;
  const auto add = [&](decoder::Tensor& tensor, const std::string& name, std::int64_t outputs,
                       std::int64_t inputs, float size) {
    const std::int64_t end = all.empty() ? 0 : all.back().offset + all.back().elements();
    tensor.outputs = outputs;
    tensor.inputs = inputs;
    all.push_back({name, tensor, size, (end + kAlignment - 1) / kAlignment * kAlignment});
  };
  add(weights.embedding, "token_embedding.weight", shape.vocabulary, width, 0.5F);
  add(weights.positions, "position_embedding.weight", shape.context, width, 0.1F);
  weights.layers.resize(static_cast<std::size_t>(shape.layers));
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const std::string block = block_name(i);
    decoder::Weights::Layer& layer = weights.layers[i];
    add(layer.qkv, block + "attention.in_proj_weight", 3 * width, width, deviation(width));
    add(layer.out, block + "attention.out_proj.weight", width, width, deviation(width) * depth);
    add(layer.up, block + "mlp.up.weight", hidden, width, deviation(width));
    add(layer.down, block + "mlp.down.weight", width, hidden, deviation(hidden) * depth);
  }
  // Zeros: at first all tokens are equally likely, so the loss begins at ln(vocabulary).
  add(weights.head, "head.weight", shape.vocabulary, width, 0);
  return all;
}

}  // namespace

decoder::Model Shape::model() const {
  decoder::Model model;
  model.vocabulary = vocabulary;
  model.context = context;
  model.layers = layers;
  model.width = width;
  model.hidden = hidden();
  model.heads = model.kv_heads = heads;
  model.head_dim = head_dim();
  model.activation = decoder::Activation::kGelu;
  model.is_gated = false;
  model.epsilon = 1e-6F;  // as in norm.comp
  model.scale = 1 / std::sqrt(static_cast<float>(model.head_dim));
  model.windows.resize(static_cast<std::size_t>(layers));
  return model;
}

std::string block_name(std::size_t layer) {
  return "blocks." + std::to_string(layer) + ".";
}

std::int64_t Parameters::size_of(const Shape& shape) {
  decoder::Weights weights;
  const std::vector<Parameter> all = list_parameters(shape, weights);
  return all.back().offset + all.back().elements();
}

Parameters::Parameters(const vkattn::Runtime& runtime, const Shape& shape)
    : shape_(shape),
      parameters_(list_parameters(shape, weights_)),
      size_(parameters_.back().offset + parameters_.back().elements()),
      values(runtime, size_),
      gradients(runtime, size_),
      means(runtime, size_),
      squares(runtime, size_),
      gains_(runtime, shape.width) {
  const std::vector<float> zeros(static_cast<std::size_t>(size_));
  for (const Floats* array : {&values, &gradients, &means, &squares}) array->write(zeros);
  for (const Parameter& each : parameters_) {
    each.tensor.range = values.range(each.offset);
    each.tensor.range.size = each.tensor.bytes();
  }
  gains_.write(std::vector<float>(static_cast<std::size_t>(shape.width), 1.0F));
  weights_.last_norm = {.outputs = shape.width, .range = gains_.range()};
  for (decoder::Weights::Layer& layer : weights_.layers)
    layer.attention_norm = layer.mlp_norm = weights_.last_norm;
}

void Parameters::initialise(std::uint64_t seed) const {
  std::vector<float> all(static_cast<std::size_t>(size_));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& each = parameters_[i];
    const auto numbers = std::span(all).subspan(static_cast<std::size_t>(each.offset),
                                                static_cast<std::size_t>(each.elements()));
    // Its deviation is sqrt(2 / (inputs + outputs)), times the last argument.
    vkattn::initialise(numbers, 1, 1, vkattn::Initialisation::kXavierNormal, seed + (std::uint64_t{i} << 32U),
                       each.deviation);
  }
  values.write(all);
}

std::int64_t Parameters::count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.elements();
  return count;
}

vkattn::BufferRange Parameters::gradient(const decoder::Tensor& weight) const {
  vkattn::BufferRange range = weight.range;
  range.buffer = gradients.range().buffer;
  return range;
}

}  // namespace train_text

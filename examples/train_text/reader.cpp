#include "train_text/reader.hpp"

#include <algorithm>
#include <cmath>

namespace train_text {

namespace {

decoder::Model model_of(const Shape& shape) {
  decoder::Model model;
  model.vocabulary = shape.vocabulary;
  model.context = shape.context;
  model.layers = shape.layers;
  model.width = shape.width;
  model.hidden = shape.hidden();
  model.heads = model.kv_heads = shape.heads;
  model.head_dim = shape.head_dim();
  model.activation = decoder::Activation::kGelu;
  model.is_gated = false;
  model.epsilon = 1e-6F;  // as in norm.comp
  model.scale = 1 / std::sqrt(static_cast<float>(model.head_dim));
  model.windows.resize(static_cast<std::size_t>(shape.layers));
  return model;
}

decoder::Weights weights_of(const Parameters& parameters, const Floats& gains) {
  const auto named = [&](const std::string& name) {
    const Parameter& parameter = parameters.at(name);
    return decoder::Tensor{
        .outputs = parameter.rows, .inputs = parameter.columns, .range = parameters.value(name)};
  };
  decoder::Weights weights;
  weights.embedding = named("token_embedding.weight");
  weights.positions = named("position_embedding.weight");
  weights.head = named("head.weight");
  weights.last_norm = {.outputs = parameters.shape().width, .range = gains.range()};
  for (std::size_t i = 0; i < static_cast<std::size_t>(parameters.shape().layers); ++i) {
    const std::string block = block_name(i);
    decoder::Weights::Layer& layer = weights.layers.emplace_back();
    layer.qkv = named(block + "attention.in_proj_weight");
    layer.out = named(block + "attention.out_proj.weight");
    layer.up = named(block + "mlp.up.weight");
    layer.down = named(block + "mlp.down.weight");
    layer.attention_norm = layer.mlp_norm = weights.last_norm;
  }
  return weights;
}

}  // namespace

Reader::Reader(const vkattn::Runtime& runtime, const Parameters& parameters)
    : runtime_(runtime),
      model_(model_of(parameters.shape())),
      gains_(runtime, model_.width),
      weights_(weights_of(parameters, gains_)),
      graph_(runtime, model_, weights_,
             {.cache = vkattn::DataType::kFloat32, .context = parameters.shape().context}) {
  gains_.write(std::vector<float>(static_cast<std::size_t>(model_.width), 1.0F));
}

void Reader::read(decoder::Texts& text, decoder::Sampling& sampling) {
  graph_.read(text, sampling,
              [&](decoder::Graph::Pass, const decoder::Steps& steps) { (void)execute(runtime_, steps); });
}

std::vector<std::uint32_t> Reader::sample(std::vector<std::uint32_t> tokens, std::int64_t count,
                                          decoder::Sampling sampling) {
  const auto context = static_cast<std::ptrdiff_t>(model_.context);
  decoder::Texts text(std::vector(1, tokens));
  std::vector<std::uint32_t>& seen = text.tokens.front();
  if (std::ssize(seen) > context) seen.erase(seen.begin(), seen.end() - context);
  for (std::int64_t i = 0; i < count; ++i) {
    if (std::ssize(seen) > context) {
      seen.erase(seen.begin(), seen.end() - context / 2);
      text.read.front() = 0;
    }
    while (text.left(0) > 0) read(text, sampling);
    seen.push_back(text.chosen.front());
    tokens.push_back(text.chosen.front());
  }
  return tokens;
}

}  // namespace train_text

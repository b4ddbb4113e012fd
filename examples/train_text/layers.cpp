#include "train_text/layers.hpp"

namespace train_text {

namespace {

// The descriptor of a layer over rows of `width`, without biases.
vkattn::MultiHeadAttentionDesc attention_desc(const Shape& shape) {
  vkattn::MultiHeadAttentionDesc desc;
  desc.attention.query_heads = shape.heads;
  desc.d_model = shape.width;
  desc.has_input_bias = desc.has_output_bias = false;
  desc.adds_to_output = true;  // the residual stream
  return desc;
}

using ParameterRange = vkattn::BufferRange (Parameters::*)(std::string_view) const;

// The ranges of a layer's parameters, or of their gradients.
vkattn::MultiHeadAttentionParameters attention_parameters(const Parameters& parameters, std::int64_t layer,
                                                          ParameterRange range) {
  vkattn::MultiHeadAttentionParameters found;
  found.in_proj_weight = (parameters.*range)(block_name(layer) + "attention.in_proj_weight");
  found.out_proj_weight = (parameters.*range)(block_name(layer) + "attention.out_proj.weight");
  return found;
}

}  // namespace

Step Linear::forward(const Builder& build, const vkattn::BufferRange& x, const vkattn::BufferRange& y,
                     bool adds) const {
  vkattn::MatmulDesc desc{.rows = rows, .columns = outputs, .inner = inputs};
  desc.b.strides = vkattn::MatrixStrides{.batch = 0, .row = 1, .column = inputs};
  desc.accumulates = adds;
  return build.plans.step(desc, {.a = x, .b = build.parameters.value(weight), .output = y});
}

Step Linear::grad_input(const Builder& build, const vkattn::BufferRange& grad_y,
                        const vkattn::BufferRange& grad_x) const {
  const vkattn::MatmulDesc desc{.rows = rows, .columns = inputs, .inner = outputs};
  return build.plans.step(desc, {.a = grad_y, .b = build.parameters.value(weight), .output = grad_x});
}

Step Linear::grad_weight(const Builder& build, const vkattn::BufferRange& x,
                         const vkattn::BufferRange& grad_y) const {
  vkattn::MatmulDesc desc{.rows = outputs, .columns = inputs, .inner = rows};
  desc.a.strides = vkattn::MatrixStrides{.batch = 0, .row = 1, .column = outputs};
  return build.plans.step(desc, {.a = grad_y, .b = x, .output = build.parameters.gradient(weight)});
}

Norm::Norm(const Builder& build, std::int64_t rows)
    : y(build.runtime, rows * build.shape.width), rows_(rows), inverse_(build.runtime, rows) {}

Step Norm::forward(const Builder& build, const Floats& x) const {
  return build.shaders.make_step(Shader::kNorm, {x.range(), y.range(), inverse_.range()}, groups_of(rows_),
                                 {word(rows_), word(build.shape.width)});
}

Step Norm::backward(const Builder& build, const Floats& grad_y, const Floats& grad_x, bool adds) const {
  return build.shaders.make_step(Shader::kNormGradient,
                                 {y.range(), inverse_.range(), grad_y.range(), grad_x.range()},
                                 groups_of(rows_), {word(rows_), word(build.shape.width), adds ? 1U : 0U});
}

SelfAttention::SelfAttention(const Builder& build, std::int64_t layer, std::int64_t batch)
    : layer_(layer), desc_(attention_desc(build.shape)) {
  desc_.attention.batch = batch;
  desc_.attention.query_length = build.shape.context;
  desc_.attention.causal = true;
  desc_.saves_for_gradients = true;
  saved_ = checked(build.runtime.create_buffer(build.plans.plan(desc_).saved_bytes()));
}

vkattn::MultiHeadAttentionTensors SelfAttention::tensors(const Builder& build, const Floats& x,
                                                         const Floats& stream) const {
  vkattn::MultiHeadAttentionTensors tensors;
  tensors.query = x.range();
  tensors.output = stream.range();
  tensors.parameters = attention_parameters(build.parameters, layer_, &Parameters::value);
  tensors.saved = saved_.range();
  return tensors;
}

Step SelfAttention::forward(const Builder& build, const Floats& x, const Floats& stream) const {
  return build.plans.step(desc_, tensors(build, x, stream));
}

Step SelfAttention::backward(const Builder& build, const Floats& x, const Floats& stream,
                             const Floats& grad_stream, const Floats& grad_x) const {
  vkattn::MultiHeadAttentionBackwardTensors gradients;
  gradients.forward = tensors(build, x, stream);
  gradients.grad_output = grad_stream.range();
  gradients.grad_query = grad_x.range();
  gradients.grad_parameters = attention_parameters(build.parameters, layer_, &Parameters::gradient);
  return build.plans.step(vkattn::MultiHeadAttentionBackwardDesc{.forward = desc_}, gradients);
}

CachedAttention::CachedAttention(const Builder& build, std::int64_t layer)
    : layer_(layer),
      desc_(attention_desc(build.shape)),
      keys_(build.runtime, build.shape.context * build.shape.width),
      values_(build.runtime, build.shape.context * build.shape.width) {
  desc_.attention.query_length = 1;
  desc_.attention.kv_length = build.shape.context;
  desc_.has_cache = true;
}

Step CachedAttention::forward(const Builder& build, const Floats& x, const Floats& stream,
                              const Indices& position, const Indices& length) const {
  vkattn::MultiHeadAttentionTensors tensors;
  tensors.query = x.range();
  tensors.output = stream.range();
  tensors.parameters = attention_parameters(build.parameters, layer_, &Parameters::value);
  tensors.cache_key = keys_.range();
  tensors.cache_value = values_.range();
  tensors.positions = position.range();
  tensors.attention.kv_lengths = length.range();
  return build.plans.step(desc_, tensors);
}

Mlp::Mlp(const Builder& build, std::int64_t layer, std::int64_t rows)
    : up_{block_name(layer) + "mlp.up.weight", rows, build.shape.width, build.shape.hidden()},
      down_{block_name(layer) + "mlp.down.weight", rows, build.shape.hidden(), build.shape.width},
      count_(rows * build.shape.hidden()),
      hidden_(build.runtime, count_),
      activated_(build.runtime, count_) {}

void Mlp::add_forward(const Builder& build, Steps& steps, const Floats& x, const Floats& stream) const {
  steps.push_back(up_.forward(build, x.range(), hidden_.range()));
  constexpr std::uint32_t kGelu = 1;  // as in activate.comp
  steps.push_back(build.shaders.make_step(Shader::kActivate, {hidden_.range(), activated_.range()},
                                          groups_of(count_), {word(count_), 0, kGelu, 0}));
  steps.push_back(down_.forward(build, activated_.range(), stream.range(), true));
}

void Mlp::add_backward(const Builder& build, Steps& steps, const Floats& x, const Floats& grad_stream,
                       const Floats& grad_x, const Floats& grad_hidden) const {
  steps.push_back(down_.grad_weight(build, activated_.range(), grad_stream.range()));
  steps.push_back(down_.grad_input(build, grad_stream.range(), grad_hidden.range()));
  steps.push_back(build.shaders.make_step(Shader::kGeluGradient, {hidden_.range(), grad_hidden.range()},
                                          groups_of(count_), {word(count_)}));
  steps.push_back(up_.grad_weight(build, x.range(), grad_hidden.range()));
  steps.push_back(up_.grad_input(build, grad_hidden.range(), grad_x.range()));
}

}  // namespace train_text

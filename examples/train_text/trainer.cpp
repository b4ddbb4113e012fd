#include "train_text/trainer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

// SPIR-V of the shaders, which glslang writes as arrays of words.
#include "adamw_comp.h"
#include "cross_entropy_comp.h"
#include "embed_gradient_comp.h"
#include "gelu_gradient_comp.h"
#include "norm_comp.h"
#include "norm_gradient_comp.h"

namespace train_text {

using decoder::checked;
using decoder::groups_of;
using decoder::word;

namespace {

using decoder::Shader;

constexpr Shader kEmbedGradient{"embed_gradient", embed_gradient_comp}, kNorm{"norm", norm_comp},
    kNormGradient{"norm_gradient", norm_gradient_comp}, kGeluGradient{"gelu_gradient", gelu_gradient_comp},
    kCrossEntropy{"cross_entropy", cross_entropy_comp}, kAdamw{"adamw", adamw_comp};

}  // namespace

Trainer::Trainer(const vkattn::Runtime& runtime, const Parameters& parameters, std::int64_t batch)
    : runtime_(runtime),
      parameters_(parameters),
      shape_(parameters.shape()),
      rows_(batch * shape_.context),
      shaders_(runtime),
      plans_(runtime),
      tokens_(runtime, rows_),
      targets_(runtime, rows_),
      positions_(runtime, rows_),
      starts_(runtime, shape_.vocabulary + 1),
      sorted_rows_(runtime, rows_),
      stream_(runtime, rows_ * shape_.width),
      logits_(runtime, rows_ * shape_.vocabulary),
      losses_(runtime, rows_),
      grad_stream_(runtime, rows_ * shape_.width),
      grad_x_(runtime, rows_ * shape_.width),
      grad_hidden_(runtime, rows_ * shape_.hidden()),
      rates_(runtime, 6),
      last_norm_(make_norm()) {
  const std::int64_t count = rows_ * shape_.hidden();
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer)
    blocks_.push_back({make_norm(), make_norm(), Floats(runtime, count), Floats(runtime, count),
                       checked(runtime.create_buffer(plans_.made(attention_desc()).plan.saved_bytes()))});
  std::vector<std::uint32_t> positions;
  for (std::int64_t row = 0; row < rows_; ++row) positions.push_back(word(row % shape_.context));
  positions_.write(positions);
  add_forward();
  add_backward();
  update_ = {shaders_.make_step(kAdamw,
                                {parameters.gradients.range(), parameters.values.range(),
                                 parameters.means.range(), parameters.squares.range(), rates_.range()},
                                groups_of(parameters.size()), {word(parameters.size())})};
  plans_.compile();
}

decoder::Bytes Trainer::number_bytes(const Shape& shape, std::int64_t batch) {
  const auto bytes_of = [&](std::int64_t numbers) {  // of a row
    return static_cast<std::uint64_t>(batch * shape.context * numbers) * sizeof(float);
  };
  decoder::Bytes bytes;
  bytes.add(2 * shape.layers + 1, bytes_of(shape.width));     // norms
  bytes.add(3, bytes_of(shape.width));                        // the stream, and gradients
  bytes.add(2 * shape.layers + 1, bytes_of(shape.hidden()));  // of MLPs, and a gradient
  bytes.add(1, bytes_of(shape.vocabulary));
  return bytes;
}

Trainer::Norm Trainer::make_norm() const {
  return {Floats(runtime_, rows_ * shape_.width), Floats(runtime_, rows_)};
}

// Causal self-attention of whole sequences, without biases, added to the residual stream.
vkattn::MultiHeadAttentionDesc Trainer::attention_desc() const {
  vkattn::MultiHeadAttentionDesc desc;
  desc.attention.batch = rows_ / shape_.context;
  desc.attention.query_heads = shape_.heads;
  desc.attention.query_length = shape_.context;
  desc.attention.causal = true;
  desc.d_model = shape_.width;
  desc.has_input_bias = desc.has_output_bias = false;
  desc.adds_to_output = true;
  desc.saves_for_gradients = true;
  return desc;
}

vkattn::MultiHeadAttentionTensors Trainer::attention_tensors(std::size_t layer) const {
  const decoder::Weights::Layer& weights = parameters_.weights().layers[layer];
  vkattn::MultiHeadAttentionTensors tensors;
  tensors.query = blocks_[layer].attention_norm.y.range();
  tensors.output = stream_.range();
  tensors.parameters.in_proj_weight = weights.qkv.range;
  tensors.parameters.out_proj_weight = weights.out.range;
  tensors.saved = blocks_[layer].saved.range();
  return tensors;
}

void Trainer::add_forward() {
  const decoder::Weights& weights = parameters_.weights();
  const decoder::Model model = shape_.model();
  forward_.push_back(
      make_embedding(shaders_, model, weights, tokens_.range(), positions_.range(), stream_.range(), rows_));
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Block& block = blocks_[layer];
    add_norm(block.attention_norm);
    forward_.push_back(plans_.step(attention_desc(), attention_tensors(layer)));
    add_norm(block.mlp_norm);
    add_product(weights.layers[layer].up, block.mlp_norm.y, block.hidden, false);
    forward_.push_back(
        make_activation(shaders_, model, block.hidden.range(), block.activated.range(), rows_));
    add_product(weights.layers[layer].down, block.activated, stream_, true);
  }
  add_norm(last_norm_);
  add_product(weights.head, last_norm_.y, logits_, false);
  forward_.push_back(shaders_.make_step(kCrossEntropy, {targets_.range(), logits_.range(), losses_.range()},
                                        groups_of(rows_), {word(rows_), word(shape_.vocabulary)}));
}

// Runs after the forward pass, which has left the gradient of the logits in their place.
void Trainer::add_backward() {
  const decoder::Weights& weights = parameters_.weights();
  const std::int64_t count = rows_ * shape_.hidden();
  add_product_gradients(weights.head, last_norm_.y, logits_, grad_x_);
  add_norm_gradient(last_norm_, false);
  for (std::size_t layer = blocks_.size(); layer-- > 0;) {
    const Block& block = blocks_[layer];
    const decoder::Weights::Layer& of_layer = weights.layers[layer];
    add_product_gradients(of_layer.down, block.activated, grad_stream_, grad_hidden_);
    backward_.push_back(shaders_.make_step(kGeluGradient, {block.hidden.range(), grad_hidden_.range()},
                                           groups_of(count), {word(count)}));
    add_product_gradients(of_layer.up, block.mlp_norm.y, grad_hidden_, grad_x_);
    add_norm_gradient(block.mlp_norm, true);
    vkattn::MultiHeadAttentionBackwardTensors gradients;
    gradients.forward = attention_tensors(layer);
    gradients.grad_output = grad_stream_.range();
    gradients.grad_query = grad_x_.range();
    gradients.grad_parameters.in_proj_weight = parameters_.gradient(of_layer.qkv);
    gradients.grad_parameters.out_proj_weight = parameters_.gradient(of_layer.out);
    backward_.push_back(
        plans_.step(vkattn::MultiHeadAttentionBackwardDesc{.forward = attention_desc()}, gradients));
    add_norm_gradient(block.attention_norm, true);
  }
  backward_.push_back(shaders_.make_step(
      kEmbedGradient,
      {starts_.range(), sorted_rows_.range(), grad_stream_.range(), parameters_.gradient(weights.embedding)},
      groups_of(shape_.vocabulary * shape_.width), {word(shape_.vocabulary), word(shape_.width)}));
  // A row is a whole sequence here, and each sequence takes all positions.
  backward_.push_back(
      plans_.step(vkattn::MatmulDesc::sum_columns(rows_ / shape_.context, shape_.context * shape_.width),
                  {.b = grad_stream_.range(), .output = parameters_.gradient(weights.positions)}));
}

void Trainer::add_norm(const Norm& norm) {
  forward_.push_back(shaders_.make_step(kNorm, {stream_.range(), norm.y.range(), norm.inverse.range()},
                                        groups_of(rows_), {word(rows_), word(shape_.width)}));
}

// From the gradient of y in grad_x_. Adds to the stream's gradient, or writes it.
void Trainer::add_norm_gradient(const Norm& norm, bool adds) {
  backward_.push_back(shaders_.make_step(
      kNormGradient, {norm.y.range(), norm.inverse.range(), grad_x_.range(), grad_stream_.range()},
      groups_of(rows_), {word(rows_), word(shape_.width), adds ? 1U : 0U}));
}

void Trainer::add_product(const decoder::Tensor& w, const Floats& x, const Floats& y, bool adds) {
  forward_.push_back(
      plans_.step(product_desc(w, rows_, adds), {.a = x.range(), .b = w.range, .output = y.range()}));
}

void Trainer::add_product_gradients(const decoder::Tensor& w, const Floats& x, const Floats& grad_y,
                                    const Floats& grad_x) {
  vkattn::MatmulDesc of_weight{.rows = w.outputs, .columns = w.inputs, .inner = rows_};
  of_weight.a.strides = vkattn::MatrixStrides{.batch = 0, .row = 1, .column = w.outputs};
  backward_.push_back(
      plans_.step(of_weight, {.a = grad_y.range(), .b = x.range(), .output = parameters_.gradient(w)}));
  const vkattn::MatmulDesc of_x{.rows = rows_, .columns = w.inputs, .inner = w.outputs};
  backward_.push_back(plans_.step(of_x, {.a = grad_y.range(), .b = w.range, .output = grad_x.range()}));
}

double Trainer::run(const Batch& batch, std::initializer_list<const decoder::Steps*> parts) const {
  tokens_.write(batch.tokens);
  targets_.write(batch.targets);
  std::vector<std::uint32_t> starts(static_cast<std::size_t>(shape_.vocabulary) + 1);
  for (const std::uint32_t token : batch.tokens) ++starts[token + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  starts_.write(starts);
  std::vector<std::uint32_t> rows(batch.tokens.size());
  for (std::uint32_t row = 0; row < rows.size(); ++row) rows[starts[batch.tokens[row]]++] = row;
  sorted_rows_.write(rows);
  (void)checked(runtime_.execute([&](VkCommandBuffer commands) {
    for (const decoder::Steps* const steps : parts) record_all(commands, *steps);
  }));
  double sum = 0;
  for (const float loss : losses_.read()) sum += static_cast<double>(loss);
  return sum / static_cast<double>(rows_);
}

double Trainer::loss(const Batch& batch) const {
  return run(batch, {&forward_});
}

double Trainer::gradients(const Batch& batch) const {
  return run(batch, {&forward_, &backward_});
}

double Trainer::train(const Batch& batch, const Rates& rates, std::int64_t step) const {
  const auto factor = [&](float beta) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  };
  rates_.write(std::array{rates.rate, rates.mean_beta, rates.square_beta, rates.decay,
                          factor(rates.mean_beta), factor(rates.square_beta)});
  return run(batch, {&forward_, &backward_, &update_});
}

std::vector<std::vector<float>> Trainer::attention_inputs(std::span<const std::uint32_t> tokens) const {
  Batch batch;  // whose rows behind these tokens change nothing in front of them
  batch.tokens.assign(tokens.begin(), tokens.end());
  batch.tokens.resize(static_cast<std::size_t>(rows_));
  batch.targets.resize(static_cast<std::size_t>(rows_));
  (void)loss(batch);
  std::vector<std::vector<float>> inputs;
  for (const Block& block : blocks_) {
    inputs.push_back(block.attention_norm.y.read());
    inputs.back().resize(tokens.size() * static_cast<std::size_t>(shape_.width));
  }
  return inputs;
}

}  // namespace train_text

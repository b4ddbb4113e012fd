#include "train_text/model.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <numeric>

namespace train_text {

namespace {

// The embedding of rows, by token and by position.
Step embed(const Builder& build, const Indices& tokens, const Indices& positions, const Floats& output,
           std::int64_t rows) {
  return build.shaders.make_step(
      Shader::kEmbed,
      {tokens.range(), positions.range(), build.parameters.value("token_embedding.weight"),
       build.parameters.value("position_embedding.weight"), output.range()},
      groups_of(rows * build.shape.width),
      {word(rows), word(build.shape.width), 0, 1, std::bit_cast<std::uint32_t>(1.0F)});  // as in embed.comp
}

Linear head(const Builder& build, std::int64_t rows) {
  return {"head.weight", rows, build.shape.width, build.shape.vocabulary};
}

}  // namespace

Trainer::Trainer(const Builder& build, std::int64_t batch)
    : build_(build),
      rows_(batch * build.shape.context),
      tokens_(build.runtime, rows_),
      targets_(build.runtime, rows_),
      positions_(build.runtime, rows_),
      starts_(build.runtime, build.shape.vocabulary + 1),
      sorted_rows_(build.runtime, rows_),
      stream_(build.runtime, rows_ * build.shape.width),
      logits_(build.runtime, rows_ * build.shape.vocabulary),
      losses_(build.runtime, rows_),
      grad_stream_(build.runtime, rows_ * build.shape.width),
      grad_x_(build.runtime, rows_ * build.shape.width),
      grad_hidden_(build.runtime, rows_ * build.shape.hidden()),
      last_norm_(build, rows_),
      head_(head(build, rows_)),
      adamw_(build.shaders.make_dispatch(
          Shader::kAdamw,
          std::array{build.parameters.gradients.range(), build.parameters.values.range(),
                     build.parameters.means.range(), build.parameters.squares.range()},
          groups_of(build.parameters.size()))) {
  for (std::int64_t layer = 0; layer < build.shape.layers; ++layer) {
    blocks_.push_back({Norm(build, rows_), SelfAttention(build, layer, batch), Norm(build, rows_),
                       Mlp(build, layer, rows_)});
  }
  std::vector<std::uint32_t> positions;
  for (std::int64_t row = 0; row < rows_; ++row)
    positions.push_back(static_cast<std::uint32_t>(row % build.shape.context));
  positions_.write(positions);
  add_forward();
  add_backward();
  build_.plans.compile();
}

void Trainer::add_forward() {
  forward_.push_back(embed(build_, tokens_, positions_, stream_, rows_));
  for (const Block& block : blocks_) {
    forward_.push_back(block.attention_norm.forward(build_, stream_));
    forward_.push_back(block.attention.forward(build_, block.attention_norm.y, stream_));
    forward_.push_back(block.mlp_norm.forward(build_, stream_));
    block.mlp.add_forward(build_, forward_, block.mlp_norm.y, stream_);
  }
  forward_.push_back(last_norm_.forward(build_, stream_));
  forward_.push_back(head_.forward(build_, last_norm_.y.range(), logits_.range()));
  forward_.push_back(
      build_.shaders.make_step(Shader::kCrossEntropy, {targets_.range(), logits_.range(), losses_.range()},
                               groups_of(rows_), {word(rows_), word(build_.shape.vocabulary)}));
}

// Runs after the forward pass, which has left the gradient of the logits in their place.
void Trainer::add_backward() {
  backward_.push_back(head_.grad_weight(build_, last_norm_.y.range(), logits_.range()));
  backward_.push_back(head_.grad_input(build_, logits_.range(), grad_x_.range()));
  backward_.push_back(last_norm_.backward(build_, grad_x_, grad_stream_, false));
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    block->mlp.add_backward(build_, backward_, block->mlp_norm.y, grad_stream_, grad_x_, grad_hidden_);
    backward_.push_back(block->mlp_norm.backward(build_, grad_x_, grad_stream_, true));
    backward_.push_back(
        block->attention.backward(build_, block->attention_norm.y, stream_, grad_stream_, grad_x_));
    backward_.push_back(block->attention_norm.backward(build_, grad_x_, grad_stream_, true));
  }
  backward_.push_back(build_.shaders.make_step(Shader::kEmbedGradient,
                                               {starts_.range(), sorted_rows_.range(), grad_stream_.range(),
                                                build_.parameters.gradient("token_embedding.weight")},
                                               groups_of(build_.shape.vocabulary * build_.shape.width),
                                               {word(build_.shape.vocabulary), word(build_.shape.width)}));
  // A row is a whole sequence here, and each sequence takes all positions.
  backward_.push_back(build_.plans.step(
      vkattn::MatmulDesc::sum_columns(batch(), build_.shape.context * build_.shape.width),
      {.b = grad_stream_.range(), .output = build_.parameters.gradient("position_embedding.weight")}));
}

void Trainer::write(const Batch& batch) const {
  tokens_.write(batch.tokens);
  targets_.write(batch.targets);
  std::vector<std::uint32_t> starts(static_cast<std::size_t>(build_.shape.vocabulary) + 1);
  for (const std::uint32_t token : batch.tokens) ++starts[token + 1];
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  starts_.write(starts);
  std::vector<std::uint32_t> rows(batch.tokens.size());
  for (std::uint32_t row = 0; row < rows.size(); ++row) rows[starts[batch.tokens[row]]++] = row;
  sorted_rows_.write(rows);
}

double Trainer::mean_loss() const {
  double sum = 0;
  for (const float loss : losses_.read()) sum += static_cast<double>(loss);
  return sum / static_cast<double>(rows_);
}

double Trainer::loss(const Batch& batch) const {
  write(batch);
  (void)checked(build_.runtime.execute([&](VkCommandBuffer commands) { record_all(commands, forward_); }));
  return mean_loss();
}

double Trainer::gradients(const Batch& batch) const {
  write(batch);
  (void)checked(build_.runtime.execute([&](VkCommandBuffer commands) {
    record_all(commands, forward_);
    record_all(commands, backward_);
  }));
  return mean_loss();
}

double Trainer::train(const Batch& batch, const Rates& rates, std::int64_t step) const {
  const auto factor = [&](float beta) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  };
  const auto bits = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  write(batch);
  (void)checked(build_.runtime.execute([&](VkCommandBuffer commands) {
    record_all(commands, forward_);
    record_all(commands, backward_);
    adamw_.record(commands, {word(build_.parameters.size()), bits(rates.rate), bits(rates.mean_beta),
                             bits(rates.square_beta), bits(rates.decay), bits(factor(rates.mean_beta)),
                             bits(factor(rates.square_beta))});
  }));
  return mean_loss();
}

Reader::Reader(const Builder& build)
    : build_(build),
      token_(build.runtime, 1),
      position_(build.runtime, 1),
      length_(build.runtime, 1),
      stream_(build.runtime, build.shape.width),
      logits_(build.runtime, build.shape.vocabulary),
      last_norm_(build, 1) {
  for (std::int64_t layer = 0; layer < build.shape.layers; ++layer)
    blocks_.push_back({Norm(build, 1), CachedAttention(build, layer), Norm(build, 1), Mlp(build, layer, 1)});
  steps_.push_back(embed(build, token_, position_, stream_, 1));
  for (const Block& block : blocks_) {
    steps_.push_back(block.attention_norm.forward(build, stream_));
    steps_.push_back(block.attention.forward(build, block.attention_norm.y, stream_, position_, length_));
    steps_.push_back(block.mlp_norm.forward(build, stream_));
    block.mlp.add_forward(build, steps_, block.mlp_norm.y, stream_);
  }
  steps_.push_back(last_norm_.forward(build, stream_));
  steps_.push_back(head(build, 1).forward(build, last_norm_.y.range(), logits_.range()));
  build.plans.compile();
}

std::vector<float> Reader::read(std::uint32_t token, std::int64_t position) const {
  token_.write(std::array{token});
  position_.write(std::array{static_cast<std::uint32_t>(position)});
  (void)checked(build_.runtime.execute([&](VkCommandBuffer commands) { record_all(commands, steps_); }));
  return logits_.read();
}

std::vector<float> Reader::attention_input(std::int64_t layer) const {
  return blocks_[static_cast<std::size_t>(layer)].attention_norm.y.read();
}

}  // namespace train_text

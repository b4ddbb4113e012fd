// The training of a transformer: token and position embedding, blocks of attention and MLP around a residual
// stream, and a head.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decoder/steps.hpp"
#include "train_text/parameters.hpp"
#include "train_text/text.hpp"

namespace train_text {

// The rates of AdamW in a step.
struct Rates {
  float rate = 0, mean_beta = 0.9F, square_beta = 0.99F, decay = 0.1F;
};

class Trainer {
 public:
  // For batches of so many sequences. Runtime and parameters outlive it.
  Trainer(const vkattn::Runtime& runtime, const Parameters& parameters, std::int64_t batch);

  // Of what a step computes, without the workspaces of plans and what attention saves.
  [[nodiscard]] static decoder::Bytes number_bytes(const Shape& shape, std::int64_t batch);

  // Returns the mean loss over a batch, in nats for each token, with the current parameters.
  [[nodiscard]] double loss(const Batch& batch) const;
  // loss() that also computes the parameters' gradients.
  [[nodiscard]] double gradients(const Batch& batch) const;
  // gradients() that then changes the parameters. Steps count from 1.
  [[nodiscard]] double train(const Batch& batch, const Rates& rates, std::int64_t step) const;
  // The input of each layer's attention for these tokens: rows of `width`, for at most as many tokens as the
  // context has.
  [[nodiscard]] std::vector<std::vector<float>> attention_inputs(std::span<const std::uint32_t> tokens) const;

 private:
  // What a norm, y = x / rms(x), leaves for its gradient.
  struct Norm {
    Floats y, inverse;
  };
  struct Block {
    Norm attention_norm, mlp_norm;
    Floats hidden, activated;  // of the MLP
    vkattn::Buffer saved;      // by attention
  };
  [[nodiscard]] Norm make_norm() const;
  [[nodiscard]] vkattn::MultiHeadAttentionDesc attention_desc() const;
  [[nodiscard]] vkattn::MultiHeadAttentionTensors attention_tensors(std::size_t layer) const;

  // Each adds steps to forward_, or to backward_.
  void add_forward();
  void add_backward();
  void add_norm(const Norm& norm);
  void add_norm_gradient(const Norm& norm, bool adds);
  void add_product(const decoder::Tensor& w, const Floats& x, const Floats& y, bool adds);
  void add_product_gradients(const decoder::Tensor& w, const Floats& x, const Floats& grad_y,
                             const Floats& grad_x);

  [[nodiscard]] double run(const Batch& batch, std::initializer_list<const decoder::Steps*> parts) const;

  const vkattn::Runtime& runtime_;
  const Parameters& parameters_;
  Shape shape_;
  std::int64_t rows_;
  decoder::Shaders shaders_;
  decoder::PlansOf<vkattn::MatmulDesc, vkattn::MultiHeadAttentionDesc, vkattn::MultiHeadAttentionBackwardDesc>
      plans_;
  Indices tokens_, targets_, positions_;
  Indices starts_, sorted_rows_;  // rows by token: those of token t begin at starts_[t]
  Floats stream_, logits_, losses_;
  Floats grad_stream_, grad_x_, grad_hidden_;
  Floats rates_;  // of AdamW
  std::vector<Block> blocks_;
  Norm last_norm_;
  decoder::Steps forward_, backward_, update_;
};

}  // namespace train_text

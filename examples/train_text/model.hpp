// The transformer: token and position embedding, blocks of attention and MLP around a residual stream, and a
// head. It is trained on whole sequences, and reads one token at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_text/layers.hpp"

namespace train_text {

// Sequences side by side: the token of each position, and the token that follows it.
struct Batch {
  std::vector<std::uint32_t> tokens, targets;
};

// The rates of AdamW in a step.
struct Rates {
  float rate = 0, mean_beta = 0.9F, square_beta = 0.99F, decay = 0.1F;
};

class Trainer {
 public:
  Trainer(const Builder& build, std::int64_t batch);

  // Returns the mean loss over a batch, in nats for each token, with the current parameters.
  [[nodiscard]] double loss(const Batch& batch) const;
  // loss() that also computes the parameters' gradients.
  [[nodiscard]] double gradients(const Batch& batch) const;
  // gradients() that then changes the parameters. Steps count from 1.
  [[nodiscard]] double train(const Batch& batch, const Rates& rates, std::int64_t step) const;

  [[nodiscard]] std::int64_t batch() const { return rows_ / build_.shape.context; }

 private:
  struct Block {
    Norm attention_norm;
    SelfAttention attention;
    Norm mlp_norm;
    Mlp mlp;
  };
  void add_forward();
  void add_backward();
  void write(const Batch& batch) const;
  [[nodiscard]] double mean_loss() const;

  Builder build_;
  std::int64_t rows_;
  Indices tokens_, targets_, positions_;
  Indices starts_, sorted_rows_;  // rows by token: those of token t begin at starts_[t]
  Floats stream_, logits_, losses_;
  Floats grad_stream_, grad_x_, grad_hidden_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  Linear head_;
  Steps forward_, backward_;
  Shaders::Dispatch adamw_;
};

// Reads one sequence, a token at a time, with a cache of keys and values.
class Reader {
 public:
  explicit Reader(const Builder& build);

  // Reads the token at `position`; all tokens before it must have been read. Returns the logits of the next
  // token.
  [[nodiscard]] std::vector<float> read(std::uint32_t token, std::int64_t position) const;
  // The input of a layer's attention for the token that was read last: a row of `width`.
  [[nodiscard]] std::vector<float> attention_input(std::int64_t layer) const;
  [[nodiscard]] const Shape& shape() const { return build_.shape; }

 private:
  struct Block {
    Norm attention_norm;
    CachedAttention attention;
    Norm mlp_norm;
    Mlp mlp;
  };
  Builder build_;
  Indices token_, position_, length_;
  Floats stream_, logits_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  Steps steps_;
};

}  // namespace train_text

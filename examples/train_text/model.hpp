// The transformer: token and position embedding, blocks of attention and MLP around a residual stream, and a
// head. Trained on whole sequences, and read one token at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_text/layers.hpp"

namespace train_text {

// Sequences side by side: of each position its token, and the one that comes next.
struct Batch {
  std::vector<std::uint32_t> tokens, targets;
};

// How AdamW changes the parameters in a step.
struct Rates {
  float rate = 0, mean_beta = 0.9F, square_beta = 0.99F, decay = 0.1F;
};

class Trainer {
 public:
  Trainer(const Builder& build, std::int64_t batch);

  // The mean loss over a batch, in nats for each token, with the parameters as they are.
  [[nodiscard]] double loss(const Batch& batch) const;
  // The same; the parameters' gradients too.
  [[nodiscard]] double gradients(const Batch& batch) const;
  // The same; then the parameters change. Steps are counted from 1.
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
  Indices starts_, sorted_rows_;  // the rows with each token: those of token t from starts_[t] on
  Floats stream_, logits_, losses_;
  Floats grad_stream_, grad_x_, grad_hidden_;
  std::vector<Block> blocks_;
  Norm last_norm_;
  Linear head_;
  Steps forward_, backward_;
  Shaders::Dispatch adamw_;
};

// One sequence, a token at a time, with a cache of keys and values.
class Reader {
 public:
  explicit Reader(const Builder& build);

  // Reads the token at that position, where all before it were read; how likely each token is to come next,
  // as logits.
  [[nodiscard]] std::vector<float> read(std::uint32_t token, std::int64_t position) const;
  // What went into a layer's attention for the token that was read last: a row of `width`.
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

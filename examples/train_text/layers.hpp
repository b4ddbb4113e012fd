// The parts of the transformer, as steps that are recorded.
#pragma once

#include <cstdint>
#include <string>

#include "train_text/parameters.hpp"
#include "train_text/steps.hpp"

namespace train_text {

// The objects that all parts need to make their steps.
struct Builder {
  const vkattn::Runtime& runtime;
  Shaders& shaders;
  Plans& plans;
  const Parameters& parameters;
  Shape shape;
};

// Y = X W^T for rows of X, and its gradients. W is (outputs, inputs), as files have it.
struct Linear {
  std::string weight;  // the parameter's name
  std::int64_t rows, inputs, outputs;

  // Adds to y if `adds`; otherwise it writes y.
  [[nodiscard]] Step forward(const Builder& build, const vkattn::BufferRange& x, const vkattn::BufferRange& y,
                             bool adds = false) const;
  [[nodiscard]] Step grad_input(const Builder& build, const vkattn::BufferRange& grad_y,
                                const vkattn::BufferRange& grad_x) const;
  [[nodiscard]] Step grad_weight(const Builder& build, const vkattn::BufferRange& x,
                                 const vkattn::BufferRange& grad_y) const;
};

// y = x / rms(x).
class Norm {
 public:
  Norm(const Builder& build, std::int64_t rows);
  [[nodiscard]] Step forward(const Builder& build, const Floats& x) const;
  // Adds to the gradient of x if `adds`; otherwise it writes it.
  [[nodiscard]] Step backward(const Builder& build, const Floats& grad_y, const Floats& grad_x,
                              bool adds) const;

  Floats y;

 private:
  std::int64_t rows_;
  Floats inverse_;
};

// Causal self-attention of whole sequences, added to the residual stream. It is a layer of the library.
class SelfAttention {
 public:
  SelfAttention(const Builder& build, std::int64_t layer, std::int64_t batch);
  [[nodiscard]] Step forward(const Builder& build, const Floats& x, const Floats& stream) const;
  // Computes the gradients of x and of the weights from the stream's gradient, after forward().
  [[nodiscard]] Step backward(const Builder& build, const Floats& x, const Floats& stream,
                              const Floats& grad_stream, const Floats& grad_x) const;

 private:
  [[nodiscard]] vkattn::MultiHeadAttentionTensors tensors(const Builder& build, const Floats& x,
                                                          const Floats& stream) const;
  std::int64_t layer_;
  vkattn::MultiHeadAttentionDesc desc_;
  vkattn::Buffer saved_;
};

// Self-attention of one row at a time. It sees the earlier rows through a cache of their keys and values.
class CachedAttention {
 public:
  CachedAttention(const Builder& build, std::int64_t layer);
  // `position` and `length` hold one number each: the row's position, and the number of rows including it,
  // which is written.
  [[nodiscard]] Step forward(const Builder& build, const Floats& x, const Floats& stream,
                             const Indices& position, const Indices& length) const;

 private:
  std::int64_t layer_;
  vkattn::MultiHeadAttentionDesc desc_;
  Floats keys_, values_;
};

// GELU between two projections, added to the residual stream.
class Mlp {
 public:
  Mlp(const Builder& build, std::int64_t layer, std::int64_t rows);
  void add_forward(const Builder& build, Steps& steps, const Floats& x, const Floats& stream) const;
  // grad_hidden holds four numbers for each number of x.
  void add_backward(const Builder& build, Steps& steps, const Floats& x, const Floats& grad_stream,
                    const Floats& grad_x, const Floats& grad_hidden) const;

 private:
  Linear up_, down_;
  std::int64_t count_;
  Floats hidden_, activated_;
};

}  // namespace train_text

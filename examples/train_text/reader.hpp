// Text that the model writes.
#pragma once

#include <cstdint>
#include <vector>

#include "decoder/graph.hpp"
#include "train_text/parameters.hpp"

namespace train_text {

// Reads with a cache of keys and values, as a decoder does.
class Reader {
 public:
  // Runtime and parameters outlive it.
  Reader(const vkattn::Runtime& runtime, const Parameters& parameters);

  // Reads the next tokens of a text, and chooses one behind them.
  void read(decoder::Texts& text, decoder::Sampling& sampling);
  // Of the token behind those that were read.
  [[nodiscard]] std::vector<float> logits() const { return graph_.logits(); }
  // The given tokens, at least one, and `count` tokens that the model writes behind them. When the context is
  // full, the model reads its second half again as a new beginning, as it knows no positions beyond the
  // context.
  [[nodiscard]] std::vector<std::uint32_t> sample(std::vector<std::uint32_t> tokens, std::int64_t count,
                                                  decoder::Sampling sampling);

 private:
  const vkattn::Runtime& runtime_;
  decoder::Model model_;
  Floats gains_;  // of norms: ones
  decoder::Weights weights_;
  decoder::Graph graph_;
};

}  // namespace train_text

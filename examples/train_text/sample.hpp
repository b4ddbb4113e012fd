// A text that the model writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_text/model.hpp"

namespace train_text {

struct SampleSettings {
  std::int64_t count = 0;  // of tokens to be written
  float temperature = 0.8F;
  std::uint64_t seed = 1;
};

// The prompt, of at least one token, and what the model writes behind it. Where the context is full it reads
// the second half of it again as a new beginning: it knows no positions beyond.
[[nodiscard]] std::vector<std::uint32_t> sample(const Reader& reader, std::vector<std::uint32_t> prompt,
                                                const SampleSettings& settings);

// What goes into each layer's attention for these tokens, rows of `width`; at most as many tokens as the
// context has.
[[nodiscard]] std::vector<std::vector<float>> attention_inputs(const Reader& reader,
                                                               std::span<const std::uint32_t> tokens);

}  // namespace train_text

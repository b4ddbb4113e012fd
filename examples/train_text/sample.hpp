// Text that the model writes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_text/model.hpp"

namespace train_text {

struct SampleSettings {
  std::int64_t count = 0;  // tokens to write
  float temperature = 0.8F;
  std::uint64_t seed = 1;
};

// The prompt, of at least one token, and the tokens that the model writes behind it. When the context is
// full, the model reads its second half again as a new beginning, as it knows no positions beyond the
// context.
[[nodiscard]] std::vector<std::uint32_t> sample(const Reader& reader, std::vector<std::uint32_t> prompt,
                                                const SampleSettings& settings);

// The input of each layer's attention for these tokens: rows of `width`, for at most as many tokens as the
// context has.
[[nodiscard]] std::vector<std::vector<float>> attention_inputs(const Reader& reader,
                                                               std::span<const std::uint32_t> tokens);

}  // namespace train_text

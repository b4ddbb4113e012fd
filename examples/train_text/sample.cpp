#include "train_text/sample.hpp"

#include <algorithm>
#include <cmath>

#include "train_text/text.hpp"

namespace train_text {

namespace {

// Draws a token by its probability softmax(logits / temperature); temperature 0 takes the likeliest token.
std::uint32_t choose(std::span<const float> logits, float temperature, std::uint64_t& random) {
  const auto likeliest = std::ranges::max_element(logits);
  if (temperature <= 0) return static_cast<std::uint32_t>(likeliest - logits.begin());
  std::vector<double> weights;
  double sum = 0;
  for (const float logit : logits) {
    weights.push_back(std::exp(static_cast<double>(logit - *likeliest) / static_cast<double>(temperature)));
    sum += weights.back();
  }
  double left = static_cast<double>(next_random(random) >> 11U) * 0x1p-53 * sum;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return static_cast<std::uint32_t>(i);
  }
  return static_cast<std::uint32_t>(weights.size() - 1);
}

}  // namespace

std::vector<std::uint32_t> sample(const Reader& reader, std::vector<std::uint32_t> prompt,
                                  const SampleSettings& settings) {
  const auto context = static_cast<std::size_t>(reader.shape().context);
  std::vector<std::uint32_t> tokens = std::move(prompt);
  std::size_t begin = tokens.size() > context ? tokens.size() - context : 0;  // the token at position 0
  std::size_t next = begin;                                                   // the next token to read
  std::uint64_t random = settings.seed;
  for (std::int64_t i = 0; i < settings.count; ++i) {
    if (tokens.size() - begin > context) next = begin = tokens.size() - std::max<std::size_t>(context / 2, 1);
    std::vector<float> logits;
    for (; next < tokens.size(); ++next)
      logits = reader.read(tokens[next], static_cast<std::int64_t>(next - begin));
    tokens.push_back(choose(logits, settings.temperature, random));
  }
  return tokens;
}

std::vector<std::vector<float>> attention_inputs(const Reader& reader,
                                                 std::span<const std::uint32_t> tokens) {
  std::vector<std::vector<float>> inputs(static_cast<std::size_t>(reader.shape().layers));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    (void)reader.read(tokens[i], static_cast<std::int64_t>(i));
    for (std::size_t layer = 0; layer < inputs.size(); ++layer) {
      const std::vector<float> row = reader.attention_input(static_cast<std::int64_t>(layer));
      inputs[layer].insert(inputs[layer].end(), row.begin(), row.end());
    }
  }
  return inputs;
}

}  // namespace train_text

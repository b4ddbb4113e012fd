// A character-level transformer that is small enough for plain loops: pre-norm layers of attention and a
// feed-forward part. Weights come from a seed and are not trained, so it writes nonsense; a trained one would
// do the same work.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace crowd {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz ,.!?'";
constexpr std::size_t kHeads = 4, kDim = 16, kHidden = kHeads * kDim,
                      kLayers = 2;  // one head of keys and values

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  // From 0 to below 1.
  float next() {
    state_ = state_ * 6364136223846793005U + 1442695040888963407U;
    return static_cast<float>(state_ >> 40U) / static_cast<float>(1U << 24U);
  }

 private:
  std::uint64_t state_;
};

// y = W x for each row of x.
struct Linear {
  Linear(std::size_t from, std::size_t to, Random& random) : inputs(from), outputs(to), weights(from * to) {
    const float scale = std::sqrt(3.0F / static_cast<float>(from));  // keeps the variance of x
    for (float& w : weights) w = scale * (2 * random.next() - 1);
  }
  [[nodiscard]] std::vector<float> operator()(std::span<const float> x) const {
    const std::size_t rows = x.size() / inputs;
    std::vector<float> y(rows * outputs, 0.0F);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < inputs; ++i) {
        const float factor = x[r * inputs + i];
        for (std::size_t o = 0; o < outputs; ++o) y[r * outputs + o] += factor * weights[i * outputs + o];
      }
    }
    return y;
  }
  std::size_t inputs, outputs;
  std::vector<float> weights;
};

// Divides each row by its root mean square.
inline std::vector<float> normalized(std::span<const float> x) {
  std::vector<float> y(x.begin(), x.end());
  for (std::size_t first = 0; first < y.size(); first += kHidden) {
    float sum = 0;
    for (std::size_t i = 0; i < kHidden; ++i) sum += y[first + i] * y[first + i];
    const float factor = 1 / std::sqrt(sum / kHidden + 1e-6F);
    for (std::size_t i = 0; i < kHidden; ++i) y[first + i] *= factor;
  }
  return y;
}

inline void add(std::span<float> x, std::span<const float> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

struct Layer {
  explicit Layer(Random& random)
      : query(kHidden, kHidden, random),
        key(kHidden, kDim, random),
        value(kHidden, kDim, random),
        output(kHidden, kHidden, random),
        up(kHidden, 4 * kHidden, random),
        down(4 * kHidden, kHidden, random) {}
  // Computes the part of the layer behind attention.
  void finish(std::span<float> x, std::span<const float> attended) const {
    add(x, output(attended));
    std::vector<float> wide = up(normalized(x));
    for (float& each : wide) each = std::max(each, 0.0F);
    add(x, down(wide));
  }
  Linear query, key, value, output, up, down;
};

struct Model {
  explicit Model(std::uint64_t seed)
      : random(seed),
        embedding(kAlphabet.size(), kHidden, random),
        unembedding(kHidden, kAlphabet.size(), random) {
    for (std::size_t i = 0; i < kLayers; ++i) layers.emplace_back(random);
  }
  [[nodiscard]] std::vector<float> embed(std::string_view text) const {
    std::vector<float> one_hot(text.size() * kAlphabet.size(), 0.0F);
    for (std::size_t i = 0; i < text.size(); ++i)
      one_hot[i * kAlphabet.size() + kAlphabet.find(text[i])] =
          std::sqrt(static_cast<float>(kAlphabet.size()));
    return embedding(one_hot);
  }
  // Draws one character by the probabilities of a row.
  [[nodiscard]] char sample(std::span<const float> x, Random& dice) const {
    std::vector<float> weights = unembedding(normalized(x));
    float sum = 0;
    for (float& each : weights) sum += each = std::exp(2 * each);
    float rest = dice.next() * sum;
    std::size_t chosen = 0;
    while (chosen + 1 < weights.size() && (rest -= weights[chosen]) > 0) ++chosen;
    return kAlphabet[chosen];
  }
  Random random;
  Linear embedding, unembedding;
  std::vector<Layer> layers;
};

}  // namespace crowd

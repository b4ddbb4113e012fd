// From a text to the queries and keys of several heads.
#pragma once

#include <vkattn/result.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train_text/text.hpp"

namespace window {

constexpr int kMostHeads = 8, kMostTokens = 64, kMostDims = 64;

// A text's tokens, with rows of queries and keys for them, (heads, tokens, dims).
struct Rows {
  std::vector<std::string> labels;
  std::vector<float> query, key;
  std::string note;  // what of the text is not shown, in a sentence; may be empty
  [[nodiscard]] int tokens() const { return static_cast<int>(labels.size()); }
};

// The first layer's heads of a model of examples/train_text. Its tokens are characters. heads.safetensors has
// the three tensors that are read, in float16, of 5,667 steps over this project's documents with --heads 8: a
// loss of 1.31, and 1.63 of text that was not learned from.
class TrainedHeads {
 public:
  // Reads a file such as that example's model.safetensors.
  [[nodiscard]] static vkattn::Result<TrainedHeads> read(const std::filesystem::path& path);

  [[nodiscard]] int heads() const { return heads_; }
  [[nodiscard]] int dims() const { return width_ / heads_; }
  // The first `heads` heads, with the first `dims` numbers of each query and key.
  [[nodiscard]] Rows rows(std::string_view text, int heads, int dims) const;

 private:
  explicit TrainedHeads(train_text::Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  // What enters the layer's attention: the sum of both embeddings, divided by its root mean square.
  [[nodiscard]] std::vector<float> input(std::uint32_t token, std::size_t position) const;

  train_text::Vocabulary vocabulary_;
  int heads_ = 0, width_ = 0, context_ = 0;
  std::vector<float> token_embedding_, position_embedding_, in_proj_weight_;
};

// Untrained heads over words: embeddings and projections are random numbers, the same at each start. Heads of
// even number have W_Q = W_K, so that equal words look at each other.
[[nodiscard]] Rows seeded_rows(std::string_view text, int heads, int dims);

}  // namespace window

// What a folder's config.json says of a model: one decoder, and in what its architectures differ.
#pragma once

#include <vkattn/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace generate {

enum class Activation : std::uint32_t { kSilu, kGelu };

// An architecture's own names of tensors, and what its layers have. Names that are null stand for parts that
// it does not have.
struct Family {
  const char* architecture;
  const char *embedding, *positions, *head, *last_norm;
  const char* layer;  // what the names of a layer's tensors begin with, before its number
  const char *attention_norm, *post_attention, *mlp_norm, *post_mlp;
  std::vector<const char*> qkv, up;  // matrices that are stored one below the other
  const char *out, *down;
  bool has_means;       // norms subtract the mean and have a bias; otherwise they are RMS norms
  bool is_gemma;        // gains are 1 + weight, and embeddings are multiplied by sqrt(width)
  bool is_input_first;  // matrices are (inputs, outputs); otherwise (outputs, inputs)
  bool has_all_biases, has_qkv_biases;
};

struct Model {
  const Family* family = nullptr;
  std::int64_t vocabulary = 0, context = 0, layers = 0, width = 0, hidden = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  bool is_tied = false;  // the head is the embedding
  Activation activation = Activation::kSilu;
  float epsilon = 0, scale = 0, softcap = 0, last_softcap = 0;
  std::vector<std::int64_t> windows;  // of each layer: the last keys that a query sees; 0: all
  std::vector<float> frequencies;     // of rotary embedding; none with learned positions
  float rotary_magnitude = 1;
  std::vector<std::uint32_t> ends;  // tokens that end a text

  [[nodiscard]] bool is_gated() const { return family->up.size() > 1; }
  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] std::int64_t up_width() const {
    return hidden * static_cast<std::int64_t>(family->up.size());
  }
};

[[nodiscard]] vkattn::Error refusal(const std::string& what);
// Refuses an architecture or a kind of scaling that is not known, and sizes that no model can have.
[[nodiscard]] vkattn::Result<Model> read_model(const std::filesystem::path& folder);

}  // namespace generate

// What a folder's config.json says of a model: one decoder, and in what its architectures differ.
#pragma once

#include <filesystem>
#include <vector>

#include "decoder/graph.hpp"

namespace generate {

// An architecture's own names of tensors, and what its layers have. Names that are null stand for parts that
// it does not have. Most are as Llama has them.
struct Family {
  const char* architecture = "LlamaForCausalLM";
  const char *embedding = "model.embed_tokens", *positions = nullptr, *head = "lm_head";
  const char* last_norm = "model.norm";
  const char* layer = "model.layers.";  // what the names of a layer's tensors begin with, before its number
  const char *attention_norm = "input_layernorm", *post_attention = nullptr;
  const char *mlp_norm = "post_attention_layernorm", *post_mlp = nullptr;
  // Matrices that are stored one below the other.
  std::vector<const char*> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  std::vector<const char*> up = {"mlp.gate_proj", "mlp.up_proj"};
  const char *out = "self_attn.o_proj", *down = "mlp.down_proj";
  bool has_means = false;       // norms subtract the mean and have a bias; otherwise they are RMS norms
  bool is_gemma = false;        // gains are 1 + weight, and embeddings are multiplied by sqrt(width)
  bool is_input_first = false;  // matrices are (inputs, outputs); otherwise (outputs, inputs)
  bool has_all_biases = false, has_qkv_biases = false;
};

struct Model : decoder::Model {
  const Family* family = nullptr;
  bool is_tied = false;             // the head is the embedding
  std::vector<std::uint32_t> ends;  // tokens that end a text
};

// Refuses an architecture or a kind of scaling that is not known, and sizes that no model can have.
[[nodiscard]] vkattn::Result<Model> read_model(const std::filesystem::path& folder);

}  // namespace generate

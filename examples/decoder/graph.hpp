// A decoder as steps on the device: for some rows of tokens of one or several texts, each with a cache.
#pragma once

#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/safetensors.hpp>

#include <map>
#include <string>
#include <vector>

#include "decoder/room.hpp"
#include "decoder/steps.hpp"

namespace decoder {

enum class Activation : std::uint32_t { kSilu, kGelu };  // as in activate.comp

// A decoder's sizes and kinds.
struct Model {
  std::int64_t vocabulary = 0, context = 0, layers = 0, width = 0, hidden = 0;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
  Activation activation = Activation::kSilu;
  bool is_gated = true;           // `up` gives a gate, and what it is multiplied with
  bool scales_embedding = false;  // by sqrt(width)
  float epsilon = 0, scale = 0, softcap = 0, last_softcap = 0;
  std::vector<std::int64_t> windows;  // of each layer: the last keys that a query sees; 0: all
  std::vector<float> frequencies;     // of rotary embedding; none with learned positions
  float rotary_magnitude = 1;

  [[nodiscard]] std::int64_t query_width() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
  [[nodiscard]] std::int64_t up_width() const { return is_gated ? 2 * hidden : hidden; }
};

// A part of a tensor in a file.
struct StoredPart {
  vkattn::SafetensorsFile* file = nullptr;
  const vkattn::StoredTensor* tensor = nullptr;
};

// A matrix on the device, the right side of a product; or a vector, which has one input.
struct Tensor {
  std::int64_t outputs = 0, inputs = 1;  // no outputs: the model has no such tensor
  bool is_input_first = false;  // (inputs, outputs), unless it is made of blocks; else (outputs, inputs)
  vkattn::DataType type = vkattn::DataType::kFloat32;
  vkattn::BufferRange range;      // when there is memory
  std::vector<StoredPart> parts;  // one below the other, if it comes from files
  float added = 0;                // to each number of the files

  [[nodiscard]] bool exists() const { return outputs > 0; }
  [[nodiscard]] std::uint64_t bytes() const;
};

// Biases, positions and norms behind attention and MLP are optional. A model without a head takes the
// embedding.
struct Weights {
  struct Layer {
    Tensor qkv, out, up, down, qkv_bias, out_bias, up_bias, down_bias;
    Tensor attention_norm, attention_norm_bias, post_attention, mlp_norm, mlp_norm_bias, post_mlp;
  };
  Tensor embedding, positions, head, last_norm, last_norm_bias;
  std::vector<Layer> layers;
};

// Parts of a pass, with which models also learn. The embedding of rows of tokens, at their positions:
[[nodiscard]] Step make_embedding(Shaders& shaders, const Model& model, const Weights& weights,
                                  const vkattn::BufferRange& tokens, const vkattn::BufferRange& positions,
                                  const vkattn::BufferRange& stream, std::int64_t rows);
// What an MLP does between its two matrices.
[[nodiscard]] Step make_activation(Shaders& shaders, const Model& model, const vkattn::BufferRange& up,
                                   const vkattn::BufferRange& active, std::int64_t rows);
// y = x W^T for rows of x. Adds to y, or writes it.
[[nodiscard]] vkattn::MatmulDesc product_desc(const Tensor& matrix, std::int64_t rows, bool adds);

struct GraphOptions {
  vkattn::DataType cache = vkattn::DataType::kFloat16;
  std::int64_t context = 0;           // the most keys of a text
  std::int64_t chunk = 64;            // the most rows of a pass
  std::int64_t texts = 1;             // several share pages
  std::uint64_t max_dispatch_ns = 0;  // PlanOptions has it
  std::int64_t shown_layer = -1;      // whose attention weights are kept; -1: none
  // Of one text, the weights of all layers and rows are kept: (layer, head, row, key), with `context` rows
  // and keys.
  bool shows_all = false;
};

// How the next tokens are chosen. Draws are numbered: equal numbers draw equal tokens.
struct Sampling {
  std::uint32_t seed = 1, draw = 0;
  float temperature = 0, top_p = 1;
};

using Tokens = std::vector<std::uint32_t>;

// The next rows of each text. Rows lie one after the other.
struct Rows {
  Tokens tokens;
  std::vector<std::int64_t> counts, positions;  // of each text: its rows, and the position of the first
};

// All tokens of each text, how many of them were read, and the token that is chosen behind each that was read
// whole.
struct Texts {
  explicit Texts(std::vector<Tokens> given)
      : tokens(std::move(given)), read(tokens.size()), chosen(tokens.size()) {}
  [[nodiscard]] std::int64_t left(std::size_t text) const { return std::ssize(tokens[text]) - read[text]; }
  std::vector<Tokens> tokens;
  std::vector<std::int64_t> read;
  Tokens chosen;
};

// Of the caches of all layers.
[[nodiscard]] Bytes cache_bytes(const Model& model, const GraphOptions& options);
// Of what a pass computes.
[[nodiscard]] Bytes number_bytes(const Model& model, const GraphOptions& options);

class Graph {
 public:
  using Plans = PlansOf<vkattn::MatmulDesc, vkattn::AppendDesc, vkattn::AttentionDesc>;

  // Model, weights and runtime outlive it.
  Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
        const GraphOptions& options);

  // Passes have three sizes: a row of each text, a few rows of any texts, and a chunk of them.
  enum class Pass { kStep, kFew, kChunk };
  [[nodiscard]] std::int64_t rows_of(Pass pass) const;
  // For a program that records passes itself, of at least as many rows: the words that tell of the rows, the
  // range that gets them, and, while no recorded step is pending, where the weights of the next rows go.
  [[nodiscard]] std::vector<std::uint32_t> words(const Rows& rows, const Sampling& sampling) const;
  [[nodiscard]] vkattn::BufferRange inputs_range() const { return inputs_.range(); }
  void place_weights(std::int64_t position);
  // Reads the rows into the cache.
  [[nodiscard]] const Steps& pass(Pass pass);
  // Then: logits of the last row of each text, and a token that is chosen by them.
  [[nodiscard]] const Steps& choice() const { return choice_; }
  [[nodiscard]] vkattn::BufferRange chosen_range() const { return chosen_.range(); }
  // Reads the next rows of all texts in one pass, which `run` executes if it is given. Chooses the tokens
  // behind texts that were read whole, as the next draw. Ends the program if logits are no numbers.
  void read(Texts& texts, Sampling& sampling, const std::function<void(Pass, const Steps&)>& run = {});
  [[nodiscard]] std::vector<float> logits() const { return numbers_[kLogits].read(); }
  // Attention weights of the layer that is shown, (heads, rows of the last pass, keys).
  [[nodiscard]] std::vector<float> shown() const { return numbers_[kShown].read(); }
  [[nodiscard]] vkattn::BufferRange shown_range() const { return numbers_[kShown].range(); }

  [[nodiscard]] Plans& plans() { return plans_; }

  // The arrays of what a pass computes.
  enum Part { kStream, kNorm, kQkv, kQuery, kAttended, kUp, kActive, kLogits, kFrequencies, kShown, kParts };

 private:
  struct Cache {
    vkattn::CacheLayout layout;
    vkattn::Buffer key, value;
  };
  void make_caches();
  [[nodiscard]] vkattn::BufferRange range(Part which, std::int64_t first = 0) const {
    return numbers_[which].range(first);
  }
  [[nodiscard]] Step product(const Tensor& matrix, const Tensor& bias, Part x, Part y, std::int64_t rows,
                             bool adds);
  enum NormKind { kWrites, kAdds, kGathers };  // it gathers the last rows of texts
  [[nodiscard]] Step norm(const Tensor& gain, const Tensor& bias, Part x, Part y, std::int64_t rows,
                          NormKind kind = kWrites);
  void add_to_stream(Steps& steps, const Tensor& matrix, const Tensor& bias, const Tensor& post_norm, Part x,
                     std::int64_t rows);
  void add_layer(Steps& steps, std::size_t layer, Pass pass);
  struct Heads;
  [[nodiscard]] Step append(const Cache& cache, const Heads& heads);
  [[nodiscard]] Step attend(std::size_t layer, const Heads& heads);
  // Where the numbers of words() lie: each begins at a multiple of 256 bytes.
  enum Input { kTokens, kPositions, kCumulative, kBefore, kAfter, kLast, kSettings, kInputs };
  [[nodiscard]] std::int64_t input_size(int input) const;
  [[nodiscard]] std::int64_t first_word(int input) const;
  [[nodiscard]] vkattn::BufferRange input(int input) const;

  const vkattn::Runtime& runtime_;
  const Model& model_;
  const Weights& weights_;
  GraphOptions options_;
  Shaders shaders_;
  Plans plans_;
  Indices inputs_, page_table_, chosen_;
  std::vector<Floats> numbers_;
  std::vector<Cache> caches_;
  // Of a step whose weights are kept: its tensors, where row 0 goes, and what binds others.
  struct Shown {
    vkattn::AttentionTensors tensors;
    std::int64_t first;
    std::function<void(const vkattn::AttentionTensors&)> rebind;
  };
  std::vector<Shown> all_shown_;
  std::map<Pass, Steps> passes_;
  Steps choice_;
};

}  // namespace decoder

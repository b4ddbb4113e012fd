// The decoder as steps on the device: for some rows of tokens of one or several texts, each with a cache.
#pragma once

#include <vkattn/cache.hpp>
#include <vkattn/matmul.hpp>

#include <map>
#include <string>
#include <vector>

#include "decoder/steps.hpp"
#include "generate/weights.hpp"

namespace generate {

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

// The next rows of each text. Rows lie one after the other.
struct Rows {
  std::vector<std::uint32_t> tokens;
  std::vector<std::int64_t> counts, positions;  // of each text: its rows, and the position of the first
};

// Bytes of several buffers, and of the largest of them.
struct Bytes {
  std::uint64_t all = 0, largest = 0;
};
// Of the caches of all layers.
[[nodiscard]] Bytes cache_bytes(const Model& model, const GraphOptions& options);

// How many numbers a graph's buffers hold, beside caches.
struct NumberCounts {
  NumberCounts(const Model& model, const GraphOptions& options);
  [[nodiscard]] Bytes bytes() const;
  std::int64_t stream, normed, qkv, turned, attended, up, active, logits, frequencies, shown;
};

class Graph {
 public:
  using Plans = decoder::PlansOf<vkattn::MatmulDesc, vkattn::AppendDesc, vkattn::AttentionDesc>;

  // Model, weights and runtime outlive it.
  Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
        const GraphOptions& options);

  // Passes have three sizes: a row of each text, a few rows of any texts, and a chunk of them.
  enum class Pass { kStep, kFew, kChunk };
  [[nodiscard]] std::int64_t rows_of(Pass pass) const;
  // Writes the rows to the device, for steps of a pass of at least as many rows.
  void write(const Rows& rows, const Sampling& sampling);
  // For a program that writes them itself: the words, the range that gets them, and, while no recorded step
  // is pending, where the weights of the next rows go.
  [[nodiscard]] std::vector<std::uint32_t> words(const Rows& rows, const Sampling& sampling) const;
  [[nodiscard]] vkattn::BufferRange inputs_range() const { return inputs_.range(); }
  void place_weights(std::int64_t position);
  // Reads the rows into the cache.
  [[nodiscard]] const decoder::Steps& pass(Pass pass);
  // Then: logits of the last row of each text, and a token that is chosen by them.
  [[nodiscard]] const decoder::Steps& choice() const { return choice_; }
  [[nodiscard]] vkattn::BufferRange chosen_range() const { return chosen_.range(); }
  // What choice() has left. Ends the program if logits are no numbers.
  [[nodiscard]] std::vector<std::uint32_t> chosen() const;
  [[nodiscard]] std::vector<float> logits() const { return logits_.read(); }
  // Attention weights of the layer that is shown, (heads, rows of the last pass, keys).
  [[nodiscard]] std::vector<float> shown() const { return shown_.read(); }
  [[nodiscard]] vkattn::BufferRange shown_range() const { return shown_.range(); }

  [[nodiscard]] Plans& plans() { return plans_; }

 private:
  Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
        const GraphOptions& options, const NumberCounts& counts);
  struct Cache {
    vkattn::CacheLayout layout;
    vkattn::Buffer key, value;
  };
  void make_caches();
  [[nodiscard]] decoder::Step product(const Matrix& matrix, const Vector& bias, const vkattn::BufferRange& x,
                                      const vkattn::BufferRange& y, std::int64_t rows, bool adds = false);
  [[nodiscard]] decoder::Step norm(const Vector& gain, const Vector& bias, const decoder::Floats& x,
                                   const decoder::Floats& y, std::int64_t rows, bool adds = false,
                                   bool gathers = false);
  void add_attention(decoder::Steps& steps, std::size_t layer, Pass pass);
  void add_mlp(decoder::Steps& steps, std::size_t layer, std::int64_t rows);
  struct Heads;
  [[nodiscard]] decoder::Step append(const Cache& cache, const Heads& heads);
  [[nodiscard]] decoder::Step attend(std::size_t layer, const Heads& heads);
  // Where the numbers of `write` lie: each begins at a multiple of 256 bytes.
  enum Input { kTokens, kPositions, kCumulative, kBefore, kAfter, kLast, kSettings, kInputs };
  [[nodiscard]] std::int64_t input_size(int input) const;
  [[nodiscard]] vkattn::BufferRange input(int input) const;

  const vkattn::Runtime& runtime_;
  const Model& model_;
  const Weights& weights_;
  GraphOptions options_;
  decoder::Shaders shaders_;
  Plans plans_;
  decoder::Indices inputs_, page_table_, chosen_;
  decoder::Floats stream_, normed_, qkv_, turned_, attended_, up_, active_, logits_, frequencies_, shown_;
  std::vector<Cache> caches_;
  // Of a step whose weights are kept: its tensors, where row 0 goes, and what binds others.
  struct Shown {
    vkattn::AttentionTensors tensors;
    std::int64_t first;
    std::function<void(const vkattn::AttentionTensors&)> rebind;
  };
  std::vector<Shown> all_shown_;
  std::map<Pass, decoder::Steps> passes_;
  decoder::Steps choice_;
};

}  // namespace generate

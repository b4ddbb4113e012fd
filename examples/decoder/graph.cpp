#include "decoder/graph.hpp"

#include <bit>
#include <cmath>
#include <numeric>

#include "decoder/terminal.hpp"

// SPIR-V of the shaders, which glslang writes as arrays of words.
#include "activate_comp.h"
#include "embed_comp.h"
#include "norm_comp.h"
#include "sample_comp.h"

namespace decoder {

namespace {

constexpr Shader kEmbedShader{"embed", embed_comp}, kNormShader{"norm", norm_comp},
    kActivateShader{"activate", activate_comp}, kSampleShader{"sample", sample_comp};

constexpr std::int64_t kPageSize = 64, kSmallPass = 16;

// The pages of a text, if several share the cache.
std::int64_t page_count(const GraphOptions& options) {
  return (options.context + kPageSize - 1) / kPageSize;
}

// A layer with a window has a ring, if that is smaller: the window of each row of a pass, and the pass
// itself.
vkattn::CacheLayout layout_of(const Model& model, const GraphOptions& options, std::size_t layer) {
  vkattn::CacheLayout layout;
  const std::int64_t window = model.windows[layer];
  if (options.texts > 1) {
    layout.mapping = vkattn::KeyMapping::kPaged;
    layout.page_size = kPageSize;
    layout.page_table_stride = page_count(options);
    layout.page_count = layout.page_table_stride * options.texts;
  } else if (window > 0 && window - 1 + options.chunk < options.context) {
    layout.mapping = vkattn::KeyMapping::kRing;
    layout.ring_length = window - 1 + options.chunk;
  }
  return layout;
}

// Keys that the layer has room for.
std::int64_t room_of(const vkattn::CacheLayout& layout, const GraphOptions& options) {
  if (layout.mapping == vkattn::KeyMapping::kPaged) return layout.page_count * layout.page_size;
  return layout.mapping == vkattn::KeyMapping::kRing ? layout.ring_length : options.context;
}

std::uint64_t bytes_of(vkattn::DataType type, std::int64_t elements) {
  const auto blocks = static_cast<std::uint64_t>(elements) / vkattn::block_elements(type);
  return (blocks * vkattn::block_bytes(type) + 3) / 4 * 4;
}

// Bytes of the keys, or of the values, of a layer.
std::uint64_t layer_bytes(const Model& model, const GraphOptions& options, std::size_t layer) {
  return bytes_of(options.cache,
                  room_of(layout_of(model, options, layer), options) * model.kv_heads * model.head_dim);
}

// The type's number in embed.comp.
std::uint32_t type_word(vkattn::DataType type) {
  return type == vkattn::DataType::kFloat32 ? 0 : type == vkattn::DataType::kFloat16 ? 1 : 2;
}

// Gemma's factor, rounded to the type of its weights as its authors' code does.
float embedding_factor(const Model& model, vkattn::DataType type) {
  if (!model.scales_embedding) return 1;
  const float root = std::sqrt(static_cast<float>(model.width));
  if (type == vkattn::DataType::kFloat16) return vkattn::half_to_float(vkattn::float_to_half(root));
  return type == vkattn::DataType::kBfloat16 ? vkattn::bfloat16_to_float(vkattn::float_to_bfloat16(root))
                                             : root;
}

// How many numbers each array has.
std::array<std::int64_t, Graph::kParts> number_counts(const Model& model, const GraphOptions& options) {
  const std::int64_t rows = options.chunk, weights = rows * options.context;  // of a pass, of one head
  std::array<std::int64_t, Graph::kParts> counts{};
  counts[Graph::kStream] = rows * model.width;
  counts[Graph::kNorm] = std::max(rows, options.texts) * model.width;
  counts[Graph::kQkv] = rows * model.qkv_width();
  counts[Graph::kQuery] = counts[Graph::kAttended] = rows * model.query_width();
  counts[Graph::kUp] = rows * model.up_width();
  counts[Graph::kActive] = rows * model.hidden;
  counts[Graph::kLogits] = options.texts * model.vocabulary;
  counts[Graph::kFrequencies] = std::max<std::int64_t>(std::ssize(model.frequencies), 1);
  // A pass may begin at any row, and has room for more rows than it writes.
  counts[Graph::kShown] = options.shows_all
                              ? model.layers * model.heads * options.context * options.context + weights
                          : options.shown_layer < 0 ? 1
                                                    : model.heads * weights;
  return counts;
}

}  // namespace

std::uint64_t Tensor::bytes() const {
  return bytes_of(type, outputs * inputs);
}

Bytes cache_bytes(const Model& model, const GraphOptions& options) {
  Bytes bytes;
  for (std::size_t layer = 0; layer < model.windows.size(); ++layer)
    bytes.add(2, layer_bytes(model, options, layer));
  return bytes;
}

Bytes number_bytes(const Model& model, const GraphOptions& options) {
  Bytes bytes;
  for (const std::int64_t count : number_counts(model, options))
    bytes.add(1, static_cast<std::uint64_t>(count) * sizeof(float));
  return bytes;
}

Step make_embedding(Shaders& shaders, const Model& model, const Weights& weights,
                    const vkattn::BufferRange& tokens, const vkattn::BufferRange& positions,
                    const vkattn::BufferRange& stream, std::int64_t rows) {
  const bool has_positions = weights.positions.exists();
  const Tensor &table = weights.embedding, &second = has_positions ? weights.positions : table;
  return shaders.make_step(kEmbedShader, {tokens, positions, table.range, second.range, stream},
                           groups_of(rows * model.width),
                           {word(rows), word(model.width), type_word(table.type), has_positions ? 1U : 0U,
                            word(embedding_factor(model, table.type))});
}

Step make_activation(Shaders& shaders, const Model& model, const vkattn::BufferRange& up,
                     const vkattn::BufferRange& active, std::int64_t rows) {
  const std::int64_t count = rows * model.hidden;
  return shaders.make_step(
      kActivateShader, {up, active}, groups_of(count),
      {word(count), word(model.hidden), static_cast<std::uint32_t>(model.activation), model.is_gated});
}

vkattn::MatmulDesc product_desc(const Tensor& matrix, std::int64_t rows, bool adds) {
  vkattn::MatmulDesc desc{.rows = rows, .columns = matrix.outputs, .inner = matrix.inputs};
  desc.b.type = matrix.type;
  if (!matrix.is_input_first) desc.b.strides = vkattn::MatrixStrides{0, 1, matrix.inputs};
  desc.accumulates = adds;
  return desc;
}

Graph::Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
             const GraphOptions& options)
    : runtime_(runtime),
      model_(model),
      weights_(weights),
      options_(options),
      shaders_(runtime),
      plans_(runtime),
      inputs_(runtime, first_word(kInputs)),
      page_table_(runtime, options.texts * page_count(options)),
      chosen_(runtime, options.texts) {
  for (const std::int64_t count : number_counts(model, options)) numbers_.emplace_back(runtime, count);
  plans_.max_dispatch_ns = options.max_dispatch_ns;
  if (!model.frequencies.empty()) numbers_[kFrequencies].write(model.frequencies);
  make_caches();
}

void Graph::make_caches() {
  std::vector<std::uint32_t> pages(static_cast<std::size_t>(options_.texts * page_count(options_)));
  std::iota(pages.begin(), pages.end(), 0U);
  page_table_.write(pages);
  for (std::size_t layer = 0; layer < model_.windows.size(); ++layer) {
    const std::uint64_t bytes = layer_bytes(model_, options_, layer);
    caches_.push_back({layout_of(model_, options_, layer), checked(runtime_.create_buffer(bytes)),
                       checked(runtime_.create_buffer(bytes))});
  }
}

std::int64_t Graph::input_size(int input) const {
  constexpr std::int64_t kAligned = 64;
  const std::int64_t count = input <= kPositions ? options_.chunk : options_.texts + 1;
  return (std::max<std::int64_t>(count, 4) + kAligned - 1) / kAligned * kAligned;
}

std::int64_t Graph::first_word(int input) const {
  std::int64_t first = 0;
  for (int each = 0; each < input; ++each) first += input_size(each);
  return first;
}

vkattn::BufferRange Graph::input(int input) const {
  vkattn::BufferRange range = inputs_.range(first_word(input));
  range.size = static_cast<VkDeviceSize>(input_size(input)) * sizeof(std::uint32_t);
  return range;
}

void Graph::place_weights(std::int64_t position) {
  for (Shown& each : all_shown_) {
    each.tensors.weights = range(kShown, each.first + position * options_.context);
    each.rebind(each.tensors);
  }
}

std::vector<std::uint32_t> Graph::words(const Rows& rows, const Sampling& sampling) const {
  std::vector<std::uint32_t> all;
  const auto add = [&](int input, const std::vector<std::uint32_t>& numbers) {
    const std::size_t begin = all.size();
    all.insert(all.end(), numbers.begin(), numbers.end());
    all.resize(begin + static_cast<std::size_t>(input_size(input)));
  };
  std::vector<std::uint32_t> positions, cumulative = {0}, before, after, last;
  for (std::size_t text = 0; text < rows.counts.size(); ++text) {
    for (std::int64_t i = 0; i < rows.counts[text]; ++i) positions.push_back(word(rows.positions[text] + i));
    before.push_back(word(rows.positions[text]));
    after.push_back(word(rows.positions[text] + rows.counts[text]));
    cumulative.push_back(word(static_cast<std::int64_t>(positions.size())));
    last.push_back(std::max(cumulative.back(), 1U) - 1);
  }
  add(kTokens, rows.tokens);
  add(kPositions, positions);
  add(kCumulative, cumulative);
  add(kBefore, before);
  add(kAfter, after);
  add(kLast, last);
  add(kSettings, {sampling.seed, sampling.draw, word(sampling.temperature), word(sampling.top_p)});
  return all;
}

std::int64_t Graph::rows_of(Pass pass) const {
  if (pass == Pass::kStep) return options_.texts;
  return pass == Pass::kChunk ? options_.chunk : std::min(kSmallPass, options_.chunk);
}

const Steps& Graph::pass(Pass pass) {
  Steps& steps = passes_[pass];
  if (!steps.empty()) return steps;
  const std::int64_t rows = rows_of(pass);
  steps.push_back(
      make_embedding(shaders_, model_, weights_, input(kTokens), input(kPositions), range(kStream), rows));
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) add_layer(steps, layer, pass);
  if (!choice_.empty()) return steps;
  const std::int64_t texts = options_.texts;
  choice_.push_back(norm(weights_.last_norm, weights_.last_norm_bias, kStream, kNorm, texts, kGathers));
  choice_.push_back(
      product(weights_.head.exists() ? weights_.head : weights_.embedding, {}, kNorm, kLogits, texts, false));
  choice_.push_back(shaders_.make_step(kSampleShader, {range(kLogits), input(kSettings), chosen_.range()},
                                       texts, {word(model_.vocabulary), word(model_.last_softcap)}));
  return steps;
}

void Graph::read(Texts& texts, Sampling& sampling, const std::function<void(Pass, const Steps&)>& run) {
  std::int64_t left = 0, most = 0;
  for (std::size_t i = 0; i < texts.tokens.size(); ++i) {
    left += texts.left(i);
    most = std::max(most, texts.left(i));
  }
  const Pass pass = most <= 1 ? Pass::kStep : left < options_.chunk ? Pass::kFew : Pass::kChunk;
  std::int64_t room = rows_of(pass);
  Rows rows;
  std::vector<std::size_t> whole;  // texts that are read to their ends
  for (std::size_t i = 0; i < texts.tokens.size(); ++i) {
    const std::int64_t taken = std::min(room, texts.left(i));
    const auto begin = texts.tokens[i].begin() + texts.read[i];
    rows.tokens.insert(rows.tokens.end(), begin, begin + taken);
    rows.counts.push_back(taken);
    rows.positions.push_back(texts.read[i]);
    texts.read[i] += taken;
    room -= taken;
    if (taken > 0 && texts.left(i) == 0) whole.push_back(i);
  }
  inputs_.write(words(rows, sampling));
  place_weights(rows.positions.front());
  Steps steps = this->pass(pass);
  if (!whole.empty()) steps.insert(steps.end(), choice_.begin(), choice_.end());
  plans_.compile();  // of a pass that was not made before
  if (run)
    run(pass, steps);
  else
    (void)execute(runtime_, steps);
  if (whole.empty()) return;
  const std::vector<std::uint32_t> chosen = chosen_.read();
  if (std::ranges::find(chosen, ~0U) != chosen.end())
    refuse("the logits are no numbers: the checkpoint holds infinities or NaN, or overflows");
  for (const std::size_t i : whole) texts.chosen[i] = chosen[i];
  ++sampling.draw;
}

Step Graph::product(const Tensor& matrix, const Tensor& bias, Part x, Part y, std::int64_t rows, bool adds) {
  vkattn::MatmulDesc desc = product_desc(matrix, rows, adds);
  desc.has_bias = bias.exists();
  return plans_.step(desc, {.a = range(x), .b = matrix.range, .bias = bias.range, .output = range(y)});
}

Step Graph::norm(const Tensor& gain, const Tensor& bias, Part x, Part y, std::int64_t rows, NormKind kind) {
  return shaders_.make_step(
      kNormShader, {range(x), range(y), gain.range, bias.exists() ? bias.range : gain.range, input(kLast)},
      rows,
      {word(rows), word(model_.width), bias.exists() ? 1U : 0U, kind == kAdds ? 1U : 0U,
       kind == kGathers ? 1U : 0U, word(model_.epsilon)});
}

// A product that is added to the stream, behind a norm if the model has one there.
void Graph::add_to_stream(Steps& steps, const Tensor& matrix, const Tensor& bias, const Tensor& post_norm,
                          Part x, std::int64_t rows) {
  const bool has_norm = post_norm.exists();
  steps.push_back(product(matrix, bias, x, has_norm ? kNorm : kStream, rows, !has_norm));
  if (has_norm) steps.push_back(norm(post_norm, {}, kNorm, kStream, rows, kAdds));
}

// Of a pass: its rows, the most of one text, and where heads lie in the rows of q, k and v.
struct Graph::Heads {
  Heads(const Graph& graph, Pass pass)
      : rows(graph.rows_of(pass)),
        most(pass == Pass::kStep ? 1 : std::min(rows, graph.options_.context)),
        turns(!graph.model_.frequencies.empty()) {
    const std::int64_t dim = graph.model_.head_dim;
    in_qkv.strides = vkattn::Strides{0, dim, graph.model_.qkv_width(), 1};
    in_qkv.alignment_bytes = dim % 4 == 0 ? 16U : 4U;
    alone.strides = vkattn::Strides{0, dim, graph.model_.query_width(), 1};
  }
  std::int64_t rows, most;
  bool turns;  // by positions
  vkattn::TensorDesc in_qkv, alone;
};

void Graph::add_layer(Steps& steps, std::size_t layer, Pass pass) {
  const Weights::Layer& weights = weights_.layers[layer];
  const Heads heads(*this, pass);
  const std::int64_t rows = heads.rows;
  steps.push_back(norm(weights.attention_norm, weights.attention_norm_bias, kStream, kNorm, rows));
  steps.push_back(product(weights.qkv, weights.qkv_bias, kNorm, kQkv, rows, false));
  steps.push_back(append(caches_[layer], heads));
  steps.push_back(attend(layer, heads));
  add_to_stream(steps, weights.out, weights.out_bias, weights.post_attention, kAttended, rows);
  steps.push_back(norm(weights.mlp_norm, weights.mlp_norm_bias, kStream, kNorm, rows));
  steps.push_back(product(weights.up, weights.up_bias, kNorm, kUp, rows, false));
  steps.push_back(make_activation(shaders_, model_, range(kUp), range(kActive), rows));
  add_to_stream(steps, weights.down, weights.down_bias, weights.post_mlp, kActive, rows);
}

// Keys and values go to the cache. Queries and keys are turned by their positions.
Step Graph::append(const Cache& cache, const Heads& heads) {
  vkattn::AppendDesc desc;
  desc.batch = options_.texts;
  desc.query_heads = heads.turns ? model_.heads : 0;
  desc.kv_heads = model_.kv_heads;
  desc.new_length = heads.most;
  desc.head_dim = model_.head_dim;
  desc.query = desc.key = desc.value = heads.in_qkv;
  desc.query_output = heads.alone;
  desc.cache_key.type = desc.cache_value.type = options_.cache;
  desc.cache = cache.layout;
  if (cache.layout.mapping == vkattn::KeyMapping::kContiguous) desc.cache_length = options_.context;
  desc.has_positions = true;
  desc.new_lengths = vkattn::Lengths::kPacked;
  desc.total_new_length = heads.rows;
  if (heads.turns) {
    desc.rotary = {vkattn::RotaryStyle::kHalfSplit, model_.head_dim};
    desc.rotary.has_frequencies = true;
    desc.rotary.magnitude = model_.rotary_magnitude;
  }
  vkattn::AppendTensors tensors;
  tensors.query = range(kQkv);
  tensors.query_output = range(kQuery);
  tensors.key = range(kQkv, model_.query_width());
  tensors.value = range(kQkv, model_.query_width() + model_.kv_heads * model_.head_dim);
  tensors.cache_key = cache.key.range();
  tensors.cache_value = cache.value.range();
  tensors.positions = input(kBefore);
  tensors.cumulative_new_lengths = input(kCumulative);
  tensors.page_table = page_table_.range();
  tensors.frequencies = range(kFrequencies);
  return plans_.step(desc, tensors);
}

// Queries attend over the cache.
Step Graph::attend(std::size_t layer, const Heads& heads) {
  const Cache& cache = caches_[layer];
  vkattn::AttentionDesc desc;
  desc.batch = options_.texts;
  desc.query_heads = model_.heads;
  desc.kv_heads = model_.kv_heads;
  desc.query_length = heads.most;
  desc.kv_length = options_.context;
  desc.head_dim = model_.head_dim;
  desc.query = heads.turns ? heads.alone : heads.in_qkv;
  desc.output = heads.alone;
  desc.key.type = desc.value.type = options_.cache;
  desc.scale = model_.scale;
  desc.causal = true;
  desc.align = vkattn::Align::kBottomRight;
  desc.query_lengths = vkattn::Lengths::kPacked;
  desc.total_query_length = heads.rows;
  desc.kv_lengths = vkattn::Lengths::kPerEntry;
  desc.cache = cache.layout;
  desc.softcap = model_.softcap;
  if (model_.windows[layer] > 0) desc.window.left = model_.windows[layer] - 1;
  const std::int64_t context = options_.context;
  if (options_.shows_all) desc.weights_strides = vkattn::Strides{0, context * context, context, 1};
  if (options_.shows_all || static_cast<std::int64_t>(layer) == options_.shown_layer)
    desc.weights = vkattn::WeightsStage::kProbabilities;
  vkattn::AttentionTensors tensors;
  tensors.query = heads.turns ? range(kQuery) : range(kQkv);
  tensors.key = cache.key.range();
  tensors.value = cache.value.range();
  tensors.output = range(kAttended);
  tensors.kv_lengths = input(kAfter);
  tensors.cumulative_query_lengths = input(kCumulative);
  tensors.page_table = page_table_.range();
  tensors.weights = range(kShown);
  if (!options_.shows_all) return plans_.step(desc, tensors);
  Shown& shown = all_shown_.emplace_back(
      Shown{tensors, static_cast<std::int64_t>(layer) * model_.heads * context * context, {}});
  shown.tensors.weights = range(kShown, shown.first);
  return plans_.step(desc, shown.tensors, &shown.rebind);
}

}  // namespace decoder

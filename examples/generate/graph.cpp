#include "generate/graph.hpp"

#include <bit>
#include <cmath>
#include <numeric>

// SPIR-V of the shaders, which glslang writes as arrays of words.
#include "activate_comp.h"
#include "embed_comp.h"
#include "norm_comp.h"
#include "sample_comp.h"

namespace generate {

using decoder::groups_of;
using decoder::Step;
using decoder::Steps;
using decoder::word;

namespace {

// The shaders, in the order of their table.
enum class Shader { kEmbed, kNorm, kActivate, kSample };

std::span<const decoder::ShaderRow> shader_table() {
  static const std::array<decoder::ShaderRow, 4> table = {{{"embed", embed_comp, 5},
                                                           {"norm", norm_comp, 5},
                                                           {"activate", activate_comp, 2},
                                                           {"sample", sample_comp, 3}}};
  return table;
}

constexpr std::int64_t kPageSize = 64, kSmallPass = 16;

// A layer with a window has a ring, if that is smaller: the window of each row of a pass, and the pass
// itself.
vkattn::CacheLayout layout_of(const Model& model, const GraphOptions& options, std::size_t layer) {
  vkattn::CacheLayout layout;
  const std::int64_t window = model.windows[layer];
  if (options.texts > 1) {
    layout.mapping = vkattn::KeyMapping::kPaged;
    layout.page_size = kPageSize;
    layout.page_table_stride = (options.context + kPageSize - 1) / kPageSize;
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

// Bytes of the keys, or of the values, of a layer.
std::uint64_t layer_bytes(const Model& model, const GraphOptions& options, std::size_t layer) {
  const std::int64_t elements =
      room_of(layout_of(model, options, layer), options) * model.kv_heads * model.head_dim;
  const auto blocks = static_cast<std::uint64_t>(elements) / vkattn::block_elements(options.cache);
  return (blocks * vkattn::block_bytes(options.cache) + 3) / 4 * 4;
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// The type's number in embed.comp.
std::uint32_t type_word(vkattn::DataType type) {
  return type == vkattn::DataType::kFloat32 ? 0 : type == vkattn::DataType::kFloat16 ? 1 : 2;
}

// Gemma's factor, rounded to the type of its weights as its authors' code does.
float embedding_factor(const Model& model, vkattn::DataType type) {
  if (!model.family->is_gemma) return 1;
  const float root = std::sqrt(static_cast<float>(model.width));
  if (type == vkattn::DataType::kFloat16) return vkattn::half_to_float(vkattn::float_to_half(root));
  return type == vkattn::DataType::kBfloat16 ? vkattn::bfloat16_to_float(vkattn::float_to_bfloat16(root))
                                             : root;
}

}  // namespace

Bytes cache_bytes(const Model& model, const GraphOptions& options) {
  Bytes bytes;
  for (std::size_t layer = 0; layer < model.windows.size(); ++layer) {
    const std::uint64_t each = layer_bytes(model, options, layer);
    bytes.all += 2 * each;
    bytes.largest = std::max(bytes.largest, each);
  }
  return bytes;
}

namespace {

std::int64_t shown_count(const Model& model, const GraphOptions& options) {
  const std::int64_t rows = options.chunk * options.context;  // of a pass, of one head
  // A pass may begin at any row, and has room for more rows than it writes.
  if (options.shows_all) return model.layers * model.heads * options.context * options.context + rows;
  return options.shown_layer < 0 ? 1 : model.heads * rows;
}

}  // namespace

NumberCounts::NumberCounts(const Model& model, const GraphOptions& options)
    : stream(options.chunk * model.width),
      normed(std::max(options.chunk, options.texts) * model.width),
      qkv(options.chunk * model.qkv_width()),
      turned(options.chunk * model.query_width()),
      attended(turned),
      up(options.chunk * model.up_width()),
      active(options.chunk * model.hidden),
      logits(options.texts * model.vocabulary),
      frequencies(std::max<std::int64_t>(static_cast<std::int64_t>(model.frequencies.size()), 1)),
      shown(shown_count(model, options)) {}

Bytes NumberCounts::bytes() const {
  Bytes bytes;
  for (const std::int64_t count :
       {stream, normed, qkv, turned, attended, up, active, logits, frequencies, shown}) {
    const std::uint64_t each = static_cast<std::uint64_t>(count) * sizeof(float);
    bytes.all += each;
    bytes.largest = std::max(bytes.largest, each);
  }
  return bytes;
}

Graph::Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
             const GraphOptions& options)
    : Graph(runtime, model, weights, options, NumberCounts(model, options)) {}

Graph::Graph(const vkattn::Runtime& runtime, const Model& model, const Weights& weights,
             const GraphOptions& options, const NumberCounts& counts)
    : runtime_(runtime),
      model_(model),
      weights_(weights),
      options_(options),
      shaders_(runtime, shader_table()),
      plans_(runtime),
      inputs_(runtime,
              [&] {
                std::int64_t size = 0;
                for (int each = 0; each < kInputs; ++each) size += input_size(each);
                return size;
              }()),
      page_table_(runtime, options.texts * ((options.context + kPageSize - 1) / kPageSize)),
      chosen_(runtime, options.texts),
      stream_(runtime, counts.stream),
      normed_(runtime, counts.normed),
      qkv_(runtime, counts.qkv),
      turned_(runtime, counts.turned),
      attended_(runtime, counts.attended),
      up_(runtime, counts.up),
      active_(runtime, counts.active),
      logits_(runtime, counts.logits),
      frequencies_(runtime, counts.frequencies),
      shown_(runtime, counts.shown) {
  plans_.max_dispatch_ns = options.max_dispatch_ns;
  if (!model.frequencies.empty()) frequencies_.write(model.frequencies);
  make_caches();
}

void Graph::make_caches() {
  std::vector<std::uint32_t> pages(
      static_cast<std::size_t>(options_.texts * ((options_.context + kPageSize - 1) / kPageSize)));
  std::iota(pages.begin(), pages.end(), 0U);
  page_table_.write(pages);
  for (std::size_t layer = 0; layer < model_.windows.size(); ++layer) {
    const std::uint64_t bytes = layer_bytes(model_, options_, layer);
    caches_.push_back({layout_of(model_, options_, layer), decoder::checked(runtime_.create_buffer(bytes)),
                       decoder::checked(runtime_.create_buffer(bytes))});
  }
}

std::int64_t Graph::input_size(int input) const {
  constexpr std::int64_t kAligned = 64;
  const std::int64_t count = input <= kPositions ? options_.chunk : options_.texts + 1;
  return (std::max<std::int64_t>(count, 4) + kAligned - 1) / kAligned * kAligned;
}

vkattn::BufferRange Graph::input(int input) const {
  std::int64_t first = 0;
  for (int each = 0; each < input; ++each) first += input_size(each);
  vkattn::BufferRange range = inputs_.range(first);
  range.size = static_cast<VkDeviceSize>(input_size(input)) * sizeof(std::uint32_t);
  return range;
}

void Graph::write(const Rows& rows, const Sampling& sampling) {
  inputs_.write(words(rows, sampling));
  place_weights(rows.positions.front());
}

void Graph::place_weights(std::int64_t position) {
  for (Shown& each : all_shown_) {
    each.tensors.weights = shown_.range(each.first + position * options_.context);
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
  add(kSettings, {sampling.seed, sampling.draw, bits(sampling.temperature), bits(sampling.top_p)});
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
  const bool has_positions = model_.family->positions != nullptr;
  const Matrix& table = weights_.embedding;
  steps.push_back(shaders_.make_step(
      Shader::kEmbed,
      {input(kTokens), input(kPositions), table.buffer.range(),
       has_positions ? weights_.positions.buffer.range() : table.buffer.range(), stream_.range()},
      groups_of(rows * model_.width),
      {word(rows), word(model_.width), type_word(table.type), has_positions ? 1U : 0U,
       bits(embedding_factor(model_, table.type))}));
  for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
    add_attention(steps, layer, pass);
    add_mlp(steps, layer, rows);
  }
  if (!choice_.empty()) return steps;
  choice_.push_back(
      norm(weights_.last_norm, weights_.last_norm_bias, stream_, normed_, options_.texts, false, true));
  choice_.push_back(product(weights_.head(), {}, normed_.range(), logits_.range(), options_.texts));
  choice_.push_back(shaders_.make_step(Shader::kSample, {logits_.range(), input(kSettings), chosen_.range()},
                                       options_.texts, {word(model_.vocabulary), bits(model_.last_softcap)}));
  return steps;
}

std::vector<std::uint32_t> Graph::chosen() const {
  std::vector<std::uint32_t> tokens = chosen_.read();
  if (std::ranges::find(tokens, ~0U) != tokens.end()) {
    std::fprintf(stderr,
                 "\nthe logits are no numbers: the checkpoint holds infinities or NaN, or overflows\n");
    std::exit(1);
  }
  return tokens;
}

Step Graph::product(const Matrix& matrix, const Vector& bias, const vkattn::BufferRange& x,
                    const vkattn::BufferRange& y, std::int64_t rows, bool adds) {
  vkattn::MatmulDesc desc{.rows = rows, .columns = matrix.all_outputs(), .inner = matrix.inputs};
  desc.b.type = matrix.type;
  // Blocks were made along the inputs, whatever the file has first.
  if (!matrix.is_input_first || matrix.type != matrix.stored)
    desc.b.strides = vkattn::MatrixStrides{0, 1, matrix.inputs};
  desc.has_bias = bias.offset >= 0;
  desc.accumulates = adds;
  return plans_.step(desc, {.a = x, .b = matrix.buffer.range(), .bias = weights_.range(bias), .output = y});
}

Step Graph::norm(const Vector& gain, const Vector& bias, const decoder::Floats& x, const decoder::Floats& y,
                 std::int64_t rows, bool adds, bool gathers) {
  return shaders_.make_step(
      Shader::kNorm, {x.range(), y.range(), weights_.range(gain), weights_.range(bias), input(kLast)}, rows,
      {word(rows), word(model_.width), bias.offset >= 0 ? 1U : 0U, adds ? 1U : 0U, gathers ? 1U : 0U,
       bits(model_.epsilon)});
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

void Graph::add_attention(Steps& steps, std::size_t layer, Pass pass) {
  const std::int64_t rows = rows_of(pass);
  const LayerWeights& weights = weights_.layers[layer];
  const bool has_post = weights.post_attention.offset >= 0;
  steps.push_back(norm(weights.attention_norm, weights.attention_norm_bias, stream_, normed_, rows));
  steps.push_back(product(weights.qkv, weights.qkv_bias, normed_.range(), qkv_.range(), rows));
  const Heads heads(*this, pass);
  steps.push_back(append(caches_[layer], heads));
  steps.push_back(attend(layer, heads));
  const decoder::Floats& target = has_post ? normed_ : stream_;
  steps.push_back(product(weights.out, weights.out_bias, attended_.range(), target.range(), rows, !has_post));
  if (has_post) steps.push_back(norm(weights.post_attention, {}, normed_, stream_, rows, true));
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
  tensors.query = qkv_.range();
  tensors.query_output = turned_.range();
  tensors.key = qkv_.range(model_.query_width());
  tensors.value = qkv_.range(model_.query_width() + model_.kv_heads * model_.head_dim);
  tensors.cache_key = cache.key.range();
  tensors.cache_value = cache.value.range();
  tensors.positions = input(kBefore);
  tensors.cumulative_new_lengths = input(kCumulative);
  tensors.page_table = page_table_.range();
  tensors.frequencies = frequencies_.range();
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
  tensors.query = heads.turns ? turned_.range() : qkv_.range();
  tensors.key = cache.key.range();
  tensors.value = cache.value.range();
  tensors.output = attended_.range();
  tensors.kv_lengths = input(kAfter);
  tensors.cumulative_query_lengths = input(kCumulative);
  tensors.page_table = page_table_.range();
  tensors.weights = shown_.range();
  if (!options_.shows_all) return plans_.step(desc, tensors);
  Shown& shown = all_shown_.emplace_back(
      Shown{tensors, static_cast<std::int64_t>(layer) * model_.heads * context * context, {}});
  shown.tensors.weights = shown_.range(shown.first);
  return plans_.step(desc, shown.tensors, &shown.rebind);
}

void Graph::add_mlp(Steps& steps, std::size_t layer, std::int64_t rows) {
  const LayerWeights& weights = weights_.layers[layer];
  const bool has_post = weights.post_mlp.offset >= 0;
  steps.push_back(norm(weights.mlp_norm, weights.mlp_norm_bias, stream_, normed_, rows));
  steps.push_back(product(weights.up, weights.up_bias, normed_.range(), up_.range(), rows));
  steps.push_back(
      shaders_.make_step(Shader::kActivate, {up_.range(), active_.range()}, groups_of(rows * model_.hidden),
                         {word(rows * model_.hidden), word(model_.hidden),
                          static_cast<std::uint32_t>(model_.activation), model_.is_gated() ? 1U : 0U}));
  const decoder::Floats& target = has_post ? normed_ : stream_;
  steps.push_back(product(weights.down, weights.down_bias, active_.range(), target.range(), rows, !has_post));
  if (has_post) steps.push_back(norm(weights.post_mlp, {}, normed_, stream_, rows, true));
}

}  // namespace generate

// Times a Llama model by ggml's operators on one of its devices: tokens/s of reading a prompt and of decoding
// token by token. scripts/measure-decoders runs it beside examples/generate.
//
//   vkattn_ggml_decode FILE.safetensors DEVICE THREADS f16|q8_0 HEADS CHUNK PROMPT NUMBERS...
//
// NUMBERS are tokens; the first PROMPT of them are the prompt, which is read in chunks. Each later one is
// read whatever was chosen, so that one other choice does not change those behind it. The output is a line of
// JSON with the times and the likeliest token behind the prompt and behind each later token. The model is the
// plain one of Llama: half-split rotary positions of base 10000, epsilon 1e-5, the embedding as head.
// Attention is GGML_OP_FLASH_ATTN_EXT over a float16 cache, as llama.cpp has it.
#include <ggml-alloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <vkattn/safetensors.hpp>

#include "graph.hpp"

namespace {

using vkattn::ggml::Backend;
using vkattn::ggml::Deleter;
using Tensor = ggml_tensor*;
using Tokens = std::vector<std::int32_t>;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

template <class T>
T checked(vkattn::Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return *std::move(result);
}

struct Layer {
  Tensor norm, query, key, value, out, mlp_norm, gate, up, down, cache_key, cache_value;
};

/// Weights and caches in memory of a back end.
class Model {
 public:
  Model(const std::string& path, ggml_backend_t backend, ggml_type type, std::int64_t query_heads,
        std::int64_t keys)
      : heads(query_heads), context(keys), file_(checked(vkattn::SafetensorsFile::open(path))), type_(type) {
    constexpr std::size_t kTensors = 4096;
    context_.reset(ggml_init({kTensors * ggml_tensor_overhead(), nullptr, true}));
    embedding = weight("model.embed_tokens.weight", GGML_TYPE_F16);
    last_norm = weight("model.norm.weight", GGML_TYPE_F32);
    for (int i = 0; file_.find("model.layers." + std::to_string(i) + ".input_layernorm.weight"); ++i)
      layers.push_back(layer("model.layers." + std::to_string(i) + "."));
    buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend));
    if (!buffer_) throw std::runtime_error("the device has no memory for the model");
    ggml_backend_buffer_clear(buffer_.get(), 0);
    for (const auto& [tensor, name] : names_) {
      const std::vector<float> values = checked(file_.read_floats(name));
      std::vector<std::byte> bytes(ggml_nbytes(tensor));
      ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, ggml_nrows(tensor), tensor->ne[0],
                          nullptr);
      ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
    }
  }

  std::int64_t heads, context;
  Tensor embedding = nullptr, last_norm = nullptr;
  std::vector<Layer> layers;

 private:
  Tensor weight(const std::string& name, ggml_type type) {
    const vkattn::StoredTensor* stored = file_.find(name);
    if (stored == nullptr) throw std::runtime_error(file_.path().string() + " has no tensor " + name);
    const Tensor tensor = ggml_new_tensor_2d(context_.get(), type, stored->shape.back(),
                                             stored->shape.size() > 1 ? stored->shape.front() : 1);
    names_[tensor] = name;
    return tensor;
  }

  Layer layer(const std::string& prefix) {
    const auto matrix = [&](const char* name) { return weight(prefix + name + ".weight", type_); };
    Layer layer{};
    layer.norm = weight(prefix + "input_layernorm.weight", GGML_TYPE_F32);
    layer.mlp_norm = weight(prefix + "post_attention_layernorm.weight", GGML_TYPE_F32);
    layer.query = matrix("self_attn.q_proj");
    layer.key = matrix("self_attn.k_proj");
    layer.value = matrix("self_attn.v_proj");
    layer.out = matrix("self_attn.o_proj");
    layer.gate = matrix("mlp.gate_proj");
    layer.up = matrix("mlp.up_proj");
    layer.down = matrix("mlp.down_proj");
    layer.cache_key = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F16, layer.key->ne[1], context);
    layer.cache_value = ggml_new_tensor_2d(context_.get(), GGML_TYPE_F16, layer.key->ne[1], context);
    return layer;
  }

  vkattn::SafetensorsFile file_;
  ggml_type type_;
  std::unique_ptr<ggml_context, Deleter> context_;
  std::unique_ptr<ggml_backend_buffer, Deleter> buffer_;
  std::map<Tensor, std::string> names_;
};

/// A pass over so many tokens: writes their keys and values to the cache, and gives the last one's logits.
class Pass {
 public:
  Pass(const Model& model, ggml_backend_t backend, std::int64_t rows)
      : model_(model), backend_(backend), rows_(rows) {
    constexpr std::size_t kNodes = 8192;
    context_.reset(ggml_init(
        {kNodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(kNodes, false), nullptr, true}));
    graph_ = ggml_new_graph_custom(context_.get(), kNodes, false);
    constexpr std::int64_t kMaskRows = 64;  // ggml pads masks to so many
    tokens_ = input(ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, rows));
    positions_ = input(ggml_new_tensor_1d(context_.get(), GGML_TYPE_I32, rows));
    places_ = input(ggml_new_tensor_1d(context_.get(), GGML_TYPE_I64, rows));
    mask_ = input(ggml_new_tensor_2d(context_.get(), GGML_TYPE_F16, model.context,
                                     (rows + kMaskRows - 1) / kMaskRows * kMaskRows));
    build();
    allocator_ = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
    if (!ggml_gallocr_alloc_graph(allocator_, graph_)) throw std::runtime_error("no memory for a pass");
  }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;
  ~Pass() { ggml_gallocr_free(allocator_); }

  /// Reads tokens from a position on; the likeliest token behind them.
  std::int32_t read(const std::int32_t* tokens, std::int64_t position) {
    std::vector<std::int32_t> positions;
    std::vector<std::int64_t> places;
    const ggml_fp16_t shown = ggml_fp32_to_fp16(0);
    std::vector<ggml_fp16_t> mask(at(ggml_nelements(mask_)),
                                  ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity()));
    for (std::int64_t i = 0; i < rows_; ++i) {
      places.push_back(position + i);
      positions.push_back(static_cast<std::int32_t>(position + i));
      std::fill_n(mask.begin() + i * model_.context, position + i + 1, shown);
    }
    set(tokens_, tokens);
    set(positions_, positions.data());
    set(places_, places.data());
    set(mask_, mask.data());
    if (ggml_backend_graph_compute(backend_, graph_) != GGML_STATUS_SUCCESS)
      throw std::runtime_error("the device failed");
    std::vector<float> logits(at(ggml_nelements(logits_)));
    ggml_backend_tensor_get(logits_, logits.data(), 0, logits.size() * sizeof(float));
    return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }

 private:
  static Tensor input(Tensor tensor) {
    ggml_set_input(tensor);
    return tensor;
  }
  static void set(Tensor tensor, const void* numbers) {
    ggml_backend_tensor_set(tensor, numbers, 0, ggml_nbytes(tensor));
  }

  [[nodiscard]] Tensor norm(Tensor x, Tensor gain) const {
    return ggml_mul(context_.get(), ggml_rms_norm(context_.get(), x, 1e-5F), gain);
  }

  [[nodiscard]] Tensor turned(Tensor x, std::int64_t dims) const {
    const Tensor heads = ggml_reshape_3d(context_.get(), x, dims, x->ne[0] / dims, rows_);
    return ggml_rope_ext(context_.get(), heads, positions_, nullptr, static_cast<int>(dims),
                         GGML_ROPE_TYPE_NEOX, 0, 10000.0F, 1, 0, 1, 0, 0);
  }

  Tensor attention(const Layer& layer, Tensor x) {
    ggml_context* c = context_.get();
    const std::int64_t dims = layer.query->ne[1] / model_.heads, kv_width = layer.key->ne[1];
    const Tensor query = turned(ggml_mul_mat(c, layer.query, x), dims);
    const Tensor key = turned(ggml_mul_mat(c, layer.key, x), dims);
    const Tensor value = ggml_mul_mat(c, layer.value, x);
    const auto cached = [&](Tensor cache, Tensor rows) {
      const Tensor written = ggml_set_rows(c, cache, ggml_reshape_2d(c, rows, kv_width, rows_), places_);
      ggml_build_forward_expand(graph_, written);
      const std::size_t row = cache->nb[1], head = ggml_row_size(cache->type, dims);
      return ggml_view_3d(c, written, dims, model_.context, kv_width / dims, row, head, 0);
    };
    const Tensor keys = cached(layer.cache_key, key), values = cached(layer.cache_value, value);
    const Tensor attended = ggml_flash_attn_ext(c, ggml_permute(c, query, 0, 2, 1, 3), keys, values, mask_,
                                                1 / std::sqrt(static_cast<float>(dims)), 0, 0);
    return ggml_mul_mat(c, layer.out, ggml_reshape_2d(c, attended, layer.query->ne[1], rows_));
  }

  void build() {
    ggml_context* c = context_.get();
    Tensor x = ggml_get_rows(c, model_.embedding, tokens_);
    for (const Layer& layer : model_.layers) {
      x = ggml_add(c, x, attention(layer, norm(x, layer.norm)));
      const Tensor y = norm(x, layer.mlp_norm);
      const Tensor active =
          ggml_swiglu_split(c, ggml_mul_mat(c, layer.gate, y), ggml_mul_mat(c, layer.up, y));
      x = ggml_add(c, x, ggml_mul_mat(c, layer.down, active));
    }
    const Tensor last = ggml_view_2d(c, x, x->ne[0], 1, x->nb[1], at(rows_ - 1) * x->nb[1]);
    logits_ = ggml_mul_mat(c, model_.embedding, norm(last, model_.last_norm));
    ggml_set_output(logits_);
    ggml_build_forward_expand(graph_, logits_);
  }

  const Model& model_;
  ggml_backend_t backend_;
  std::int64_t rows_;
  std::unique_ptr<ggml_context, Deleter> context_;
  ggml_cgraph* graph_ = nullptr;
  ggml_gallocr_t allocator_ = nullptr;
  Tensor tokens_ = nullptr, positions_ = nullptr, places_ = nullptr, mask_ = nullptr, logits_ = nullptr;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int run(const std::vector<std::string>& arguments) {
  constexpr std::size_t kFirstToken = 7;
  if (arguments.size() <= kFirstToken) {
    std::fputs("usage: vkattn_ggml_decode FILE DEVICE THREADS f16|q8_0 HEADS CHUNK PROMPT TOKENS...\n",
               stderr);
    return 2;
  }
  if (arguments[3] != "f16" && arguments[3] != "q8_0") {
    std::fprintf(stderr, "the weights are f16 or q8_0, not '%s'\n", arguments[3].c_str());
    return 2;
  }
  using vkattn::ggml::number_of;
  const int threads = number_of("THREADS", arguments[2], 1), heads = number_of("HEADS", arguments[4], 1);
  const std::int64_t chunk = number_of("CHUNK", arguments[5], 1);
  const std::int64_t prompt = number_of("PROMPT", arguments[6], 1);
  Tokens tokens;
  for (std::size_t i = kFirstToken; i < arguments.size(); ++i)
    tokens.push_back(number_of("a token", arguments[i], 0));
  if (prompt < chunk || prompt % chunk != 0 || prompt > static_cast<std::int64_t>(tokens.size())) {
    std::fputs("PROMPT must be chunks of CHUNK tokens, and no more than there are\n", stderr);
    return 2;
  }
  const Backend backend = vkattn::ggml::backend_of(arguments[1]);
  if (!backend) throw std::runtime_error("ggml has no device " + arguments[1]);
  vkattn::ggml::set_threads(backend.get(), threads);
  constexpr std::int64_t kKeys = 256;  // llama.cpp's caches grow by so many
  const auto context = (static_cast<std::int64_t>(tokens.size()) + kKeys - 1) / kKeys * kKeys;
  const Model model(arguments[0], backend.get(), arguments[3] == "q8_0" ? GGML_TYPE_Q8_0 : GGML_TYPE_F16,
                    heads, context);
  Pass chunks(model, backend.get(), chunk), steps(model, backend.get(), 1);
  (void)chunks.read(tokens.data(), 0);  // compiles what the device compiles
  (void)steps.read(tokens.data(), 0);
  auto begin = std::chrono::steady_clock::now();
  Tokens chosen(1);
  for (std::int64_t i = 0; i < prompt; i += chunk) chosen[0] = chunks.read(tokens.data() + i, i);
  const double reading = seconds_since(begin);
  begin = std::chrono::steady_clock::now();
  for (std::size_t i = at(prompt); i < tokens.size(); ++i)
    chosen.push_back(steps.read(tokens.data() + i, static_cast<std::int64_t>(i)));
  const double decoding = seconds_since(begin);
  std::printf("{\"reading_s\": %.6f, \"decoding_s\": %.6f, \"chosen\": [", reading, decoding);
  for (std::size_t i = 0; i < chosen.size(); ++i) std::printf("%s%d", i == 0 ? "" : ", ", chosen[i]);
  std::puts("]}");
  return 0;
}

}  // namespace

int main(int count, char** values) {
  return vkattn::ggml::run_program(count, values, run);
}

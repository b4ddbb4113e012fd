#include "graph.hpp"

#include <ggml-alloc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <span>
#include <sstream>
#include <stdexcept>

namespace vkattn::ggml {

namespace {

constexpr std::int64_t kRowsBefore = 5, kRowsBehind = 3;  // of a cache, around the rows that count

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

}  // namespace

std::string to_string(const Shape& shape) {
  static constexpr const char* kOrders[] = {"plain", "by length", "in a cache"};
  static constexpr const char* kMasks[] = {"no",     "a shared",    "a padded", "a per-head",
                                           "modulo", "a per-batch", "a causal"};
  std::ostringstream text;
  text << "batch " << shape.batch << ", " << shape.query_heads << " heads over " << shape.kv_heads << ", "
       << shape.queries << " x " << shape.keys << ", dims " << shape.head_dim << " and " << shape.value_dim
       << ", K " << ggml_type_name(shape.key) << ", V "
       << (shape.value_is_key ? "a view of K" : ggml_type_name(shape.value)) << ", "
       << kOrders[static_cast<int>(shape.order)] << ", " << kMasks[static_cast<int>(shape.mask)] << " mask";
  if (shape.max_bias > 0) text << ", max_bias " << shape.max_bias;
  if (shape.softcap > 0) text << ", softcap " << shape.softcap;
  if (shape.has_sinks) text << ", sinks";
  return text.str();
}

void load_backends() {
  static const bool loaded = [] {
    ggml_backend_load_all_from_path(std::getenv("VKATTN_GGML_BACKENDS"));
    return true;
  }();
  (void)loaded;
}

Backend backend_of(const std::string& device) {
  load_backends();
  ggml_backend_dev_t found = ggml_backend_dev_by_name(device.c_str());
  return Backend(found == nullptr ? nullptr : ggml_backend_dev_init(found, nullptr));
}

void set_threads(ggml_backend_t backend, int threads) {
  void* function = ggml_backend_reg_get_proc_address(
      ggml_backend_dev_backend_reg(ggml_backend_get_device(backend)), "ggml_backend_set_n_threads");
  if (function != nullptr) reinterpret_cast<ggml_backend_set_n_threads_t>(function)(backend, threads);
}

int number_of(const char* name, const std::string& word, int least) {
  int value = 0;
  const char* const last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data(), last, value);
  if (error == std::errc() && end == last && value >= least) return value;
  throw std::invalid_argument(std::string(name) + " is '" + word + "' but must be a whole number from " +
                              std::to_string(least) + " to " +
                              std::to_string(std::numeric_limits<int>::max()));
}

int run_program(int count, char** values, int (*run)(const std::vector<std::string>& arguments)) {
  try {
    return run({values + 1, values + count});
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

Graph::Graph(const Shape& shape, ggml_backend_t backend, std::uint64_t seed) : shape_(shape), random_(seed) {
  constexpr std::size_t kTensors = 32;
  context_.reset(ggml_init({kTensors * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true}));
  ggml_tensor* query = rows(GGML_TYPE_F32, shape.head_dim, shape.queries, shape.query_heads);
  ggml_tensor* key = rows(shape.key, shape.head_dim, shape.keys, shape.kv_heads);
  ggml_tensor* value = shape.value_is_key
                           ? ggml_view_4d(context_.get(), key, shape.value_dim, shape.keys, shape.kv_heads,
                                          shape.batch, key->nb[1], key->nb[2], key->nb[3], 0)
                           : rows(shape.value, shape.value_dim, shape.keys, shape.kv_heads);
  ggml_tensor* added = mask();
  node_ =
      ggml_flash_attn_ext(context_.get(), query, key, value, added,
                          1 / std::sqrt(static_cast<float>(shape.head_dim)), shape.max_bias, shape.softcap);
  if (shape.has_sinks) {
    stored_.push_back({ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, shape.query_heads), {}});
    ggml_flash_attn_ext_add_sinks(node_, stored_.back().tensor);
  }
  graph_ = ggml_new_graph(context_.get());
  ggml_build_forward_expand(graph_, node_);
  buffer_.reset(ggml_backend_alloc_ctx_tensors(context_.get(), backend));
  if (!buffer_) throw std::runtime_error("ggml has no memory for " + to_string(shape));
  for (Stored& stored : stored_) {
    if (stored.bytes.empty()) fill(stored.tensor, normal(*stored.tensor));
    ggml_backend_tensor_set(stored.tensor, stored.bytes.data(), 0, stored.bytes.size());
  }
}

/// Rows of Q, K or V in the order of the shape, as ggml wants them: (dim, row, head, batch).
ggml_tensor* Graph::rows(ggml_type type, std::int64_t dim, std::int64_t length, std::int64_t heads) {
  ggml_context* context = context_.get();
  const auto store = [&](std::int64_t second, std::int64_t third) {
    stored_.push_back({ggml_new_tensor_4d(context, type, dim, second, third, shape_.batch), {}});
    return stored_.back().tensor;
  };
  if (shape_.order == Order::kPlain) return store(length, heads);
  if (shape_.order == Order::kByLength) return ggml_permute(context, store(heads, length), 0, 2, 1, 3);
  ggml_tensor* all = store(length + kRowsBefore + kRowsBehind, heads);
  return ggml_view_4d(context, all, dim, length, heads, shape_.batch, all->nb[1], all->nb[2], all->nb[3],
                      all->nb[1] * at(kRowsBefore));
}

ggml_tensor* Graph::mask() {
  if (shape_.mask == Mask::kNone) return nullptr;
  std::int64_t rows = shape_.queries, heads = 1;
  if (shape_.mask == Mask::kPadded) rows = (rows + 63) / 64 * 64;
  if (shape_.mask == Mask::kPerHead) heads = shape_.query_heads;
  if (shape_.mask == Mask::kModulo && shape_.query_heads % 2 == 0) heads = shape_.query_heads / 2;
  const std::int64_t batch = shape_.mask == Mask::kPerBatch ? shape_.batch : 1;
  ggml_tensor* mask = ggml_new_tensor_4d(context_.get(), GGML_TYPE_F16, shape_.keys, rows, heads, batch);
  std::vector<float> values = normal(*mask);
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t key = static_cast<std::int64_t>(i) % shape_.keys;
    const std::int64_t query = static_cast<std::int64_t>(i) / shape_.keys % rows;
    if (shape_.mask == Mask::kCausal) {
      values[i] = key <= query + shape_.keys - shape_.queries ? 0 : kHidden;
    } else if (values[i] < -0.7F || (rows > 1 && query == 1)) {  // the second query sees no key
      values[i] = kHidden;
    }
  }
  stored_.push_back({mask, {}});
  fill(mask, values);
  return mask;
}

std::vector<float> Graph::normal(const ggml_tensor& tensor) {
  std::vector<float> values(at(ggml_nelements(&tensor)));
  std::normal_distribution<float> distribution;
  for (float& value : values) value = distribution(random_);
  return values;
}

/// Gives the stored tensor its bytes: the values in its type.
void Graph::fill(ggml_tensor* tensor, const std::vector<float>& values) {
  const auto found = std::find_if(stored_.begin(), stored_.end(),
                                  [&](const Stored& stored) { return stored.tensor == tensor; });
  found->bytes.resize(ggml_nbytes(tensor));
  ggml_quantize_chunk(tensor->type, values.data(), found->bytes.data(), 0, ggml_nrows(tensor), tensor->ne[0],
                      nullptr);
}

std::vector<float> Graph::numbers(const ggml_tensor& view) const {
  const ggml_tensor* whole = view.view_src == nullptr ? &view : view.view_src;
  const auto found = std::find_if(stored_.begin(), stored_.end(),
                                  [&](const Stored& stored) { return stored.tensor == whole; });
  std::vector<float> values;
  values.reserve(at(ggml_nelements(&view)));
  std::vector<float> row(at(view.ne[0]));
  for (std::int64_t batch = 0; batch < view.ne[3]; ++batch) {
    for (std::int64_t head = 0; head < view.ne[2]; ++head) {
      for (std::int64_t i = 0; i < view.ne[1]; ++i) {
        const std::byte* from = found->bytes.data() + view.view_offs + at(batch) * view.nb[3] +
                                at(head) * view.nb[2] + at(i) * view.nb[1];
        if (view.type == GGML_TYPE_F32) {
          std::copy_n(reinterpret_cast<const float*>(from), row.size(), row.begin());
        } else {
          ggml_get_type_traits(view.type)->to_float(from, row.data(), view.ne[0]);
        }
        values.insert(values.end(), row.begin(), row.end());
      }
    }
  }
  return values;
}

std::vector<float> Graph::bias() const {
  const ggml_tensor& mask = *node_->src[3];
  const std::vector<float> values = numbers(mask);
  std::int64_t power = 1;
  while (2 * power <= shape_.query_heads) power *= 2;
  std::vector<float> bias;
  for (std::int64_t batch = 0; batch < shape_.batch; ++batch) {
    for (std::int64_t head = 0; head < shape_.query_heads; ++head) {
      double slope = 1;
      if (shape_.max_bias > 0) {
        const double step = static_cast<double>(shape_.max_bias) / static_cast<double>(power);
        slope = head < power ? std::exp2(-step * static_cast<double>(head + 1))
                             : std::exp2(-step / 2 * static_cast<double>(2 * (head - power) + 1));
      }
      const std::int64_t plane = batch % mask.ne[3] * mask.ne[2] + head % mask.ne[2];
      const float* from = values.data() + plane * mask.ne[1] * mask.ne[0];
      for (const float value : std::span(from, at(shape_.queries * shape_.keys))) {
        bias.push_back(static_cast<float>(slope * static_cast<double>(value)));
      }
    }
  }
  return bias;
}

std::vector<float> Graph::output() const {
  std::vector<float> values(at(ggml_nelements(node_)));
  ggml_backend_tensor_get(node_, values.data(), 0, values.size() * sizeof(float));
  return values;
}

}  // namespace vkattn::ggml

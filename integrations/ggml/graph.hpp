// A graph of ggml with one attention over random data, for the test of the back end and for measurements.
#pragma once

#include <ggml-backend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace vkattn::ggml {

/// How the rows of Q, K and V lie in memory.
enum class Order {
  kPlain,     ///< rows of a head one after the other
  kByLength,  ///< heads of a row one after the other, as models make them: a permuted view
  kInCache,   ///< rows in the middle of longer heads: a view at an offset
};

/// What the mask is.
enum class Mask {
  kNone,
  kShared,    ///< one for all heads and batch entries
  kPadded,    ///< the same, with rows beyond the queries
  kPerHead,   ///< one for each query head
  kModulo,    ///< one for each of half of the query heads
  kPerBatch,  ///< one for each batch entry
  kCausal,    ///< one for all: zeros, and minus infinity behind the diagonal from the bottom right
};

/// One GGML_OP_FLASH_ATTN_EXT.
struct Shape {
  ggml_type key = GGML_TYPE_F32;
  ggml_type value = GGML_TYPE_F32;
  std::int64_t head_dim = 64, value_dim = 64;
  std::int64_t query_heads = 1, kv_heads = 1;
  std::int64_t queries = 1, keys = 1, batch = 1;
  bool value_is_key = false;  ///< V is a view of K's first value_dim elements
  Order order = Order::kPlain;
  Mask mask = Mask::kNone;
  float max_bias = 0;
  float softcap = 0;
  bool has_sinks = false;
};

/// The shape in a line.
[[nodiscard]] std::string to_string(const Shape& shape);

struct Deleter {
  void operator()(ggml_context* context) const { ggml_free(context); }
  void operator()(ggml_backend_buffer_t buffer) const { ggml_backend_buffer_free(buffer); }
  void operator()(ggml_backend_t backend) const { ggml_backend_free(backend); }
};
using Backend = std::unique_ptr<ggml_backend, Deleter>;

/// The back ends that ggml loads from the folder in VKATTN_GGML_BACKENDS, and vkattn's from
/// GGML_BACKEND_PATH.
void load_backends();
/// The back end of a device by its name, such as CPU or vkattn; null if there is none.
[[nodiscard]] Backend backend_of(const std::string& device);
/// Lets ggml's CPU back end use so many threads.
void set_threads(ggml_backend_t backend, int threads);

/// A whole number of the command line. Throws a sentence with its name if the word is none from `least` on.
[[nodiscard]] int number_of(const char* name, const std::string& word, int least);

/// What main() of a program returns: that of `run` on its arguments, or after a line that tells an
/// exception 2 if number_of() threw it, else 1.
[[nodiscard]] int run_program(int count, char** values,
                              int (*run)(const std::vector<std::string>& arguments));

/// The graph, its tensors in memory of a back end, and their bytes.
class Graph {
 public:
  /// Graphs of one shape and seed have equal numbers.
  Graph(const Shape& shape, ggml_backend_t backend, std::uint64_t seed);

  [[nodiscard]] ggml_tensor& node() const { return *node_; }
  [[nodiscard]] ggml_cgraph* graph() const { return graph_; }
  [[nodiscard]] std::vector<float> output() const;

  /// The numbers that the tensors hold, (batch, head, row, dim) without padding.
  [[nodiscard]] std::vector<float> query() const { return numbers(*node_->src[0]); }
  [[nodiscard]] std::vector<float> key() const { return numbers(*node_->src[1]); }
  [[nodiscard]] std::vector<float> value() const { return numbers(*node_->src[2]); }
  [[nodiscard]] std::vector<float> sinks() const { return numbers(*node_->src[4]); }
  /// What is added to each score: the mask times the slopes, (batch, query head, query, key).
  [[nodiscard]] std::vector<float> bias() const;

 private:
  struct Stored {
    ggml_tensor* tensor;
    std::vector<std::byte> bytes;
  };

  ggml_tensor* rows(ggml_type type, std::int64_t dim, std::int64_t length, std::int64_t heads);
  ggml_tensor* mask();
  void fill(ggml_tensor* tensor, const std::vector<float>& values);
  [[nodiscard]] std::vector<float> normal(const ggml_tensor& tensor);
  [[nodiscard]] std::vector<float> numbers(const ggml_tensor& view) const;

  Shape shape_;
  std::mt19937_64 random_;
  std::unique_ptr<ggml_context, Deleter> context_;
  std::unique_ptr<ggml_backend_buffer, Deleter> buffer_;
  std::vector<Stored> stored_;  ///< tensors that are no views
  ggml_tensor* node_ = nullptr;
  ggml_cgraph* graph_ = nullptr;
};

}  // namespace vkattn::ggml

// The numbers that are learned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decoder/graph.hpp"

namespace train_text {

using decoder::Floats;
using decoder::Indices;

// The sizes of a model.
struct Shape {
  std::int64_t vocabulary = 0, context = 64, layers = 2, heads = 4, width = 64;

  [[nodiscard]] std::int64_t head_dim() const { return width / heads; }
  [[nodiscard]] std::int64_t hidden() const { return 4 * width; }
  // As it is read with a cache.
  [[nodiscard]] decoder::Model model() const;
};

struct Parameter {
  std::string name;
  decoder::Tensor& tensor;
  float deviation;      // of the first values
  std::int64_t offset;  // of its first element among all

  [[nodiscard]] std::int64_t elements() const { return tensor.outputs * tensor.inputs; }
};

// All parameters in one array, and three more arrays of the same form: gradients, and AdamW's means and
// squares. Parameters begin at multiples of 256 bytes; elements between them are 0.
class Parameters {
 public:
  Parameters(const vkattn::Runtime& runtime, const Shape& shape);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  // Sets the first values: normal numbers from a seed.
  void initialise(std::uint64_t seed) const;

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }
  // Their values. The gains of norms are ones.
  [[nodiscard]] const decoder::Weights& weights() const { return weights_; }
  // The gradient of one of the weights.
  [[nodiscard]] vkattn::BufferRange gradient(const decoder::Tensor& weight) const;
  // The number of elements of each array.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // The size() of such a model's parameters.
  [[nodiscard]] static std::int64_t size_of(const Shape& shape);
  // The number of parameters that are learned.
  [[nodiscard]] std::int64_t count() const;

 private:
  Shape shape_;
  decoder::Weights weights_;
  std::vector<Parameter> parameters_;
  std::int64_t size_;

 public:
  Floats values, gradients, means, squares;

 private:
  Floats gains_;
};

// The prefix of a layer's parameters, such as "blocks.3.".
[[nodiscard]] std::string block_name(std::size_t layer);

}  // namespace train_text

// The numbers that are learned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "decoder/arrays.hpp"

namespace train_text {

using decoder::Floats;
using decoder::Indices;

// The sizes of a model.
struct Shape {
  std::int64_t vocabulary = 0, context = 64, layers = 2, heads = 4, width = 64;

  [[nodiscard]] std::int64_t head_dim() const { return width / heads; }
  [[nodiscard]] std::int64_t hidden() const { return 4 * width; }
  bool operator==(const Shape&) const = default;
};

// A matrix (outputs, inputs), as files have it, or the rows of a table.
struct Parameter {
  std::string name;
  std::int64_t rows, columns;
  float deviation;      // of the first values
  std::int64_t offset;  // of its first element among all

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// All parameters in one array, and three more arrays of the same form: gradients, and AdamW's means and
// squares. Parameters begin at multiples of 256 bytes; elements between them are 0.
class Parameters {
 public:
  Parameters(const vkattn::Runtime& runtime, const Shape& shape);

  // Sets the first values: normal numbers from a seed.
  void initialise(std::uint64_t seed) const;

  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }
  // The parameter of that name, which must exist, and its ranges.
  [[nodiscard]] const Parameter& at(std::string_view name) const;
  [[nodiscard]] vkattn::BufferRange value(std::string_view name) const { return range(values, name); }
  [[nodiscard]] vkattn::BufferRange gradient(std::string_view name) const { return range(gradients, name); }
  // The number of elements of each array.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // The number of parameters that are learned.
  [[nodiscard]] std::int64_t count() const;

 private:
  [[nodiscard]] vkattn::BufferRange range(const Floats& array, std::string_view name) const;
  Shape shape_;
  std::vector<Parameter> parameters_;
  std::int64_t size_;

 public:
  Floats values, gradients, means, squares;
};

// The prefix of a layer's parameters, such as "blocks.3.".
[[nodiscard]] std::string block_name(std::size_t layer);

}  // namespace train_text

// The numbers that are learned.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train_text/steps.hpp"

namespace train_text {

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

  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }
  // The range of the parameter of that name, which must exist.
  [[nodiscard]] vkattn::BufferRange value(std::string_view name) const { return range(values, name); }
  [[nodiscard]] vkattn::BufferRange gradient(std::string_view name) const { return range(gradients, name); }
  // The number of elements of each array.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // The number of parameters that are learned.
  [[nodiscard]] std::int64_t count() const;

 private:
  [[nodiscard]] vkattn::BufferRange range(const Floats& array, std::string_view name) const;
  std::vector<Parameter> parameters_;
  std::int64_t size_;

 public:
  Floats values, gradients, means, squares;
};

// The prefix of a layer's parameters, such as "blocks.3.".
[[nodiscard]] std::string block_name(std::int64_t layer);

}  // namespace train_text

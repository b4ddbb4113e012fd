// The numbers that are learned.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train_text/arrays.hpp"

namespace train_text {

// What the shapes of a model follow from.
struct Shape {
  std::int64_t vocabulary = 0, context = 64, layers = 2, heads = 4, width = 64;

  [[nodiscard]] std::int64_t head_dim() const { return width / heads; }
  [[nodiscard]] std::int64_t hidden() const { return 4 * width; }
  bool operator==(const Shape&) const = default;
};

// A matrix as files have it: (outputs, inputs), or a table's rows.
struct Parameter {
  std::string name;
  std::int64_t rows, columns;
  float deviation;      // of its first values
  std::int64_t offset;  // of its first element among all

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
};

// All of them in one array, and three more of the same form: gradients, and what AdamW remembers. Elements
// between parameters, which begin at multiples of 256 bytes, are 0.
class Parameters {
 public:
  Parameters(const vkattn::Runtime& runtime, const Shape& shape);

  // First values: normal numbers from a seed.
  void initialise(std::uint64_t seed) const;

  [[nodiscard]] const std::vector<Parameter>& all() const { return parameters_; }
  // Of one of that name, which there must be.
  [[nodiscard]] vkattn::BufferRange value(std::string_view name) const { return range(values, name); }
  [[nodiscard]] vkattn::BufferRange gradient(std::string_view name) const { return range(gradients, name); }
  // Elements of each array.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // Numbers that are learned.
  [[nodiscard]] std::int64_t count() const;

 private:
  [[nodiscard]] vkattn::BufferRange range(const Floats& array, std::string_view name) const;
  std::vector<Parameter> parameters_;
  std::int64_t size_;

 public:
  Floats values, gradients, means, squares;
};

// "blocks.3.", before the names of a layer's parameters.
[[nodiscard]] std::string block_name(std::int64_t layer);

}  // namespace train_text

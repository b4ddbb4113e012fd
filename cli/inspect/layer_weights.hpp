// Reads a layer's weights from a file, under the names that published models use.
#pragma once

#include <vkattn/safetensors.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/arguments.hpp"

namespace vkattn::cli {

/// A matrix whose rows lie without padding.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> values;
  std::string name;  ///< for messages

  [[nodiscard]] std::span<const float> row(std::int64_t index) const {
    return std::span(values).subspan(static_cast<std::size_t>(index * columns),
                                     static_cast<std::size_t>(columns));
  }
};

/// The shape in words, such as "(3, 8)".
[[nodiscard]] std::string shape_of(const Matrix& matrix);

/// The name of a layer's tensor in its file. It begins with --layer and a dot.
[[nodiscard]] std::string name_in_layer(const InspectArguments& arguments, std::string_view name);

[[nodiscard]] std::optional<Matrix> find_matrix(SafetensorsFile& file, const std::string& name);

/// Some names of tensors in the file, for a message.
[[nodiscard]] std::string some_names(const SafetensorsFile& file);

/// W_Q and W_K, stored (outputs, inputs), their biases if the layer has some, and the layer's heads. With
/// --output also W_V and W_O.
struct LayerWeights {
  Matrix query, key, value, output;
  std::vector<float> query_bias, key_bias, value_bias, output_bias;
  std::int64_t kv_heads = 0, head_dim = 0, value_dim = 0;
};

/// Reads the weights of --weights. W_Q, W_K and W_V must take rows of the input `x`.
[[nodiscard]] LayerWeights read_weights(const InspectArguments& arguments, const Matrix& x);

/// The number of --heads, which must be given.
[[nodiscard]] std::int64_t layer_heads(const InspectArguments& arguments);

}  // namespace vkattn::cli

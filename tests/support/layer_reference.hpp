// A layer of multi-head attention in float64: plain products before and after the reference of attention and
// its gradients.
#pragma once

#include <vkattn/multi_head_attention.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace vkattn::tests {

/// The inputs of a layer, as numbers that its storage types hold exactly.
struct LayerData {
  std::array<std::vector<float>, 3> inputs;              ///< query, key, value, as far as the layer has them
  std::map<std::string, std::vector<float>> parameters;  ///< key: ParameterShape::name
  std::vector<float> grad_output;
  std::vector<float> frequencies;
  reference::Inputs
      features;       ///< mask, lengths, slopes and others; the caller keeps what they refer to alive
  Strides grad_mask;  ///< strides of the mask's gradient; a stride of 0 means that the gradient is summed
                      ///< along it
};

/// Everything that a layer may write, without padding.
struct LayerResults {
  std::vector<double> output;
  std::vector<double> weights;           ///< (batch, query_heads, query_length, kv_length)
  std::vector<double> averaged_weights;  ///< (batch, query_length, kv_length)
  std::array<std::vector<double>, 3> grad_inputs;
  std::map<std::string, std::vector<double>> grad_parameters;
  /// The gradients of inputs of the scores. If an input does not exist, its vector has no defined content.
  std::vector<double> grad_mask, grad_alibi_slopes, grad_sinks;
};

/// For a resolved descriptor without a cache. Computes gradients if the data have a grad_output.
[[nodiscard]] LayerResults layer_reference(const MultiHeadAttentionDesc& desc, const LayerData& data);

/// The number of rows of an input, 0 if the layer does not have it, and the elements of a row.
struct InputSize {
  std::int64_t rows = 0, columns = 0;
};
[[nodiscard]] InputSize input_size(const MultiHeadAttentionDesc& resolved, std::size_t input);

}  // namespace vkattn::tests

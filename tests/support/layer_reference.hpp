// A layer of multi-head attention in float64: plain products around the reference of attention and its
// gradients.
#pragma once

#include <vkattn/multi_head_attention.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "reference/reference.hpp"

namespace vkattn::tests {

/// What a layer is given, as numbers that its storage types hold exactly.
struct LayerData {
  std::array<std::vector<float>, 3> inputs;              ///< query, key, value; those that it has
  std::map<std::string, std::vector<float>> parameters;  ///< by ParameterShape::name
  std::vector<float> grad_output;
  std::vector<float> frequencies;
  reference::Inputs features;  ///< mask, lengths, slopes, …; what it refers to outlives this
  Strides grad_mask;           ///< of the mask's gradient: those of 0 are summed over
};

/// Everything that a layer may write, without padding.
struct LayerResults {
  std::vector<double> output;
  std::vector<double> weights;           ///< (batch, query_heads, query_length, kv_length)
  std::vector<double> averaged_weights;  ///< (batch, query_length, kv_length)
  std::array<std::vector<double>, 3> grad_inputs;
  std::map<std::string, std::vector<double>> grad_parameters;
  /// Of what attention's scores are made of; of what it has not there is no telling what they hold.
  std::vector<double> grad_mask, grad_alibi_slopes, grad_sinks;
};

/// Of a resolved descriptor without a cache. Gradients where data have a grad_output.
[[nodiscard]] LayerResults layer_reference(const MultiHeadAttentionDesc& desc, const LayerData& data);

/// Rows of an input, 0 of one that the layer has not, and elements of each.
struct InputSize {
  std::int64_t rows = 0, columns = 0;
};
[[nodiscard]] InputSize input_size(const MultiHeadAttentionDesc& resolved, std::size_t input);

}  // namespace vkattn::tests

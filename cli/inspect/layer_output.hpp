// Computes the output of a layer from attention's output for each head.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "inspect/layer_weights.hpp"
#include "run_outputs.hpp"

namespace vkattn::cli {

/// W_O, (width, heads * value_dim), its bias if the layer has one, and the shape of the output. That is the
/// shape of the input with another width.
struct LayerOutput {
  Matrix weight;
  std::vector<float> bias;
  std::int64_t value_dim = 0;
  std::vector<std::int64_t> shape;
};

/// Writes the rows of O W_O^T + b_O, summed in float64. `heads` is O as (head, row, value_dim).
void write_layer_output(OutputFile& file, const LayerOutput& layer, std::span<const float> heads);

}  // namespace vkattn::cli

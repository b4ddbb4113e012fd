// See layer_output.hpp.
#include "inspect/layer_output.hpp"

#include <cstddef>

#include "error.hpp"
#include "npy.hpp"

namespace vkattn::cli {

void write_layer_output(OutputFile& file, const LayerOutput& layer, std::span<const float> heads) {
  const std::int64_t width = layer.weight.columns;  // the width of all heads side by side
  const std::int64_t rows = static_cast<std::int64_t>(heads.size()) / width;
  const std::int64_t value_dim = layer.value_dim;
  std::vector<float> output;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < layer.weight.rows; ++column) {
      const std::span<const float> weights = layer.weight.row(column);
      double sum =
          layer.bias.empty() ? 0.0 : static_cast<double>(layer.bias[static_cast<std::size_t>(column)]);
      for (std::int64_t i = 0; i < width; ++i) {
        const std::int64_t at = (i / value_dim * rows + row) * value_dim + i % value_dim;
        sum += static_cast<double>(heads[static_cast<std::size_t>(at)]) *
               static_cast<double>(weights[static_cast<std::size_t>(i)]);
      }
      output.push_back(static_cast<float>(sum));
    }
  }
  require(file.file.write(npy::make_header(file.type, file.shape)));
  require(file.file.write(std::as_bytes(std::span(output))));
}

}  // namespace vkattn::cli

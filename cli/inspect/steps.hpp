// What `vkattn inspect --print` and `--steps` show: each matrix between queries and output, as text.
#pragma once

#include <string>
#include <vector>

#include "inspect/inputs.hpp"
#include "inspect/weights.hpp"
#include "json.hpp"

namespace vkattn::cli {

/// The steps in their order. A step that nobody asked for or that changes nothing is empty. The output is
/// (head, query, value_dim). The others are (head, query, key).
struct Steps {
  std::vector<float> scores;  ///< each query times each key
  std::vector<float> scaled;  ///< scores times the scale
  std::vector<float> masked;  ///< the input of softmax: -inf if a key is hidden
  std::vector<float> weights;
  std::vector<float> output;  ///< also empty if there are no values
};

/// All steps except the output. `scaled` and `unscaled` are the weights with the problem's scale and with
/// scale 1.
[[nodiscard]] Steps all_steps(const Runtime& runtime, const InspectInputs& inputs, const Weights& scaled,
                              const Weights& unscaled);

/// Fails if the matrices are too large to be read as text.
void require_room_in_text(const std::string& option, const InspectInputs& inputs);

/// The matrices of each head, one below the other, with the labels of their rows and columns.
[[nodiscard]] std::string steps_text(const InspectInputs& inputs, const Steps& steps);
/// The steps of one head. A hidden key is null.
[[nodiscard]] Json steps_json(const InspectInputs& inputs, const Steps& steps, std::int64_t head);

/// A JSON list for each row of the matrix.
[[nodiscard]] Json matrix_json(std::span<const float> values, std::size_t columns);

}  // namespace vkattn::cli

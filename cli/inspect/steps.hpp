// What `vkattn inspect --print` and `--steps` show: each matrix between queries and output, as text.
#pragma once

#include <string>
#include <vector>

#include "inspect/inputs.hpp"
#include "inspect/weights.hpp"
#include "json.hpp"

namespace vkattn::cli {

/// The steps in their order. Those that nobody asked for are empty, and so are those that change nothing;
/// output is (head, query, value_dim), the others are (head, query, key).
struct Steps {
  std::vector<float> scores;  ///< each query times each key
  std::vector<float> scaled;  ///< times the scale
  std::vector<float> masked;  ///< what softmax takes: -inf where a key is hidden
  std::vector<float> weights;
  std::vector<float> output;  ///< empty without values, too
};

/// All of them but the output. `scaled` and `unscaled` are the weights with the problem's scale and with
/// scale 1.
[[nodiscard]] Steps all_steps(const Runtime& runtime, const InspectInputs& inputs, const Weights& scaled,
                              const Weights& unscaled);

/// Fails where the matrices are too large to be read as text.
void require_room_in_text(const std::string& option, const InspectInputs& inputs);

/// The matrices of each head below each other, with the labels of their rows and columns.
[[nodiscard]] std::string steps_text(const InspectInputs& inputs, const Steps& steps);
/// Of one head; null where a key is hidden.
[[nodiscard]] Json steps_json(const InspectInputs& inputs, const Steps& steps, std::int64_t head);

/// A row of numbers for each row of the matrix.
[[nodiscard]] Json matrix_json(std::span<const float> values, std::size_t columns);

}  // namespace vkattn::cli

// Queries and keys to inspect, from files or from a text.
#pragma once

#include <vkattn/attention.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/arguments.hpp"
#include "inspect/layer_output.hpp"

namespace vkattn::cli {

/// The inputs of one batch entry. Weights do not depend on values. If a problem needs values, the keys stand
/// in for them.
struct InspectInputs {
  AttentionDesc desc;             ///< float32; it does not ask for weights yet
  std::vector<float> query, key;  ///< in the strides of the descriptor
  std::optional<AttentionDesc> output_desc =
      {};  ///< a descriptor with the values of --value or of a layer, to compute an output
  std::vector<float> value;
  std::vector<std::string> query_labels, key_labels;
  bool labels_are_numbers = false;
  std::string source;                            ///< the text or the files, for a title
  std::string warning;                           ///< why the weights have no meaning; empty if they have one
  std::vector<std::string> advice = {};          ///< about arguments that may be meant differently
  std::optional<LayerOutput> layer_output = {};  ///< set if --output asks for it

  /// Numbers in a value; 0 if there are no values.
  [[nodiscard]] std::int64_t value_dim() const { return output_desc ? output_desc->value_dim : 0; }
};

[[nodiscard]] InspectInputs inputs_of_text(const InspectArguments& arguments);
[[nodiscard]] InspectInputs inputs_of_arrays(const InspectArguments& arguments);
/// Inputs from a layer's input and its weights; see inspect/layer_weights.hpp.
[[nodiscard]] InspectInputs inputs_of_layer(const InspectArguments& arguments);

/// The common parts of these functions.
/// @{
/// A descriptor from the words that say which keys are visible and how scores become weights.
[[nodiscard]] AttentionDesc desc_of_words(const InspectArguments& arguments);
/// The descriptor with an output (head, query, dim), whatever the order of the inputs is.
[[nodiscard]] AttentionDesc desc_with_output(AttentionDesc desc);
/// Takes one element of each key as its value.
void set_stand_in_values(AttentionDesc& desc);
[[nodiscard]] std::vector<std::string> number_labels(std::int64_t count);
/// The name of a file, for a title.
[[nodiscard]] std::string file_label(const std::string& path);
/// @}

}  // namespace vkattn::cli

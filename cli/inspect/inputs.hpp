// Queries and keys to look at, from files or from a text.
#pragma once

#include <vkattn/attention.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inspect/arguments.hpp"
#include "inspect/layer_output.hpp"

namespace vkattn::cli {

/// Of one batch entry. Weights do not depend on values: the keys stand in for them, as far as a problem needs
/// some.
struct InspectInputs {
  AttentionDesc desc;             ///< float32, with no weights asked for yet
  std::vector<float> query, key;  ///< as the descriptor's strides have them
  std::optional<AttentionDesc> output_desc =
      {};  ///< the same with the values of --value or of a layer, which give an output
  std::vector<float> value;
  std::vector<std::string> query_labels, key_labels;
  bool labels_are_numbers = false;
  std::string source;                            ///< for a title: the text or the files
  std::string warning;                           ///< where the weights have no meaning
  std::vector<std::string> advice = {};          ///< of what may be meant otherwise
  std::optional<LayerOutput> layer_output = {};  ///< what --output asks for

  /// Numbers of a value; 0 without values.
  [[nodiscard]] std::int64_t value_dim() const { return output_desc ? output_desc->value_dim : 0; }
};

[[nodiscard]] InspectInputs inputs_of_text(const InspectArguments& arguments);
[[nodiscard]] InspectInputs inputs_of_arrays(const InspectArguments& arguments);
/// Of a layer's input and its weights, as nn.MultiheadAttention stores them.
[[nodiscard]] InspectInputs inputs_of_layer(const InspectArguments& arguments);

/// What these have in common.
/// @{
/// Words that say which keys are seen, and how scores become weights.
[[nodiscard]] AttentionDesc desc_of_words(const InspectArguments& arguments);
/// With an output (head, query, dim), whatever the order of the inputs.
[[nodiscard]] AttentionDesc desc_with_output(AttentionDesc desc);
/// One element of each key, where it lies, is value enough.
void set_stand_in_values(AttentionDesc& desc);
[[nodiscard]] std::vector<std::string> number_labels(std::int64_t count);
/// A file's name, for a title.
[[nodiscard]] std::string file_label(const std::string& path);
/// @}

}  // namespace vkattn::cli

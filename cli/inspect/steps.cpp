// See steps.hpp.
#include "inspect/steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "console.hpp"
#include "error.hpp"
#include "inspect/reports.hpp"

namespace vkattn::cli {
namespace {

/// The most rows, columns and numbers of an output that fit on a screen.
constexpr std::int64_t kMostPrinted = 12;

/// One matrix of all heads, its name in JSON and its title in text.
struct Step {
  std::string name, title;
  const std::vector<float>* values;
  std::vector<std::string> columns;

  [[nodiscard]] std::span<const float> of_head(std::int64_t head, std::size_t rows) const {
    const std::size_t size = rows * columns.size();
    return std::span(*values).subspan(static_cast<std::size_t>(head) * size, size);
  }
};

std::vector<Step> steps_that_are_there(const InspectInputs& inputs, const Steps& steps) {
  std::vector<Step> all = {
      {"scores", "each query times each key", &steps.scores, inputs.key_labels},
      {"scaled", "scores times " + scale_text(inputs.desc), &steps.scaled, inputs.key_labels},
      {"masked", "what softmax takes; - is a hidden key", &steps.masked, inputs.key_labels},
      {"weights", "softmax of each row", &steps.weights, inputs.key_labels},
      {"output", "weights times values", &steps.output, number_labels(inputs.value_dim())}};
  std::erase_if(all, [](const Step& step) { return step.values->empty(); });
  return all;
}

std::string number_text(float value) {
  if (value == 0) return "0";  // exactly 0; a small number is printed as 0.0000
  return std::isinf(value) ? "-" : console::fixed(static_cast<double>(value), 4);
}

std::string matrix_text(std::span<const float> values, const std::vector<std::string>& rows,
                        const std::vector<std::string>& columns) {
  const auto widest = [](const std::vector<std::string>& texts, std::size_t width) {
    for (const std::string& text : texts) width = std::max(width, console::display_width(text));
    return width;
  };
  std::vector<std::string> numbers;
  for (const float value : values) numbers.push_back(number_text(value));
  const std::size_t label = widest(rows, 0) + 2, number = widest(columns, widest(numbers, 0)) + 2;
  std::string text(label, ' ');
  for (const std::string& column : columns) text += console::pad_left(column, number);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i % columns.size() == 0) text += "\n" + console::pad_left(rows[i / columns.size()], label);
    text += console::pad_left(numbers[i], number);
  }
  return text + "\n";
}

}  // namespace

Steps all_steps(const Runtime& runtime, const InspectInputs& inputs, const Weights& scaled,
                const Weights& unscaled) {
  Steps steps{unscaled.scores, scaled.scores, {}, scaled.weights, {}};
  const WeightProblem problem{inputs.desc, inputs.query, inputs.key};
  steps.masked = compute_attention(runtime, problem, WeightsStage::kMasked).weights;
  if (steps.masked == steps.scaled) steps.masked.clear();
  if (steps.scaled == steps.scores) steps.scaled.clear();
  return steps;
}

void require_room_in_text(const std::string& option, const InspectInputs& inputs) {
  const AttentionDesc& desc = inputs.desc;
  if (std::max({desc.query_length, desc.kv_length, inputs.value_dim()}) <= kMostPrinted) return;
  fail_usage(option + " prints up to " + std::to_string(kMostPrinted) +
             " queries, keys and numbers of a value, and these are " + std::to_string(desc.query_length) +
             ", " + std::to_string(desc.kv_length) + " and " + std::to_string(inputs.value_dim()) +
             "; --json prints any number of them");
}

std::string steps_text(const InspectInputs& inputs, const Steps& steps) {
  std::string text;
  const std::vector<Step> all = steps_that_are_there(inputs, steps);
  for (std::int64_t head = 0; head < inputs.desc.query_heads; ++head) {
    for (const Step& step : all) {
      text += "\n" + (inputs.desc.query_heads > 1 ? "head " + std::to_string(head) + ", " : "") + step.name +
              ": " + step.title + "\n" +
              matrix_text(step.of_head(head, inputs.query_labels.size()), inputs.query_labels, step.columns);
    }
  }
  return text;
}

Json steps_json(const InspectInputs& inputs, const Steps& steps, std::int64_t head) {
  Json json = Json::object();
  for (const Step& step : steps_that_are_there(inputs, steps)) {
    json[step.name] = matrix_json(step.of_head(head, inputs.query_labels.size()), step.columns.size());
  }
  return json;
}

Json matrix_json(std::span<const float> values, std::size_t columns) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < values.size(); i += columns) {
    const std::span<const float> row = values.subspan(i, columns);
    rows.push_back(std::vector<float>(row.begin(), row.end()));
  }
  return rows;
}

}  // namespace vkattn::cli

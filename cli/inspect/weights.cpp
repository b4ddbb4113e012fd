// See weights.hpp.
#include "inspect/weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "harness/share.hpp"
#include "reference/reference.hpp"

namespace vkattn::cli {
namespace {

std::size_t weight_count(const AttentionDesc& desc) {
  return static_cast<std::size_t>(desc.query_heads * desc.query_length * desc.kv_length);
}

reference::Inputs reference_inputs(const WeightProblem& problem) {
  reference::Inputs inputs;
  inputs.query = problem.query;
  inputs.key = inputs.value = problem.key;
  return inputs;
}

}  // namespace

WeightRows Weights::rows_of(std::int64_t head) const {
  const std::size_t size = visible.size() * static_cast<std::size_t>(keys);
  const std::size_t first = static_cast<std::size_t>(head) * size;
  return {std::span(scores).subspan(first, size), std::span(weights).subspan(first, size), keys, visible};
}

WeightRows Weights::rows() const {
  return {scores, weights, keys, visible};
}

Computed compute_attention(const Runtime& runtime, const WeightProblem& problem, WeightsStage stage) {
  AttentionDesc desc = problem.desc;
  desc.weights = stage;
  const AttentionPlan plan = take(runtime.make_plan(desc));
  Computed result;
  result.output.resize(static_cast<std::size_t>(desc.query_heads * desc.query_length * desc.value_dim));
  if (stage != WeightsStage::kNone)
    result.weights.assign(weight_count(desc), std::numeric_limits<float>::quiet_NaN());
  result.kernel = plan.kernel_name();
  HostTensors tensors;
  tensors.query = problem.query;
  tensors.key = problem.key;
  tensors.value = problem.value.empty() ? problem.key : problem.value;
  tensors.output = result.output;
  tensors.weights = result.weights;
  require(runtime.compute(plan, tensors));
  return result;
}

Weights compute_weights(const Runtime& runtime, const WeightProblem& problem) {
  Computed probabilities = compute_attention(runtime, problem, WeightsStage::kProbabilities);
  Weights result{.scores = compute_attention(runtime, problem, WeightsStage::kScores).weights,
                 .weights = std::move(probabilities.weights),
                 .keys = problem.desc.kv_length,
                 .kernel = std::move(probabilities.kernel)};
  const reference::Inputs inputs = reference_inputs(problem);
  for (std::int64_t query = 0; query < problem.desc.query_length; ++query) {
    result.visible.push_back(reference::seen_keys(problem.desc, inputs, {0, 0, query}));
  }
  return result;
}

void check_weights(const WeightProblem& problem, const Weights& weights, WeightCheck& check) {
  AttentionDesc desc = problem.desc;
  desc.weights = WeightsStage::kProbabilities;
  const reference::Inputs inputs = reference_inputs(problem);
  std::size_t index = 0;
  for (std::int64_t head = 0; head < desc.query_heads; ++head) {
    for (std::int64_t query = 0; query < desc.query_length; ++query) {
      const reference::Row row = reference::compute_row(desc, inputs, {0, head, query});
      for (std::int64_t key = 0; key < desc.kv_length; ++key, ++index) {
        const double expected = row.weights[static_cast<std::size_t>(key)];
        const auto weight = static_cast<double>(weights.weights[index]);
        check.largest_error = std::max(check.largest_error, std::abs(weight - expected));
        check.largest_share =
            std::max(check.largest_share,
                     harness::share_of(expected, weight, reference::weight_tolerance(desc, row, key),
                                       DataType::kFloat32));
      }
    }
  }
  check.compared += static_cast<std::int64_t>(index);
}

std::string check_text(const WeightCheck& check) {
  char error[32];
  std::snprintf(error, sizeof(error), "%.3g", check.largest_error);
  return "largest error of a weight " + std::string(error) + ", " + console::percent(check.largest_share) +
         " of its tolerance (" + console::count(static_cast<std::uint64_t>(check.compared), "weight") +
         " compared with the float64 reference)";
}

}  // namespace vkattn::cli

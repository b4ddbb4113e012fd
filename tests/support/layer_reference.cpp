// Computes a layer in float64: see layer_reference.hpp.
#include "support/layer_reference.hpp"

#include <span>
#include <utility>

#include "reference/gradients.hpp"
#include "support/cache_reference.hpp"

namespace vkattn::tests {
namespace {

using Matrix = std::vector<double>;

std::size_t index(std::int64_t value) {
  return static_cast<std::size_t>(value);
}

/// The sizes of W_Q, W_K or W_V, and their place in packed parameters.
struct ProjectionSize {
  std::int64_t outputs = 0, inputs = 0, first_row = 0, dims = 0;
  std::size_t input = 0;
};

std::array<ProjectionSize, 3> projections_of(const MultiHeadAttentionDesc& desc) {
  const AttentionDesc& a = desc.attention;
  const std::int64_t q = a.query_heads * a.head_dim, k = a.kv_heads * a.head_dim,
                     v = a.kv_heads * a.value_dim;
  const bool self = desc.inputs == LayerInputs::kSelf, cross = desc.inputs == LayerInputs::kCross;
  const std::size_t key = self ? 0 : 1, value = self ? 0 : cross ? 1 : 2;
  return {ProjectionSize{q, desc.d_model, 0, a.head_dim, 0},
          ProjectionSize{k, desc.key_input_dim, q, a.head_dim, key},
          ProjectionSize{v, desc.value_input_dim, q + k, a.value_dim, value}};
}

class Layer {
 public:
  Layer(const MultiHeadAttentionDesc& desc, const LayerData& data)
      : desc_(desc), data_(data), projections_(projections_of(desc)) {}

  [[nodiscard]] LayerResults run() {
    for (std::size_t i = 0; i < 3; ++i) projected_[i] = project(i);
    if (desc_.rotary.style != RotaryStyle::kNone) {
      for (std::size_t i = 0; i < 2; ++i) rotate(projected_[i], projections_[i], false);
    }
    make_problem();
    attend();
    project_output();
    if (!data_.grad_output.empty()) differentiate();
    return std::move(results_);
  }

 private:
  /// Element (row, column) of W_Q, W_K or W_V.
  [[nodiscard]] double weight(std::size_t which, std::int64_t row, std::int64_t column) const {
    const ProjectionSize& p = projections_[which];
    constexpr std::array kNames{"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    const auto& values = data_.parameters.at(desc_.packed_weights ? "in_proj_weight" : kNames[which]);
    const std::int64_t first = desc_.packed_weights ? p.first_row : 0;
    return static_cast<double>(values[index((first + row) * p.inputs + column)]);
  }
  [[nodiscard]] double input(std::size_t which, std::int64_t row, std::int64_t column) const {
    const ProjectionSize& p = projections_[which];
    return static_cast<double>(data_.inputs[p.input][index(row * p.inputs + column)]);
  }
  [[nodiscard]] double output_weight(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(data_.parameters.at("out_proj.weight")[index(row * heads_width() + column)]);
  }
  [[nodiscard]] double grad_output(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(data_.grad_output[index(row * desc_.d_model + column)]);
  }
  [[nodiscard]] std::int64_t heads_width() const {
    return desc_.attention.query_heads * desc_.attention.value_dim;
  }
  [[nodiscard]] std::int64_t rows(std::size_t input) const { return input_size(desc_, input).rows; }

  [[nodiscard]] Matrix project(std::size_t which) const {
    const ProjectionSize& p = projections_[which];
    Matrix result(index(rows(p.input) * p.outputs));
    for (std::int64_t r = 0; r < rows(p.input); ++r) {
      for (std::int64_t o = 0; o < p.outputs; ++o) {
        double sum = desc_.has_input_bias
                         ? static_cast<double>(data_.parameters.at("in_proj_bias")[index(p.first_row + o)])
                         : 0;
        for (std::int64_t i = 0; i < p.inputs; ++i) sum += input(which, r, i) * weight(which, o, i);
        result[index(r * p.outputs + o)] = sum;
      }
    }
    return result;
  }

  void rotate(Matrix& matrix, const ProjectionSize& p, bool back) const {
    RotaryDesc rotary = desc_.rotary;
    rotary.inverse = back != rotary.inverse;
    for (std::int64_t b = 0; b < desc_.attention.batch; ++b) {
      const std::int64_t length = reference::query_length(desc_.attention, data_.features, b);
      for (std::int64_t i = 0; i < length; ++i) {
        const std::int64_t row = stored_row(b, i);
        for (std::int64_t first = 0; first < p.outputs; first += p.dims) {
          const auto at = matrix.begin() + row * p.outputs + first;
          const std::vector<float> before(at, at + p.dims);
          const std::vector<double> after = rotated(before, rotary, data_.frequencies, i);
          std::copy(after.begin(), after.end(), at);
        }
      }
    }
  }

  [[nodiscard]] std::int64_t stored_row(std::int64_t batch, std::int64_t query) const {
    const reference::RowIndex row = reference::stored_row(desc_.attention, data_.features, {batch, 0, query});
    return row.batch * desc_.attention.query_length + row.query;
  }

  /// Makes the same attention over separate matrices of float32, as the reference takes them.
  void make_problem() {
    problem_ = desc_.attention;
    problem_.set_layout(Layout::kBshd);
    problem_.set_type(DataType::kFloat32);
    problem_.lse_strides.reset();
    problem_.weights_strides.reset();
    problem_.mask = desc_.attention.mask;
    problem_.weights = WeightsStage::kProbabilities;
    problem_ = problem_.resolved();
    for (std::size_t i = 0; i < 3; ++i) stored_[i].assign(projected_[i].begin(), projected_[i].end());
    inputs_ = data_.features;
    inputs_.query = stored_[0];
    inputs_.key = stored_[1];
    inputs_.value = stored_[2];
  }

  void attend() {
    const AttentionDesc& a = problem_;
    heads_.assign(index(rows(0) * heads_width()), 0);
    results_.weights.assign(index(a.batch * a.query_heads * a.query_length * a.kv_length), 0);
    results_.averaged_weights.assign(index(a.batch * a.query_length * a.kv_length), 0);
    for (std::int64_t b = 0; b < a.batch; ++b) {
      for (std::int64_t h = 0; h < a.query_heads; ++h) {
        for (std::int64_t i = 0; i < reference::query_length(a, inputs_, b); ++i) {
          const reference::Row row = reference::compute_row(a, inputs_, {b, h, i});
          const std::int64_t at = stored_row(b, i) * heads_width() + h * a.value_dim;
          std::copy(row.output.begin(), row.output.end(), heads_.begin() + at);
          for (std::int64_t j = 0; j < a.kv_length; ++j) {
            const double share = row.weights[index(j)];
            results_.weights[index(((b * a.query_heads + h) * a.query_length + i) * a.kv_length + j)] = share;
            results_.averaged_weights[index((b * a.query_length + i) * a.kv_length + j)] +=
                share / static_cast<double>(a.query_heads);
          }
        }
      }
    }
  }

  void project_output() {
    results_.output.assign(index(rows(0) * desc_.d_model), 0);
    for (std::int64_t r = 0; r < rows(0); ++r) {
      for (std::int64_t o = 0; o < desc_.d_model; ++o) {
        double sum =
            desc_.has_output_bias ? static_cast<double>(data_.parameters.at("out_proj.bias")[index(o)]) : 0;
        for (std::int64_t i = 0; i < heads_width(); ++i) {
          sum += heads_[index(r * heads_width() + i)] * output_weight(o, i);
        }
        results_.output[index(r * desc_.d_model + o)] = sum;
      }
    }
  }

  void differentiate() {
    for (const ParameterShape& parameter : parameters(desc_)) {
      results_.grad_parameters[std::string(parameter.name)].assign(index(parameter.elements()), 0);
    }
    std::vector<float> grad_heads(heads_.size());
    Matrix& of_weight = results_.grad_parameters.at("out_proj.weight");
    for (std::int64_t r = 0; r < rows(0); ++r) {
      for (std::int64_t i = 0; i < heads_width(); ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < desc_.d_model; ++o) {
          sum += grad_output(r, o) * output_weight(o, i);
          of_weight[index(o * heads_width() + i)] += grad_output(r, o) * heads_[index(r * heads_width() + i)];
        }
        grad_heads[index(r * heads_width() + i)] = static_cast<float>(sum);
      }
      if (!desc_.has_output_bias) continue;
      for (std::int64_t o = 0; o < desc_.d_model; ++o) {
        results_.grad_parameters.at("out_proj.bias")[index(o)] += grad_output(r, o);
      }
    }
    reference::BackwardInputs backward;
    backward.forward = inputs_;
    backward.grad_output = grad_heads;
    backward.grad_output_desc = problem_.output;
    backward.grad_mask = data_.grad_mask;
    const reference::Gradients gradients = reference::compute_gradients(problem_, backward);
    results_.grad_mask = gradients.mask.values;
    results_.grad_alibi_slopes = gradients.alibi_slopes.values;
    results_.grad_sinks = gradients.sinks.values;
    const std::array all{&gradients.query, &gradients.key, &gradients.value};
    for (std::size_t i = 0; i < 3; ++i) add_projection(i, by_rows(*all[i]));
  }

  /// Reorders (batch, head, row, dim) as (rows, heads * dims).
  [[nodiscard]] static Matrix by_rows(const reference::Gradient& gradient) {
    const TensorExtents& e = gradient.extents;
    Matrix matrix(gradient.values.size());
    for (std::int64_t b = 0; b < e.batch; ++b) {
      for (std::int64_t h = 0; h < e.heads; ++h) {
        for (std::int64_t r = 0; r < e.rows; ++r) {
          for (std::int64_t d = 0; d < e.dims; ++d) {
            matrix[index(((b * e.rows + r) * e.heads + h) * e.dims + d)] =
                gradient.values[gradient.index(b, h, r, d)];
          }
        }
      }
    }
    return matrix;
  }

  void add_projection(std::size_t which, Matrix gradient) {
    const ProjectionSize& p = projections_[which];
    if (which < 2 && desc_.rotary.style != RotaryStyle::kNone) rotate(gradient, p, true);
    constexpr std::array kNames{"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    Matrix& of_weight = results_.grad_parameters.at(desc_.packed_weights ? "in_proj_weight" : kNames[which]);
    const std::int64_t first = desc_.packed_weights ? p.first_row : 0;
    Matrix& of_input = results_.grad_inputs[p.input];
    of_input.resize(index(rows(p.input) * p.inputs));
    for (std::int64_t r = 0; r < rows(p.input); ++r) {
      for (std::int64_t o = 0; o < p.outputs; ++o) {
        const double g = gradient[index(r * p.outputs + o)];
        if (desc_.has_input_bias) results_.grad_parameters.at("in_proj_bias")[index(p.first_row + o)] += g;
        for (std::int64_t i = 0; i < p.inputs; ++i) {
          of_input[index(r * p.inputs + i)] += g * weight(which, o, i);
          of_weight[index((first + o) * p.inputs + i)] += g * input(which, r, i);
        }
      }
    }
  }

  const MultiHeadAttentionDesc& desc_;
  const LayerData& data_;
  std::array<ProjectionSize, 3> projections_;
  std::array<Matrix, 3> projected_;
  std::array<std::vector<float>, 3> stored_;
  AttentionDesc problem_;
  reference::Inputs inputs_;
  Matrix heads_;
  LayerResults results_;
};

}  // namespace

InputSize input_size(const MultiHeadAttentionDesc& desc, std::size_t input) {
  const AttentionDesc& a = desc.attention;
  const std::int64_t queries = a.has_packed_queries() ? a.total_query_length : a.batch * a.query_length;
  const std::int64_t keys = a.has_packed_keys() ? a.total_kv_length : a.batch * a.kv_length;
  if (input == 0) return {queries, desc.d_model};
  if (input == 1) return {desc.inputs == LayerInputs::kSelf ? 0 : keys, desc.key_input_dim};
  return {desc.inputs == LayerInputs::kSeparate ? keys : 0, desc.value_input_dim};
}

LayerResults layer_reference(const MultiHeadAttentionDesc& desc, const LayerData& data) {
  return Layer(desc, data).run();
}

}  // namespace vkattn::tests

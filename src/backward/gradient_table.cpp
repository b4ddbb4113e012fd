// The table of gradients: see gradient_table.hpp.
#include "backward/gradient_table.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "attention/params.hpp"
#include "attention/tensor_table.hpp"
#include "shared/backward_constants.h"

namespace vkattn::detail {

namespace {

using Desc = const BackwardDesc&;
using Tensors = BackwardTensors;

TensorDesc number_per_query_head(Desc /*desc*/) {
  return numbers(Strides{0, 1, 0, 1});
}
const TensorRow& lse_row() {
  return row_of(&AttentionTensors::lse);
}

TensorExtents query_heads(Desc desc) {
  return {1, desc.attention.query_heads, 1, 1};
}

// Along a stride of 0 the gradient is summed, so one position stands for all.
TensorExtents mask_positions(Desc desc) {
  const Strides& s = *desc.grad_mask->strides;
  const TensorExtents e = mask_extents(desc.attention);
  const auto positions = [](std::int64_t stride, std::int64_t extent) {
    return stride == 0 && extent > 1 ? 1 : extent;
  };
  return {positions(s.batch, e.batch), positions(s.head, e.heads), positions(s.row, e.rows),
          positions(s.dim, e.dims)};
}

// BackwardParams lie behind FeatureParams.
constexpr OffsetParam own_parameter(std::size_t byte) {
  return parameter(sizeof(FeatureParams) + byte);
}

constexpr std::array<GradientRow, kGradientCount> kTable{{
    {"grad_output", VKATTN_BINDING_GRAD_OUTPUT, &Tensors::grad_output, is_always_used<BackwardDesc>,
     [](Desc d) { return *d.grad_output; },
     [](Desc d) { return query_extents(d.attention, d.attention.value_dim); },
     own_parameter(offsetof(BackwardParams, grad_output_offset)), kReadOnly},
    {"grad_lse", VKATTN_BINDING_GRAD_LSE, &Tensors::grad_lse, [](Desc d) { return d.has_grad_lse; },
     [](Desc d) { return lse_row().storage(d.attention); },
     [](Desc d) { return lse_row().extents(d.attention); },
     own_parameter(offsetof(BackwardParams, grad_lse_offset)), kReadOnly},
    {"grad_query", VKATTN_BINDING_GRAD_QUERY, &Tensors::grad_query, [](Desc d) { return d.has_grad_query; },
     [](Desc d) { return *d.grad_query; },
     [](Desc d) { return query_extents(d.attention, d.attention.head_dim); },
     own_parameter(offsetof(BackwardParams, grad_query_offset)), kWritten},
    {"grad_key", VKATTN_BINDING_GRAD_KEY, &Tensors::grad_key, [](Desc d) { return d.has_grad_key; },
     [](Desc d) { return *d.grad_key; },
     [](Desc d) { return key_extents(d.attention, d.attention.head_dim); },
     own_parameter(offsetof(BackwardParams, grad_key_offset)), kWritten},
    {"grad_value", VKATTN_BINDING_GRAD_VALUE, &Tensors::grad_value, [](Desc d) { return d.has_grad_value; },
     [](Desc d) { return *d.grad_value; },
     [](Desc d) { return key_extents(d.attention, d.attention.value_dim); },
     own_parameter(offsetof(BackwardParams, grad_value_offset)), kWritten},
    {"grad_mask", VKATTN_BINDING_GRAD_MASK, &Tensors::grad_mask, [](Desc d) { return d.has_grad_mask; },
     [](Desc d) { return *d.grad_mask; }, mask_positions,
     own_parameter(offsetof(BackwardParams, grad_mask_offset)), kWritten},
    {"grad_alibi_slopes", VKATTN_BINDING_GRAD_SLOPES, &Tensors::grad_alibi_slopes,
     [](Desc d) { return d.has_grad_alibi_slopes; }, number_per_query_head, query_heads,
     own_parameter(offsetof(BackwardParams, grad_slopes_offset)), kWritten},
    {"grad_sinks", VKATTN_BINDING_GRAD_SINKS, &Tensors::grad_sinks, [](Desc d) { return d.has_grad_sinks; },
     number_per_query_head, query_heads, own_parameter(offsetof(BackwardParams, grad_sinks_offset)),
     kWritten},
}};

static_assert(kTable.back().range != nullptr, "each member of BackwardTensors has a row");

}  // namespace

std::span<const GradientRow, kGradientCount> TensorTable<BackwardTensors>::rows() {
  return kTable;
}

bool any_gradient(Desc desc) {
  return std::ranges::any_of(kTable,
                             [&](const GradientRow& row) { return row.use.written && row.is_used(desc); });
}

}  // namespace vkattn::detail

// The table of gradients: see gradient_table.hpp.
#include "backward/gradient_table.hpp"

#include <algorithm>
#include <array>

#include "backward/backward_params.hpp"
#include "shared/backward_constants.h"

namespace vkattn::detail {

namespace {

using Desc = BackwardDesc;
using Tensors = BackwardTensors;

constexpr TensorUse kInput{};
constexpr TensorUse kOutput{.written = true};

TensorExtents heads(const Desc& desc) {
  return {1, desc.attention.query_heads, 1, 1};
}

// Where the stride is 0 the gradient is summed: one position stands for all.
TensorExtents mask_positions(const Desc& desc) {
  const Strides& s = *desc.grad_mask->strides;
  const TensorExtents e = score_extents(desc.attention);
  const auto positions = [](std::int64_t stride, std::int64_t extent) {
    return stride == 0 && extent > 1 ? 1 : extent;
  };
  return {positions(s.batch, e.batch), positions(s.head, e.heads), positions(s.row, e.rows),
          positions(s.dim, e.dims)};
}

constexpr std::uint32_t offset(std::size_t byte) {
  return static_cast<std::uint32_t>(byte);
}

constexpr std::array<GradientRow, kGradientCount> kTable{{
    GradientRow{"grad_output", VKATTN_BINDING_GRAD_OUTPUT, &Tensors::grad_output, nullptr, &Desc::grad_output,
                [](const Desc& d) { return query_extents(d.attention, d.attention.value_dim); },
                offset(offsetof(BackwardParams, grad_output_offset)), kInput},
    GradientRow{"grad_query", VKATTN_BINDING_GRAD_QUERY, &Tensors::grad_query, &Desc::has_grad_query,
                &Desc::grad_query,
                [](const Desc& d) { return query_extents(d.attention, d.attention.head_dim); },
                offset(offsetof(BackwardParams, grad_query_offset)), kOutput},
    GradientRow{"grad_key", VKATTN_BINDING_GRAD_KEY, &Tensors::grad_key, &Desc::has_grad_key, &Desc::grad_key,
                [](const Desc& d) { return key_extents(d.attention, d.attention.head_dim); },
                offset(offsetof(BackwardParams, grad_key_offset)), kOutput},
    GradientRow{"grad_value", VKATTN_BINDING_GRAD_VALUE, &Tensors::grad_value, &Desc::has_grad_value,
                &Desc::grad_value,
                [](const Desc& d) { return key_extents(d.attention, d.attention.value_dim); },
                offset(offsetof(BackwardParams, grad_value_offset)), kOutput},
    GradientRow{"grad_mask", VKATTN_BINDING_GRAD_MASK, &Tensors::grad_mask, &Desc::has_grad_mask,
                &Desc::grad_mask, mask_positions, offset(offsetof(BackwardParams, grad_mask_offset)),
                kOutput},
    GradientRow{"grad_alibi_slopes", VKATTN_BINDING_GRAD_SLOPES, &Tensors::grad_alibi_slopes,
                &Desc::has_grad_alibi_slopes, nullptr, heads,
                offset(offsetof(BackwardParams, grad_slopes_offset)), kOutput},
    GradientRow{"grad_sinks", VKATTN_BINDING_GRAD_SINKS, &Tensors::grad_sinks, &Desc::has_grad_sinks, nullptr,
                heads, offset(offsetof(BackwardParams, grad_sinks_offset)), kOutput},
}};

static_assert(kTable.back().range != nullptr, "each member of BackwardTensors has a row");

}  // namespace

TensorDesc GradientRow::storage(const Desc& desc) const {
  if (stored != nullptr) return *(desc.*stored);
  return {DataType::kFloat32, Strides{0, 1, 0, 1}, 0};
}

std::span<const GradientRow, kGradientCount> gradient_table() {
  return kTable;
}

std::size_t gradient_index(BufferRange BackwardTensors::*range) {
  return row_index(std::span<const GradientRow>(kTable), range);
}

bool any_gradient(const Desc& desc) {
  return std::ranges::any_of(
      kTable, [&](const GradientRow& row) { return row.wanted != nullptr && desc.*row.wanted; });
}

std::uint64_t gradient_bytes(const GradientRow& row, const Desc& desc) {
  if (!row.is_used(desc)) return 0;
  const TensorExtents e = row.extents(desc);
  // validate() has seen that nothing overflows.
  return static_cast<std::uint64_t>(
      tensor_bytes(row.storage(desc), e.batch, e.heads, e.rows, e.dims).value());
}

}  // namespace vkattn::detail

// Specialization values: see specialization.hpp.
#include "kernels/specialization.hpp"

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

std::uint32_t causal_mode(const AttentionDesc& desc) {
  if (!desc.causal && desc.window.right == kUnlimited) return VKATTN_CAUSAL_NONE;
  return desc.align == Align::kBottomRight ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_OFFSET;
}

std::uint32_t dim_stride(const TensorDesc& tensor, std::int64_t dims) {
  return dims == 1 ? 1U : static_cast<std::uint32_t>(tensor.strides->dim);
}

// The values of every shader.
SpecializationValues common_values(const AttentionDesc& desc, std::uint32_t workgroup_size) {
  const auto type = [](const TensorDesc& tensor) { return static_cast<std::uint32_t>(tensor.type); };
  const auto flag = [](bool value) { return value ? 1U : 0U; };
  return {
      {VKATTN_SPEC_WORKGROUP_SIZE, workgroup_size},
      {VKATTN_SPEC_HEAD_DIM, static_cast<std::uint32_t>(desc.head_dim)},
      {VKATTN_SPEC_VALUE_DIM, static_cast<std::uint32_t>(desc.value_dim)},
      {VKATTN_SPEC_QUERY_TYPE, type(desc.query)},
      {VKATTN_SPEC_KEY_TYPE, type(desc.key)},
      {VKATTN_SPEC_VALUE_TYPE, type(desc.value)},
      {VKATTN_SPEC_OUTPUT_TYPE, type(desc.output)},
      {VKATTN_SPEC_QUERY_DIM_STRIDE, dim_stride(desc.query, desc.head_dim)},
      {VKATTN_SPEC_KEY_DIM_STRIDE, dim_stride(desc.key, desc.head_dim)},
      {VKATTN_SPEC_VALUE_DIM_STRIDE, dim_stride(desc.value, desc.value_dim)},
      {VKATTN_SPEC_OUTPUT_DIM_STRIDE, dim_stride(desc.output, desc.value_dim)},
      {VKATTN_SPEC_QUERY_VECTOR_LOADS, flag(has_vector_loads(desc.query, query_extents(desc, 1)))},
      {VKATTN_SPEC_KEY_VECTOR_LOADS, flag(has_vector_loads(desc.key, key_extents(desc, 1)))},
      {VKATTN_SPEC_VALUE_VECTOR_LOADS, flag(has_vector_loads(desc.value, key_extents(desc, 1)))},
      {VKATTN_SPEC_CAUSAL_MODE, causal_mode(desc)},
      {VKATTN_SPEC_HAS_KV_LENGTHS, flag(desc.kv_lengths == Lengths::kPerEntry)},
      {VKATTN_SPEC_HAS_LSE, flag(desc.has_lse || needs_row_lse(desc))},
  };
}

}  // namespace

SpecializationValues specialization(const AttentionDesc& desc, const PassConfig& pass,
                                    const PassVariant& variant) {
  SpecializationValues values = common_values(desc, pass.workgroup_size);
  if (has_features(desc)) {
    for (const FeatureRow& row : feature_table()) {
      if (row.specialize != nullptr) row.specialize(desc, values);
    }
  }
  values.reserve(values.size() + pass.constants.size() + 6);
  values.insert(values.end(), pass.constants.begin(), pass.constants.end());
  if (variant.strict_nonfinite) values.push_back({VKATTN_SPEC_STRICT_NONFINITE, 1});
  if (variant.splits_keys) values.push_back({VKATTN_SPEC_SPLIT_KV, 1});
  if (variant.combines_parts) values.push_back({VKATTN_SPEC_COMBINES_PARTS, 1});
  if (variant.sums_in_workspace) values.push_back({VKATTN_SPEC_SUMS_IN_WORKSPACE, 1});
  if (variant.first_partial != 0) values.push_back({VKATTN_SPEC_FIRST_PARTIAL, variant.first_partial});
  if (variant.block_rows != 0) {
    values.push_back({VKATTN_SPEC_BLOCK_ROWS, variant.block_rows});
    values.push_back({VKATTN_SPEC_BLOCK_KEYS, variant.block_keys});
  }
  return values;
}

}  // namespace vkattn::detail

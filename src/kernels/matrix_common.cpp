// Checks and choices that the kernels on matrix units share.
#include "kernels/matrix_common.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "attention/tensor_rules.hpp"
#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

bool is_usable(const MatrixShape& shape, std::string_view operand) {
  const auto fits = [](std::uint32_t size) { return is_power(size, 8, 32); };
  return shape.scope == "subgroup" && shape.a_type == operand && shape.b_type == operand &&
         shape.c_type == "f32" && shape.result_type == "f32" && fits(shape.m) && fits(shape.n) &&
         fits(shape.k);
}

}  // namespace

void add_loads8(const AttentionDesc& desc, SpecializationValues& constants) {
  const auto add = [&](std::uint32_t id, const TensorDesc& tensor, const TensorExtents& extents) {
    constants.push_back({id, has_vector_loads(tensor, extents, 8) ? 1U : 0U});
  };
  add(VKATTN_SPEC_MATRIX_QUERY_LOADS8, desc.query, query_extents(desc, 1));
  add(VKATTN_SPEC_MATRIX_KEY_LOADS8, desc.key, key_extents(desc, 1));
  add(VKATTN_SPEC_MATRIX_VALUE_LOADS8, desc.value, key_extents(desc, 1));
}

Result<MatrixShape> best_matrix_shape(const Capabilities& capabilities, std::string_view operand) {
  const auto rank = [](const MatrixShape& shape) {
    const bool square = shape.m == 16 && shape.n == 16 && shape.k == 16;
    return square ? ~0U : shape.m * shape.n * shape.k;
  };
  std::optional<MatrixShape> best;
  for (const MatrixShape& shape : capabilities.matrix_shapes) {
    if (is_usable(shape, operand) && (!best || rank(shape) > rank(*best))) best = shape;
  }
  if (best) return *best;
  return unsupported("the device lists no matrix shape of ", operand, " x ", operand,
                     " to f32 in a subgroup with sizes of 8, 16 or 32");
}

Result<void> check_matrix_types(const AttentionDesc& desc, QuantisedOperands quantised) {
  const DataType type = desc.query.type;
  const auto fits = [&](DataType stored) {
    if (stored == type) return true;
    if (quantised == QuantisedOperands::kFloat8) {
      return stored == DataType::kFloat8E4m3 && type == DataType::kFloat16;
    }
    return quantised == QuantisedOperands::kAll && is_quantised(stored);
  };
  const std::string_view also = quantised == QuantisedOperands::kAll ? ", of which K and V may be quantised"
                                : quantised == QuantisedOperands::kFloat8
                                    ? ", with float16 Q also K and V in e4m3"
                                    : "";
  if (element_bytes(type) == 2 && fits(desc.key.type) && fits(desc.value.type)) return {};
  return unsupported("takes float16 Q, K and V (or bfloat16, where the device has such matrices)", also,
                     "; here they are ", name(type), ", ", name(desc.key.type), " and ",
                     name(desc.value.type));
}

Result<void> need_feature(bool have, std::string_view feature) {
  if (have) return {};
  return unsupported("needs ", feature, ", which the device lacks or has not enabled");
}

Result<void> check_matrix_features(const Capabilities& c, DataType operand) {
  if (Result<void> s = need_feature(c.cooperative_matrix, "cooperativeMatrix (VK_KHR_cooperative_matrix)");
      !s)
    return s;
  if (Result<void> s = need_feature(c.vulkan_memory_model, "vulkanMemoryModel"); !s) return s;
  if (Result<void> s = need_feature(c.shader_float16, "shaderFloat16"); !s) return s;
  if (Result<void> s = need_feature(c.storage_buffer_16bit, "storageBuffer16BitAccess"); !s) return s;
  return need_feature(c.bfloat16_matrix || operand != DataType::kBfloat16,
                      "shaderBFloat16CooperativeMatrix (VK_KHR_shader_bfloat16)");
}

Result<void> check_subgroup_matrix_features(const Capabilities& c, DataType operand) {
  if (Result<void> s = check_matrix_features(c, operand); !s) return s;
  if (Result<void> s = need_feature(c.subgroup_shuffle, "subgroup shuffles in compute shaders"); !s) return s;
  return need_feature(c.subgroup_vote, "subgroup votes in compute shaders");
}

Result<void> check_matrix2_features(const Capabilities& c, DataType operand) {
  if (Result<void> s = check_matrix_features(c, operand); !s) return s;
  if (Result<void> s = need_feature(c.api_version >= VK_API_VERSION_1_3, "Vulkan 1.3 (SPIR-V 1.6)"); !s)
    return s;
  if (Result<void> s = need_feature(c.maintenance4, "maintenance4"); !s) return s;
  if (Result<void> s = need_feature(c.matrix2_flexible_dimensions,
                                    "cooperativeMatrixFlexibleDimensions (VK_NV_cooperative_matrix2)");
      !s)
    return s;
  if (Result<void> s = need_feature(c.matrix2_reductions, "cooperativeMatrixReductions"); !s) return s;
  if (Result<void> s = need_feature(c.matrix2_conversions, "cooperativeMatrixConversions"); !s) return s;
  return need_feature(c.matrix2_per_element_operations, "cooperativeMatrixPerElementOperations");
}

Result<void> check_workgroup_matrix_features(const Capabilities& c) {
  if (Result<void> s = need_feature(c.matrix2_workgroup_scope, "cooperativeMatrixWorkgroupScope"); !s)
    return s;
  return need_feature(c.matrix2_tensor_addressing, "cooperativeMatrixTensorAddressing");
}

bool is_usable_flexible(const FlexibleMatrix& entry, std::string_view operand, std::string_view scope) {
  return entry.scope == scope && entry.a_type == operand && entry.b_type == operand &&
         entry.c_type == "f32" && entry.result_type == "f32" && std::has_single_bit(entry.m_granularity) &&
         std::has_single_bit(entry.n_granularity) && std::has_single_bit(entry.k_granularity);
}

std::uint32_t largest_matrix_workgroup(const Capabilities& capabilities) {
  return std::min({capabilities.max_workgroup_invocations, capabilities.max_workgroup_size[0],
                   capabilities.max_matrix_workgroup_size});
}

Result<std::uint32_t> matrix_subgroup_size(const Capabilities& capabilities, std::uint32_t n) {
  if (may_ask_for_subgroup_size(capabilities)) {
    std::uint32_t size = capabilities.subgroup_size;
    // Mesa's compiler for Intel spreads a matrix over exactly N lanes.
    if (capabilities.vendor_id == kVendorIntel) size = n;
    // RDNA's matrix instructions repeat their operands in both halves of 64 lanes: 32 lanes need half the
    // registers.
    if (capabilities.vendor_id == kVendorAmd) size = 32;
    return std::clamp(size, capabilities.min_subgroup_size, capabilities.max_subgroup_size);
  }
  if (capabilities.min_subgroup_size == capabilities.max_subgroup_size) return capabilities.subgroup_size;
  return unsupported("subgroups have ", capabilities.min_subgroup_size, " to ",
                     capabilities.max_subgroup_size,
                     " invocations and the device has not enabled subgroupSizeControl and "
                     "computeFullSubgroups to fix one");
}

}  // namespace vkattn::detail

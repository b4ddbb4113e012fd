// The kernel list and what kernels have in common.
#include "kernels/kernel.hpp"

#include "common/integers.hpp"
#include "common/message.hpp"
#include "plan/features.hpp"
#include "plan/split.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

std::uint32_t causal_mode(const AttentionDesc& desc) {
  if (!desc.causal && desc.window.right == kUnlimited) return VKATTN_CAUSAL_NONE;
  return desc.align == Align::kBottomRight ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_OFFSET;
}

std::uint32_t dim_stride(const TensorDesc& tensor, std::int64_t dims) {
  return dims == 1 ? 1U : static_cast<std::uint32_t>(tensor.strides.dim);
}

void add_features(const AttentionDesc& desc, std::vector<SpecializationValue>& values) {
  const auto add = [&](std::uint32_t id, auto value) {
    values.push_back({id, static_cast<std::uint32_t>(value)});
  };
  add(VKATTN_SPEC_MASK_TYPE, desc.mask.type);
  add(VKATTN_SPEC_HAS_LEFT_LIMIT, desc.window.left != kUnlimited);
  add(VKATTN_SPEC_ALIGN_BOTTOM_RIGHT, desc.align == Align::kBottomRight);
  add(VKATTN_SPEC_HAS_SOFTCAP, desc.softcap != 0);
  add(VKATTN_SPEC_ALIBI, desc.alibi);
  add(VKATTN_SPEC_HAS_SINKS, desc.has_sinks);
  add(VKATTN_SPEC_HAS_QUERY_LENGTHS, desc.has_query_lengths);
  add(VKATTN_SPEC_PACKED_QUERIES, desc.has_packed_queries());
  add(VKATTN_SPEC_KEY_MAPPING,
      desc.has_cumulative_lengths ? VKATTN_KEYS_PACKED : static_cast<std::uint32_t>(desc.cache.mapping));
  // Only where it says something: each value is a pipeline of its own.
  const bool has_cache_rows = desc.cache.mapping != KeyMapping::kContiguous;
  add(VKATTN_SPEC_CACHE_ROWS, has_cache_rows ? key_extents(desc, 1).rows : 1);
  add(VKATTN_SPEC_HAS_DROPOUT, desc.dropout != 0);
}

// That matrix, which does not split the keys, would leave three quarters of the device idle over many of
// them. Then tile's parts on all compute units are faster than matrix units on few.
bool leaves_idle(const AttentionDesc& desc, const Capabilities& capabilities) {
  constexpr std::int64_t kMatrixRows = 64;
  constexpr std::int64_t kManyKeys = 2048;
  KernelConfig one_to_a_unit;
  one_to_a_unit.workgroups_per_unit = 1;
  const std::int64_t tiles = desc.batch * desc.kv_heads * divide_up(packed_rows(desc), kMatrixRows);
  return desc.kv_length >= kManyKeys && tiles * 4 <= concurrent_workgroups(capabilities, one_to_a_unit);
}

}  // namespace

std::vector<Kernel> ordered_kernels(const AttentionDesc& desc, const Capabilities& capabilities) {
  const Kernel lane{"lane", configure_lane};
  const Kernel tile{"tile", configure_tile};
  const Kernel matrix{"matrix", configure_matrix};
  const Kernel decode{"decode", configure_decode};
  const Kernel matrix2{"matrix2", configure_matrix2};
  const Kernel unfused{"unfused", configure_unfused, true};
  // CPU implementations run barriers as coroutines, so the kernel without any is the faster one there. They
  // emulate matrices.
  if (capabilities.is_cpu()) return {lane, tile, decode, matrix, matrix2, unfused};
  // A few rows fill no matrix, and are bound by memory rather than arithmetic.
  if (packed_rows(desc) <= kFewRows) return {decode, tile, matrix2, matrix, lane, unfused};
  if (leaves_idle(desc, capabilities)) return {matrix2, tile, matrix, lane, decode, unfused};
  return {matrix2, matrix, tile, lane, decode, unfused};
}

Error no_possible_tile(std::span<const TileShape> tiles) {
  return {ErrorCode::kUnsupported, VK_SUCCESS,
          tiles.empty() ? "the tile table has no block sizes for this problem on this device"
                        : message("cannot work with the block sizes ", to_string(tiles.front()))};
}

bool has_vector_loads(const TensorDesc& tensor, const TensorExtents& extents, std::uint32_t elements) {
  if (tensor.alignment_bytes < elements * element_bytes(tensor.type) || tensor.strides.dim != 1) return false;
  const auto aligned = [&](std::int64_t stride, std::int64_t extent) {
    return extent <= 1 || stride % elements == 0;
  };
  return aligned(tensor.strides.batch, extents.batch) && aligned(tensor.strides.head, extents.heads) &&
         aligned(tensor.strides.row, extents.rows);
}

std::string feature_form(const AttentionDesc& desc, std::string_view base) {
  return message(base, has_features(desc) ? "_features" : "");
}

Status refuse_features(const AttentionDesc& desc) {
  const std::string feature = first_feature(desc);
  if (feature.empty()) return {};
  return Error{ErrorCode::kUnsupported, VK_SUCCESS, message("cannot do ", feature)};
}

std::string shader_for(const AttentionDesc& desc, const Capabilities& capabilities, std::string_view base,
                       std::string_view words) {
  const auto is_16bit = [](const TensorDesc& tensor) { return element_bytes(tensor.type) == 2; };
  const bool any_16bit =
      is_16bit(desc.query) || is_16bit(desc.key) || is_16bit(desc.value) || is_16bit(desc.output);
  return feature_form(desc, capabilities.storage_buffer_16bit && any_16bit ? base : words);
}

Result<std::vector<SpecializationValue>> common_specialization(const AttentionDesc& desc,
                                                               const Capabilities& capabilities,
                                                               std::uint32_t workgroup_size) {
  if (capabilities.max_stage_storage_buffers < binding_count(desc)) {
    return Error{
        ErrorCode::kLimitExceeded, VK_SUCCESS,
        message("needs ", binding_count(desc), " storage buffers, maxPerStageDescriptorStorageBuffers is ",
                capabilities.max_stage_storage_buffers)};
  }
  const auto type = [](const TensorDesc& tensor) { return static_cast<std::uint32_t>(tensor.type); };
  const auto flag = [](bool value) { return value ? 1U : 0U; };
  std::vector<SpecializationValue> values{
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
      {VKATTN_SPEC_HAS_KV_LENGTHS, flag(desc.has_kv_lengths)},
      {VKATTN_SPEC_HAS_LSE, flag(desc.has_lse || needs_row_lse(desc))},
  };
  if (has_features(desc)) add_features(desc, values);
  return values;
}

}  // namespace vkattn::detail

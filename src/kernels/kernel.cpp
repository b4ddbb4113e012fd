// The kernel list and what kernels have in common.
#include "kernels/kernel.hpp"

#include "common/message.hpp"
#include "shared/attention_constants.h"

namespace vkattn::detail {

namespace {

std::uint32_t causal_mode(const AttentionDesc& desc) {
  if (!desc.causal) return VKATTN_CAUSAL_NONE;
  return desc.align == Align::kBottomRight ? VKATTN_CAUSAL_BOTTOM_RIGHT : VKATTN_CAUSAL_OFFSET;
}

std::uint32_t dim_stride(const TensorDesc& tensor, std::int64_t dims) {
  return dims == 1 ? 1U : static_cast<std::uint32_t>(tensor.strides.dim);
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
  return {matrix2, matrix, tile, lane, decode, unfused};
}

Error no_possible_tile(std::span<const TileShape> tiles) {
  return {ErrorCode::kUnsupported, VK_SUCCESS,
          tiles.empty() ? "the tile table has no block sizes for this problem on this device"
                        : message("cannot work with the block sizes ", to_string(tiles.front()))};
}

bool has_vector_loads(const TensorDesc& tensor, std::int64_t batch, std::int64_t heads, std::int64_t rows,
                      std::uint32_t elements) {
  if (tensor.alignment_bytes < elements * element_bytes(tensor.type) || tensor.strides.dim != 1) return false;
  const auto aligned = [&](std::int64_t stride, std::int64_t extent) {
    return extent <= 1 || stride % elements == 0;
  };
  return aligned(tensor.strides.batch, batch) && aligned(tensor.strides.head, heads) &&
         aligned(tensor.strides.row, rows);
}

std::string_view shader_for(const AttentionDesc& desc, const Capabilities& capabilities,
                            std::string_view base, std::string_view words) {
  const auto is_16bit = [](const TensorDesc& tensor) { return element_bytes(tensor.type) == 2; };
  const bool any_16bit =
      is_16bit(desc.query) || is_16bit(desc.key) || is_16bit(desc.value) || is_16bit(desc.output);
  return capabilities.storage_buffer_16bit && any_16bit ? base : words;
}

Result<std::vector<SpecializationValue>> common_specialization(const AttentionDesc& desc,
                                                               const Capabilities& capabilities,
                                                               std::uint32_t workgroup_size) {
  if (capabilities.max_stage_storage_buffers < VKATTN_BINDING_COUNT) {
    return Error{
        ErrorCode::kLimitExceeded, VK_SUCCESS,
        message("needs ", VKATTN_BINDING_COUNT, " storage buffers, maxPerStageDescriptorStorageBuffers is ",
                capabilities.max_stage_storage_buffers)};
  }
  const auto type = [](const TensorDesc& tensor) { return static_cast<std::uint32_t>(tensor.type); };
  const auto flag = [](bool value) { return value ? 1U : 0U; };
  return std::vector<SpecializationValue>{
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
      {VKATTN_SPEC_QUERY_VECTOR_LOADS,
       flag(has_vector_loads(desc.query, desc.batch, desc.query_heads, desc.query_length))},
      {VKATTN_SPEC_KEY_VECTOR_LOADS,
       flag(has_vector_loads(desc.key, desc.batch, desc.kv_heads, desc.kv_length))},
      {VKATTN_SPEC_VALUE_VECTOR_LOADS,
       flag(has_vector_loads(desc.value, desc.batch, desc.kv_heads, desc.kv_length))},
      {VKATTN_SPEC_CAUSAL_MODE, causal_mode(desc)},
      {VKATTN_SPEC_HAS_KV_LENGTHS, flag(desc.has_kv_lengths)},
      {VKATTN_SPEC_HAS_LSE, flag(desc.has_lse)},
  };
}

}  // namespace vkattn::detail

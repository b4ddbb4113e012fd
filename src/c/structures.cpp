// Defaults of the C interface's structures: those of C++.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "c/handles.hpp"

namespace vkattn::c {

namespace {

/// Gives the caller, who knows the first `bytes` of the structure, its defaults: of what only he knows,
/// zeros.
template <class Struct>
void set_defaults(Struct* target, std::size_t bytes, Struct defaults) {
  if (target == nullptr || bytes < sizeof(defaults.struct_size)) return;
  defaults.struct_size = static_cast<std::uint32_t>(bytes);
  std::memset(static_cast<void*>(target), 0, bytes);
  std::memcpy(static_cast<void*>(target), &defaults, std::min(bytes, sizeof(Struct)));
}

vkattn_tensor_desc tensor(const TensorDesc& desc) {
  return {static_cast<vkattn_data_type>(desc.type), desc.alignment_bytes, nullptr};
}

vkattn_matrix_desc matrix(const MatrixDesc& desc) {
  return {static_cast<vkattn_data_type>(desc.type), desc.alignment_bytes, nullptr};
}

}  // namespace

}  // namespace vkattn::c

using vkattn::c::matrix;
using vkattn::c::set_defaults;
using vkattn::c::tensor;

void vkattn_error_init_sized(vkattn_error* error, size_t bytes) {
  vkattn_error made{};
  set_defaults(error, bytes, made);
}

void vkattn_physical_device_init_sized(vkattn_physical_device* device, size_t bytes) {
  vkattn_physical_device made{};
  set_defaults(device, bytes, made);
}

void vkattn_device_desc_init_sized(vkattn_device_desc* desc, size_t bytes) {
  vkattn_device_desc made{};
  made.log_least = VKATTN_LOG_LEVEL_INFO;
  set_defaults(desc, bytes, made);
}

void vkattn_attention_desc_init_sized(vkattn_attention_desc* desc, size_t bytes) {
  const vkattn::AttentionDesc defaults;
  vkattn_attention_desc made{};
  made.batch = defaults.batch;
  made.query_heads = defaults.query_heads;
  made.kv_heads = defaults.kv_heads;
  made.query_length = defaults.query_length;
  made.kv_length = defaults.kv_length;
  made.head_dim = defaults.head_dim;
  made.value_dim = defaults.value_dim;
  made.query = made.key = made.value = made.output = tensor(defaults.query);
  made.scale = std::numeric_limits<float>::quiet_NaN();
  made.total_query_length = defaults.total_query_length;
  made.total_kv_length = defaults.total_kv_length;
  made.window_left = defaults.window.left;
  made.window_right = defaults.window.right;
  set_defaults(desc, bytes, made);
}

void vkattn_append_desc_init_sized(vkattn_append_desc* desc, size_t bytes) {
  const vkattn::AppendDesc defaults;
  vkattn_append_desc made{};
  made.batch = defaults.batch;
  made.query_heads = defaults.query_heads;
  made.kv_heads = defaults.kv_heads;
  made.new_length = defaults.new_length;
  made.head_dim = defaults.head_dim;
  made.value_dim = defaults.value_dim;
  made.query = made.key = made.value = made.query_output = tensor(defaults.query);
  made.cache_key = made.cache_value = tensor(defaults.cache_key);
  made.cache_length = defaults.cache_length;
  made.total_new_length = defaults.total_new_length;
  made.rotary_base = defaults.rotary.base;
  made.rotary_position_scale = defaults.rotary.position_scale;
  made.rotary_magnitude = defaults.rotary.magnitude;
  set_defaults(desc, bytes, made);
}

void vkattn_merge_desc_init_sized(vkattn_merge_desc* desc, size_t bytes) {
  const vkattn::MergeDesc defaults;
  vkattn_merge_desc made{};
  made.parts = defaults.parts;
  made.has_lse = defaults.has_lse ? 1 : 0;
  set_defaults(desc, bytes, made);
}

void vkattn_backward_desc_init_sized(vkattn_backward_desc* desc, size_t bytes) {
  const vkattn::BackwardDesc defaults;
  vkattn_backward_desc made{};
  made.has_grad_query = defaults.has_grad_query ? 1 : 0;
  made.has_grad_key = defaults.has_grad_key ? 1 : 0;
  made.has_grad_value = defaults.has_grad_value ? 1 : 0;
  set_defaults(desc, bytes, made);
}

void vkattn_matmul_desc_init_sized(vkattn_matmul_desc* desc, size_t bytes) {
  const vkattn::MatmulDesc defaults;
  vkattn_matmul_desc made{};
  made.batch = defaults.batch;
  made.rows = defaults.rows;
  made.columns = defaults.columns;
  made.inner = defaults.inner;
  made.a = made.b = made.output = matrix(defaults.a);
  set_defaults(desc, bytes, made);
}

void vkattn_multi_head_attention_desc_init_sized(vkattn_multi_head_attention_desc* desc, size_t bytes) {
  const vkattn::MultiHeadAttentionDesc defaults;
  vkattn_multi_head_attention_desc made{};
  made.d_model = defaults.d_model;
  made.key_input_dim = defaults.key_input_dim;
  made.value_input_dim = defaults.value_input_dim;
  made.packed_weights = defaults.packed_weights ? 1 : 0;
  made.has_input_bias = defaults.has_input_bias ? 1 : 0;
  made.has_output_bias = defaults.has_output_bias ? 1 : 0;
  made.alignment_bytes = defaults.alignment_bytes;
  made.rotary_base = defaults.rotary.base;
  made.rotary_position_scale = defaults.rotary.position_scale;
  made.rotary_magnitude = defaults.rotary.magnitude;
  set_defaults(desc, bytes, made);
}

void vkattn_multi_head_attention_backward_desc_init_sized(vkattn_multi_head_attention_backward_desc* desc,
                                                          size_t bytes) {
  const vkattn::MultiHeadAttentionBackwardDesc defaults;
  vkattn_multi_head_attention_backward_desc made{};
  made.has_grad_query = defaults.has_grad_query ? 1 : 0;
  made.has_grad_key = defaults.has_grad_key ? 1 : 0;
  made.has_grad_value = defaults.has_grad_value ? 1 : 0;
  made.has_grad_parameters = defaults.has_grad_parameters ? 1 : 0;
  set_defaults(desc, bytes, made);
}

void vkattn_plan_options_init_sized(vkattn_plan_options* options, size_t bytes) {
  vkattn_plan_options made{};
  set_defaults(options, bytes, made);
}

void vkattn_score_function_desc_init_sized(vkattn_score_function_desc* desc, size_t bytes) {
  vkattn_score_function_desc made{};
  set_defaults(desc, bytes, made);
}

void vkattn_requirements_init_sized(vkattn_requirements* requirements, size_t bytes) {
  vkattn_requirements made{};
  set_defaults(requirements, bytes, made);
}

void vkattn_execution_init_sized(vkattn_execution* execution, size_t bytes) {
  vkattn_execution made{};
  set_defaults(execution, bytes, made);
}

void vkattn_record_options_init_sized(vkattn_record_options* options, size_t bytes) {
  vkattn_record_options made{};
  made.dispatch_count = vkattn::RecordOptions{}.dispatch_count;
  set_defaults(options, bytes, made);
}

uint32_t vkattn_version(void) {
  return (VKATTN_VERSION_MAJOR << 22U) | (VKATTN_VERSION_MINOR << 12U) | VKATTN_VERSION_PATCH;
}

/* The C interface from C99: everything in it is declared, and structures have the sizes that programs were
   compiled with. Compared with tests/unit/c_interface.txt by c_interface_test.cpp. */
#include <vkattn/vkattn.h>

#include <stdio.h>
#include <string.h>

/* Vulkan's own headers go with it in any order. */
#include <vulkan/vulkan.h>

int vkattn_test_abi(char* text, size_t capacity);

#define VKATTN_LINE(...) \
  used += (size_t)snprintf(text + used, used < capacity ? capacity - used : 0, __VA_ARGS__)
#define VKATTN_SIZE(NAME) VKATTN_LINE("%s %u\n", #NAME, (unsigned)sizeof(NAME))
#define VKATTN_PLACE(NAME, MEMBER) VKATTN_LINE("%s.%s %u\n", #NAME, #MEMBER, (unsigned)offsetof(NAME, MEMBER))
#define VKATTN_SIZE_AND_PLACE(NAME, MEMBER) \
  VKATTN_SIZE(NAME);                        \
  VKATTN_PLACE(NAME, MEMBER)

/* Sizes of all structures, and the place of the last member of each. */
int vkattn_test_abi(char* text, size_t capacity) {
  size_t used = 0;
  VKATTN_SIZE_AND_PLACE(vkattn_error, message);
  VKATTN_SIZE_AND_PLACE(vkattn_physical_device, api_version);
  VKATTN_PLACE(vkattn_physical_device, disabled_extensions);
  VKATTN_SIZE_AND_PLACE(vkattn_wanted_feature, is_supported);
  VKATTN_SIZE(vkattn_enable_memory);
  VKATTN_SIZE_AND_PLACE(vkattn_device_desc, allocator);
  VKATTN_PLACE(vkattn_device_desc, log_least);
  VKATTN_PLACE(vkattn_device_desc, parameter_data);
  VKATTN_SIZE(vkattn_strides);
  VKATTN_SIZE(vkattn_tensor_desc);
  VKATTN_SIZE(vkattn_cache_layout);
  VKATTN_SIZE_AND_PLACE(vkattn_attention_desc, scale);
  VKATTN_PLACE(vkattn_attention_desc, weights_strides);
  VKATTN_PLACE(vkattn_attention_desc, score_function);
  VKATTN_SIZE_AND_PLACE(vkattn_append_desc, rotary_base);
  VKATTN_PLACE(vkattn_append_desc, rotary_magnitude);
  VKATTN_PLACE(vkattn_append_desc, rotary_inverse);
  VKATTN_SIZE_AND_PLACE(vkattn_plan_options, deferred_compilation);
  VKATTN_PLACE(vkattn_plan_options, refusal_count);
  VKATTN_PLACE(vkattn_plan_options, tile);
  VKATTN_PLACE(vkattn_plan_options, inner_splits);
  VKATTN_PLACE(vkattn_plan_options, backward_refusal_count);
  VKATTN_PLACE(vkattn_plan_options, arithmetic_type);
  VKATTN_SIZE(vkattn_tile_sizes);
  VKATTN_SIZE(vkattn_kernel_choice);
  VKATTN_SIZE_AND_PLACE(vkattn_kernel_support, reason);
  VKATTN_SIZE_AND_PLACE(vkattn_statistic, subgroup_size);
  VKATTN_SIZE(vkattn_block_mask_layout);
  VKATTN_SIZE_AND_PLACE(vkattn_dispatch, workgroups);
  VKATTN_SIZE_AND_PLACE(vkattn_pipeline, workgroup_size);
  VKATTN_SIZE_AND_PLACE(vkattn_requirements, push_constant_bytes);
  VKATTN_PLACE(vkattn_requirements, parameter_bytes);
  VKATTN_SIZE(vkattn_binding);
  VKATTN_SIZE_AND_PLACE(vkattn_execution, dropout_offset);
  VKATTN_PLACE(vkattn_execution, score_buffers);
  VKATTN_SIZE_AND_PLACE(vkattn_record_options, wait_for_earlier);
  VKATTN_SIZE_AND_PLACE(vkattn_merge_desc, has_lse);
  VKATTN_SIZE_AND_PLACE(vkattn_backward_desc, has_grad_sinks);
  VKATTN_PLACE(vkattn_backward_desc, grad_mask);
  VKATTN_SIZE(vkattn_matrix_strides);
  VKATTN_SIZE(vkattn_matrix_desc);
  VKATTN_SIZE_AND_PLACE(vkattn_matmul_desc, a_is_ones);
  VKATTN_SIZE_AND_PLACE(vkattn_multi_head_attention_desc, parameter_type);
  VKATTN_PLACE(vkattn_multi_head_attention_desc, saves_for_gradients);
  VKATTN_PLACE(vkattn_multi_head_attention_desc, weight_type);
  VKATTN_SIZE_AND_PLACE(vkattn_multi_head_attention_backward_desc, grad_parameter_type);
  VKATTN_PLACE(vkattn_multi_head_attention_backward_desc, has_grad_sinks);
  VKATTN_PLACE(vkattn_multi_head_attention_backward_desc, grad_mask);
  VKATTN_SIZE_AND_PLACE(vkattn_layer_step, kind);
  VKATTN_SIZE(vkattn_parameter);
  VKATTN_SIZE(vkattn_kernel_refusal);
  VKATTN_SIZE(vkattn_score_buffer);
  VKATTN_SIZE_AND_PLACE(vkattn_score_function_desc, buffer_count);
  return used < capacity;
}

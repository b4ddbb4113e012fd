/* Uses the C interface from C99: everything in it is declared, and structures have the sizes that programs
   were compiled with. c_interface_list_test.cpp compares the output with tests/unit/c_interface.txt. */
#include <vkattn/vkattn.h>

#include <stdio.h>
#include <string.h>

/* Vulkan's own headers may come before or after it. */
#include <vulkan/vulkan.h>

int vkattn_test_abi(char* text, size_t capacity);

#define VKATTN_LINE(...) \
  used += (size_t)snprintf(text + used, used < capacity ? capacity - used : 0, __VA_ARGS__)
#define VKATTN_SIZE(NAME) VKATTN_LINE("%s %u\n", #NAME, (unsigned)sizeof(NAME))
#define VKATTN_PLACE(NAME, MEMBER)                                                                  \
  VKATTN_LINE("%s.%s %u %u\n", #NAME, #MEMBER, (unsigned)offsetof(NAME, MEMBER), \
              (unsigned)sizeof(((NAME*)0)->MEMBER))
#define VKATTN_SIZE_AND_PLACE(NAME, MEMBER) \
  VKATTN_SIZE(NAME);                        \
  VKATTN_PLACE(NAME, MEMBER)

/* Prints the sizes of all structures, place and size of every field of problems, and place and size of the
   last member of the others. */
int vkattn_test_abi(char* text, size_t capacity) {
  size_t used = 0;
#define VKATTN_VALUE(STRUCTURE, DESC)                     \
  {                                                       \
    typedef vkattn_##STRUCTURE structure;                 \
    static const char* const name = "vkattn_" #STRUCTURE; \
    VKATTN_LINE("%s %u\n", name, (unsigned)sizeof(structure));
#define VKATTN_DESC VKATTN_VALUE
#define VKATTN_FIELD_AS(MEMBER, PATH)                                                                      \
  VKATTN_LINE("%s." #MEMBER " %u %u\n", name, (unsigned)offsetof(structure, MEMBER), \
              (unsigned)sizeof(((structure*)0)->MEMBER));
#define VKATTN_END }
#include "common/fields.def"
  VKATTN_SIZE_AND_PLACE(vkattn_error, message);
  VKATTN_SIZE_AND_PLACE(vkattn_physical_device, api_version);
  VKATTN_PLACE(vkattn_physical_device, disabled_extensions);
  VKATTN_SIZE_AND_PLACE(vkattn_wanted_feature, is_supported);
  VKATTN_SIZE(vkattn_enable_memory);
  VKATTN_SIZE_AND_PLACE(vkattn_device_desc, allocator);
  VKATTN_PLACE(vkattn_device_desc, log_least);
  VKATTN_PLACE(vkattn_device_desc, parameter_data);
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
  VKATTN_SIZE_AND_PLACE(vkattn_memory, pipelines);
  VKATTN_SIZE_AND_PLACE(vkattn_requirements, push_constant_bytes);
  VKATTN_PLACE(vkattn_requirements, parameter_bytes);
  VKATTN_SIZE_AND_PLACE(vkattn_support, better);
  VKATTN_SIZE(vkattn_binding);
  VKATTN_SIZE_AND_PLACE(vkattn_execution, dropout_offset);
  VKATTN_PLACE(vkattn_execution, score_buffers);
  VKATTN_SIZE_AND_PLACE(vkattn_record_options, wait_for_earlier);
  VKATTN_PLACE(vkattn_record_options, first_timestamp);
  VKATTN_SIZE_AND_PLACE(vkattn_layer_step, kind);
  VKATTN_SIZE_AND_PLACE(vkattn_sequence_item, is_independent);
  VKATTN_SIZE(vkattn_parameter);
  VKATTN_SIZE(vkattn_kernel_refusal);
  VKATTN_SIZE(vkattn_score_buffer);
  VKATTN_SIZE_AND_PLACE(vkattn_score_function_desc, buffer_count);
  return used < capacity;
}

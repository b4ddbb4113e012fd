/* Attention in C on the program's own device. Prints 2.8068 4.0758 4.1932 5.9242. */
#include <vkattn/vkattn.h>

#include "own_vulkan.h"

static vkattn_error error;

static void check(vkattn_result result) {
  if (result == VKATTN_SUCCESS) return;
  fprintf(stderr, "vkattn: %s\n", error.message);
  exit(1);
}

static vkattn_device* borrow(const own_vulkan* vulkan) {
  vkattn_device_desc desc;
  vkattn_device* device = NULL;
  vkattn_device_desc_init(&desc);
  desc.instance = vulkan->instance;
  desc.physical_device = vulkan->physical_device;
  desc.device = vulkan->device;
  desc.get_instance_proc_addr = vkGetInstanceProcAddr;
  desc.api_version = VK_API_VERSION_1_1;
  check(vkattn_device_create(&desc, &device, &error));
  return device;
}

/* Two queries and two keys of 4 elements, values of 2. */
static vkattn_plan* make_plan(vkattn_device* device) {
  vkattn_attention_desc desc;
  vkattn_plan_options options;
  vkattn_plan* plan = NULL;
  vkattn_attention_desc_init(&desc);
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  vkattn_plan_options_init(&options);
  options.kv_splits = 1; /* needs no workspace */
  check(vkattn_plan_create_attention(device, &desc, &options, &plan, &error));
  return plan;
}

int main(void) {
  /* Floats 0 to 7 are Q, and K in the same bytes; 8 to 11 are V; 12 to 15 are O. */
  const float inputs[12] = {1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 5, 7};
  own_vulkan vulkan;
  vkattn_device* device;
  vkattn_plan* plan;
  vkattn_bindings* bindings = NULL;
  vkattn_binding tensors[4];
  vkattn_execution execution;
  int i;
  vkattn_error_init(&error);
  open_vulkan(&vulkan, 64);
  memcpy(vulkan.mapped, inputs, sizeof(inputs));
  device = borrow(&vulkan);
  plan = make_plan(device);
  for (i = 0; i < 4; ++i) {
    tensors[i].tensor = VKATTN_TENSOR_QUERY + i;
    tensors[i].buffer = vulkan.buffer;
    tensors[i].offset = i < 2 ? 0 : 16 * (VkDeviceSize)i;
    tensors[i].size = i < 2 ? 32 : 16;
  }
  vkattn_execution_init(&execution);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  check(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error));
  check(vkattn_record(plan, vulkan.commands, bindings, NULL, &error));
  submit_and_wait(&vulkan);
  printf("%.4f %.4f %.4f %.4f\n", vulkan.mapped[12], vulkan.mapped[13], vulkan.mapped[14], vulkan.mapped[15]);
  vkattn_bindings_destroy(bindings);
  vkattn_plan_release(plan);
  vkattn_device_release(device);
  close_vulkan(&vulkan);
  return 0;
}

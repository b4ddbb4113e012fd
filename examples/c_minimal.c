/* Attention in C99 on the program's own Vulkan device: the device, a plan, one execution. The program calls libvulkan; a program
   with a function table of its own passes its vkGetInstanceProcAddr in the same way. It prints the same numbers as the other
   small examples. It ends with 1 if they are wrong, and with 77 if there is no device. */
#include <vulkan/vulkan.h>

#include <vkattn/vkattn.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The program's own Vulkan objects. */
typedef struct app {
  VkInstance instance;
  VkDebugUtilsMessengerEXT messenger; /* null if the validation layer is not installed */
  VkPhysicalDevice physical_device;
  VkDevice device;
  VkQueue queue;
  uint32_t queue_family;
  VkCommandPool command_pool;
  VkBuffer buffer;
  VkDeviceMemory memory;
  float* mapped;
  vkattn_device* attention;
} app;

static int validation_errors = 0;

static void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s failed: VkResult %d\n", what, (int)result);
  exit(1);
}

static void check_attention(vkattn_result result, const vkattn_error* error) {
  if (result == VKATTN_SUCCESS) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static void skip(const char* why) {
  fprintf(stderr, "%s\n", why);
  exit(77);
}

static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                 VkDebugUtilsMessageTypeFlagsEXT types,
                                                 const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
  (void)severity;
  (void)types;
  (void)user;
  fprintf(stderr, "%s\n", data->pMessage);
  ++validation_errors;
  return VK_FALSE;
}

static int has_layer(const char* name) {
  VkLayerProperties layers[64];
  uint32_t count = 64;
  if (vkEnumerateInstanceLayerProperties(&count, layers) < VK_SUCCESS) return 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(layers[i].layerName, name) == 0) return 1;
  }
  return 0;
}

/* Creates the instance, with validation of calls and of synchronization if the layer is installed. */
static void create_instance(app* a) {
  const char* layer = "VK_LAYER_KHRONOS_validation";
  const char* extensions[] = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME};
  const VkValidationFeatureEnableEXT synchronization = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT validation = {VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  VkDebugUtilsMessengerCreateInfoEXT during, messages = {VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  VkApplicationInfo application = {VK_STRUCTURE_TYPE_APPLICATION_INFO};
  VkInstanceCreateInfo create = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  validation.enabledValidationFeatureCount = 1;
  validation.pEnabledValidationFeatures = &synchronization;
#ifdef VK_EXT_layer_settings
  /* Newer layers check accesses in shaders only if they are told to. */
  const VkBool32 yes = VK_TRUE;
  const VkLayerSettingEXT setting = {layer, "syncval_shader_accesses_heuristic", VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1,
                                     &yes};
  VkLayerSettingsCreateInfoEXT settings = {VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT};
  settings.settingCount = 1;
  settings.pSettings = &setting;
  validation.pNext = &settings;
#endif
  messages.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = on_message;
  application.apiVersion = VK_API_VERSION_1_1;
  create.pApplicationInfo = &application;
  if (has_layer(layer)) {
    during = messages;
    during.pNext = &validation;
    create.pNext = &during;
    create.enabledLayerCount = 1;
    create.ppEnabledLayerNames = &layer;
    create.enabledExtensionCount = 2;
    create.ppEnabledExtensionNames = extensions;
  }
  const VkResult result = vkCreateInstance(&create, NULL, &a->instance);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) skip("no Vulkan device: no driver was found");
  check(result, "vkCreateInstance");
  if (create.enabledLayerCount == 0) return;
  const PFN_vkCreateDebugUtilsMessengerEXT create_messenger =
      (PFN_vkCreateDebugUtilsMessengerEXT)vkGetInstanceProcAddr(a->instance, "vkCreateDebugUtilsMessengerEXT");
  check(create_messenger(a->instance, &messages, NULL, &a->messenger), "vkCreateDebugUtilsMessengerEXT");
}

/* Takes the first device and its first family with compute. */
static void choose_device(app* a) {
  VkQueueFamilyProperties families[32];
  uint32_t count = 1;
  if (vkEnumeratePhysicalDevices(a->instance, &count, &a->physical_device) < VK_SUCCESS || count == 0)
    skip("no Vulkan device was found");
  count = 32;
  vkGetPhysicalDeviceQueueFamilyProperties(a->physical_device, &count, families);
  while (a->queue_family < count && (families[a->queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0)
    ++a->queue_family;
  if (a->queue_family == count) skip("no Vulkan device with a compute queue");
}

/* Creates the device with the program's features (here none) and everything that makes attention faster, and borrows it with the
   same lists. */
static void create_device(app* a) {
  const float priority = 1;
  VkDeviceQueueCreateInfo queue = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  VkDeviceCreateInfo create = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  vkattn_physical_device physical;
  vkattn_device_desc desc;
  vkattn_error error;
  static vkattn_enable_memory memory; /* 8 KiB that the lists may point to */
  queue.queueFamilyIndex = a->queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  vkattn_error_init(&error);
  vkattn_physical_device_init(&physical);
  physical.instance = a->instance;
  physical.physical_device = a->physical_device;
  physical.get_instance_proc_addr = vkGetInstanceProcAddr;
  physical.api_version = VK_API_VERSION_1_1;
  check_attention(vkattn_enable_wanted(&physical, &create, &memory, &error), &error);
  check(vkCreateDevice(a->physical_device, &create, NULL, &a->device), "vkCreateDevice");
  vkGetDeviceQueue(a->device, a->queue_family, 0, &a->queue);

  vkattn_device_desc_init(&desc);
  desc.instance = a->instance;
  desc.physical_device = a->physical_device;
  desc.device = a->device;
  desc.get_instance_proc_addr = vkGetInstanceProcAddr;
  desc.api_version = VK_API_VERSION_1_1;
  desc.enabled_extension_count = create.enabledExtensionCount;
  desc.enabled_extensions = create.ppEnabledExtensionNames;
  desc.enabled_features = create.pNext;
  desc.enabled_core_features = create.pEnabledFeatures;
  check_attention(vkattn_device_create(&desc, &a->attention, &error), &error);
}

/* One buffer for all tensors, which the host sees. */
static void create_buffer(app* a, VkDeviceSize bytes, VkBufferUsageFlags usage) {
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkBufferCreateInfo info = {VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  VkMemoryAllocateInfo allocate = {VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  VkMemoryRequirements needs;
  VkPhysicalDeviceMemoryProperties types;
  void* mapped = NULL;
  info.size = bytes;
  info.usage = usage;
  check(vkCreateBuffer(a->device, &info, NULL, &a->buffer), "vkCreateBuffer");
  vkGetBufferMemoryRequirements(a->device, a->buffer, &needs);
  vkGetPhysicalDeviceMemoryProperties(a->physical_device, &types);
  allocate.allocationSize = needs.size;
  while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1u) == 0 ||
         (types.memoryTypes[allocate.memoryTypeIndex].propertyFlags & wanted) != wanted)
    ++allocate.memoryTypeIndex; /* Vulkan promises one such type for buffers */
  check(vkAllocateMemory(a->device, &allocate, NULL, &a->memory), "vkAllocateMemory");
  check(vkBindBufferMemory(a->device, a->buffer, a->memory, 0), "vkBindBufferMemory");
  check(vkMapMemory(a->device, a->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
  a->mapped = mapped;
}

/* Records and submits the plan, with the program's barrier behind it. */
static void execute(app* a, vkattn_plan* plan, const vkattn_bindings* bindings, const vkattn_requirements* needs) {
  VkCommandPoolCreateInfo pool = {VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VkMemoryBarrier barrier = {VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
  VkCommandBuffer commands = VK_NULL_HANDLE;
  vkattn_error error;
  vkattn_error_init(&error);
  pool.queueFamilyIndex = a->queue_family;
  check(vkCreateCommandPool(a->device, &pool, NULL, &a->command_pool), "vkCreateCommandPool");
  allocate.commandPool = a->command_pool;
  allocate.commandBufferCount = 1;
  check(vkAllocateCommandBuffers(a->device, &allocate, &commands), "vkAllocateCommandBuffers");
  check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  check_attention(vkattn_record(plan, commands, bindings, NULL, &error), &error);
  barrier.srcAccessMask = needs->last_access;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands, needs->last_stages, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0, NULL, 0, NULL);
  check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands;
  check(vkQueueSubmit(a->queue, 1, &submit, VK_NULL_HANDLE), "vkQueueSubmit");
  check(vkQueueWaitIdle(a->queue), "vkQueueWaitIdle");
}

/* softmax(Q K^T / sqrt(4)) V of two queries, two keys and values of 2 elements, in double precision. */
static void plain_attention(const float* query, const float* key, const float* value, double* output) {
  for (int i = 0; i < 2; ++i) {
    double weights[2], sum = 0;
    for (int j = 0; j < 2; ++j) {
      double score = 0;
      for (int d = 0; d < 4; ++d) score += (double)query[i * 4 + d] * (double)key[j * 4 + d];
      weights[j] = exp(score / 2);
      sum += weights[j];
    }
    for (int d = 0; d < 2; ++d)
      output[i * 2 + d] = (weights[0] * (double)value[d] + weights[1] * (double)value[2 + d]) / sum;
  }
}

static int attend(app* a) {
  static const float inputs[12] = {1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 5, 7};
  vkattn_attention_desc desc;
  vkattn_requirements needs;
  vkattn_execution execution;
  vkattn_error error;
  vkattn_plan* plan = NULL;
  vkattn_bindings* bindings = NULL;
  double expected[4];
  int wrong = 0;
  vkattn_error_init(&error);
  vkattn_attention_desc_init(&desc);
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  check_attention(vkattn_plan_create_attention(a->attention, &desc, NULL, &plan, &error), &error);
  vkattn_requirements_init(&needs);
  check_attention(vkattn_plan_get_requirements(plan, &needs, &error), &error);

  /* Bytes 0 to 31 are Q, and K in the same bytes; from 32 on V; from 48 on O; from 256 on the workspace, if one is needed. */
  create_buffer(a, 256 + needs.workspace_bytes, needs.tensor_usage | needs.workspace_usage);
  memcpy(a->mapped, inputs, sizeof(inputs));
  const vkattn_binding tensors[] = {{VKATTN_TENSOR_QUERY, a->buffer, 0, 32},
                                    {VKATTN_TENSOR_KEY, a->buffer, 0, 32},
                                    {VKATTN_TENSOR_VALUE, a->buffer, 32, 16},
                                    {VKATTN_TENSOR_OUTPUT, a->buffer, 48, 16}};
  vkattn_execution_init(&execution);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  execution.workspace = a->buffer;
  execution.workspace_offset = 256; /* no device requires a larger alignment */
  execution.workspace_size = needs.workspace_bytes;
  check_attention(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error), &error);
  execute(a, plan, bindings, &needs);

  plain_attention(inputs, inputs, inputs + 8, expected);
  for (int i = 0; i < 4; ++i) {
    const double got = (double)a->mapped[12 + i];
    printf("%.4f%s", got, i % 2 == 0 ? " " : "\n");
    if (!(fabs(got - expected[i]) < 1e-5)) ++wrong;
  }
  vkattn_bindings_destroy(bindings);
  vkattn_plan_release(plan);
  return wrong;
}

static void destroy(app* a) {
  vkattn_device_release(a->attention);
  vkDestroyBuffer(a->device, a->buffer, NULL);
  vkFreeMemory(a->device, a->memory, NULL);
  vkDestroyCommandPool(a->device, a->command_pool, NULL);
  vkDestroyDevice(a->device, NULL);
  if (a->messenger != VK_NULL_HANDLE) {
    const PFN_vkDestroyDebugUtilsMessengerEXT destroy_messenger =
        (PFN_vkDestroyDebugUtilsMessengerEXT)vkGetInstanceProcAddr(a->instance, "vkDestroyDebugUtilsMessengerEXT");
    destroy_messenger(a->instance, a->messenger, NULL);
  }
  vkDestroyInstance(a->instance, NULL);
}

int main(void) {
  app a;
  memset(&a, 0, sizeof(a));
  create_instance(&a);
  choose_device(&a);
  create_device(&a);
  const int wrong = attend(&a);
  destroy(&a);
  if (wrong != 0) fprintf(stderr, "%d of 4 numbers are not those of the plain formula\n", wrong);
  return wrong != 0 || validation_errors != 0 ? 1 : 0;
}

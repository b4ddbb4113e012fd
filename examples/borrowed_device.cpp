// The core layer in a program with its own Vulkan device: the program tells once what it has enabled.
// Attention is recorded into the program's command buffer, between the program's barriers, and the program
// submits it.
#include <vkattn/attention_plan.hpp>

#include <vulkan/vulkan.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  std::fprintf(stderr, "%s failed: VkResult %d\n", what, static_cast<int>(result));
  std::exit(1);
}

template <class T>
T checked(vkattn::Result<T> result) {
  if (!result.ok()) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  return *std::move(result);
}

// The program's own Vulkan objects; an engine has them anyway.
struct App {
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical_device = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  std::uint32_t queue_family = 0;
  VkCommandPool commands = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  float* mapped = nullptr;
};

// The features that this program enables for its own purposes; vkattn is later shown the same structure.
// float32 tensors need no feature; 16-bit tensors are faster with storageBuffer16BitAccess.
VkPhysicalDevice16BitStorageFeatures supported_features(VkPhysicalDevice device) {
  VkPhysicalDevice16BitStorageFeatures storage{};
  storage.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &storage;
  vkGetPhysicalDeviceFeatures2(device, &features);
  return storage;
}

void create_instance(App& app) {
  VkApplicationInfo info{};
  info.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  info.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  create.pApplicationInfo = &info;
  check(vkCreateInstance(&create, nullptr, &app.instance), "vkCreateInstance");
}

// Takes the first device with a compute queue. vkattn::Runtime chooses with more care.
void find_device(App& app) {
  std::uint32_t count = 1;
  const VkResult result = vkEnumeratePhysicalDevices(app.instance, &count, &app.physical_device);
  if (count == 0) check(VK_ERROR_INITIALIZATION_FAILED, "finding a device");
  if (result != VK_INCOMPLETE) check(result, "vkEnumeratePhysicalDevices");
  std::array<VkQueueFamilyProperties, 16> families{};
  count = static_cast<std::uint32_t>(families.size());
  vkGetPhysicalDeviceQueueFamilyProperties(app.physical_device, &count, families.data());
  while (app.queue_family < count && (families[app.queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) {
    ++app.queue_family;
  }
  if (app.queue_family == count) check(VK_ERROR_FEATURE_NOT_PRESENT, "finding a compute queue");
}

void create_device(App& app, const void* features) {
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = app.queue_family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo create{};
  create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  create.pNext = features;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  check(vkCreateDevice(app.physical_device, &create, nullptr, &app.device), "vkCreateDevice");
  vkGetDeviceQueue(app.device, app.queue_family, 0, &app.queue);
  VkCommandPoolCreateInfo pool{};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = app.queue_family;
  check(vkCreateCommandPool(app.device, &pool, nullptr, &app.commands), "vkCreateCommandPool");
}

// One buffer for all tensors. They may begin at any multiple of 16 bytes, or of TensorDesc::alignment_bytes.
void create_buffer(App& app, VkDeviceSize bytes) {
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  check(vkCreateBuffer(app.device, &info, nullptr, &app.buffer), "vkCreateBuffer");
  VkMemoryRequirements needs{};
  vkGetBufferMemoryRequirements(app.device, app.buffer, &needs);
  VkPhysicalDeviceMemoryProperties types{};
  vkGetPhysicalDeviceMemoryProperties(app.physical_device, &types);
  constexpr VkMemoryPropertyFlags kWanted =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = needs.size;
  while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1U) == 0 ||
         (types.memoryTypes[allocate.memoryTypeIndex].propertyFlags & kWanted) != kWanted) {
    ++allocate.memoryTypeIndex;  // Vulkan promises one such type for buffers
  }
  check(vkAllocateMemory(app.device, &allocate, nullptr, &app.memory), "vkAllocateMemory");
  check(vkBindBufferMemory(app.device, app.buffer, app.memory, 0), "vkBindBufferMemory");
  void* mapped = nullptr;
  check(vkMapMemory(app.device, app.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
  app.mapped = static_cast<float*>(mapped);
}

// The program orders the work: its barrier lets the host read what the kernel wrote.
void submit(const App& app, const vkattn::AttentionPlan& plan, const vkattn::Bindings& bindings) {
  VkCommandBufferAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = app.commands;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands = VK_NULL_HANDLE;
  check(vkAllocateCommandBuffers(app.device, &allocate, &commands), "vkAllocateCommandBuffers");
  VkCommandBufferBeginInfo begin{};
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  plan.record(commands, bindings);
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                       &barrier, 0, nullptr, 0, nullptr);
  check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  check(vkQueueSubmit(app.queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
  check(vkQueueWaitIdle(app.queue), "vkQueueWaitIdle");
}

void attend(const App& app, const VkPhysicalDevice16BitStorageFeatures& features) {
  vkattn::DeviceDesc device_desc;
  device_desc.instance = app.instance;
  device_desc.physical_device = app.physical_device;
  device_desc.device = app.device;
  device_desc.get_instance_proc_addr = vkGetInstanceProcAddr;
  device_desc.api_version = VK_API_VERSION_1_1;
  device_desc.enabled_features = &features;
  const vkattn::Device device = checked(vkattn::Device::borrow(device_desc));

  vkattn::AttentionDesc desc;
  desc.query_length = 2;
  desc.kv_length = 2;
  desc.head_dim = 4;
  desc.value_dim = 2;
  vkattn::PlanOptions options;
  options.kv_splits = 1;  // with splits a plan may need a workspace: see plan.workspace_bytes()
  const vkattn::AttentionPlan plan = checked(vkattn::AttentionPlan::create(device, desc, options));

  // Floats 0 to 7 are Q, and K in the same bytes; 8 to 11 are V; 12 to 15 are O.
  constexpr std::array<float, 12> kInputs{1, 0, 1, 0, 0, 1, 0, 1, 2, 3, 5, 7};
  std::memcpy(app.mapped, kInputs.data(), sizeof(kInputs));
  vkattn::AttentionTensors tensors;
  tensors.query = {app.buffer, 0, 32};
  tensors.key = {app.buffer, 0, 32};
  tensors.value = {app.buffer, 32, 16};
  tensors.output = {app.buffer, 48, 16};
  const vkattn::Bindings bindings = checked(plan.make_bindings(tensors));
  submit(app, plan, bindings);
  for (int i = 0; i < 4; ++i)
    std::printf("%.4f%s", static_cast<double>(app.mapped[12 + i]), i % 2 == 0 ? " " : "\n");
}

}  // namespace

int main() {
  App app;
  create_instance(app);
  find_device(app);
  const VkPhysicalDevice16BitStorageFeatures features = supported_features(app.physical_device);
  create_device(app, &features);
  create_buffer(app, 64);
  attend(app, features);  // destroys plan and bindings before the device
  vkDestroyBuffer(app.device, app.buffer, nullptr);
  vkFreeMemory(app.device, app.memory, nullptr);
  vkDestroyCommandPool(app.device, app.commands, nullptr);
  vkDestroyDevice(app.device, nullptr);
  vkDestroyInstance(app.instance, nullptr);
}

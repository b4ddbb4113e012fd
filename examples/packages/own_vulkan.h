/* The Vulkan of a program that uses vkattn: a device with a compute queue, a buffer that the host sees, and a submission that
   waits. The program links the loader, or, with OWN_VOLK, has its own volk, which finds the loader at run time. C and C++. */
#ifndef OWN_VULKAN_H
#define OWN_VULKAN_H

#ifdef OWN_VOLK
#define VOLK_IMPLEMENTATION
#include <volk.h>
#else
#include <vulkan/vulkan.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct own_vulkan {
  VkInstance instance;
  VkPhysicalDevice physical_device;
  VkDevice device;
  VkQueue queue;
  uint32_t family;
  VkBuffer buffer;
  VkDeviceMemory memory;
  float* mapped;
  VkCommandPool pool;
  VkCommandBuffer commands;
} own_vulkan;

/* Ends the program with the code that tests take for "left out". */
static void no_device(const char* what) {
  fprintf(stderr, "no Vulkan device: %s\n", what);
  exit(77);
}

static void must(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  fprintf(stderr, "%s failed: VkResult %d\n", what, (int)result);
  exit(1);
}

static void open_instance(own_vulkan* vulkan) {
  VkApplicationInfo application;
  VkInstanceCreateInfo info;
  uint32_t count = 1;
  memset(&application, 0, sizeof(application));
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_1;
  memset(&info, 0, sizeof(info));
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
#ifdef OWN_VOLK
  if (volkInitialize() != VK_SUCCESS) no_device("there is no loader");
#endif
  if (vkCreateInstance(&info, NULL, &vulkan->instance) != VK_SUCCESS) no_device("no driver");
#ifdef OWN_VOLK
  volkLoadInstance(vulkan->instance);
#endif
  vkEnumeratePhysicalDevices(vulkan->instance, &count, &vulkan->physical_device);
  if (count == 0) no_device("the loader knows none");
}

/* vkattn_enable_wanted() enables what makes attention faster; this program enables nothing. */
static void open_device(own_vulkan* vulkan) {
  VkQueueFamilyProperties families[16];
  VkDeviceQueueCreateInfo queue;
  VkDeviceCreateInfo info;
  const float priority = 1;
  uint32_t count = 16;
  vkGetPhysicalDeviceQueueFamilyProperties(vulkan->physical_device, &count, families);
  while (vulkan->family < count && (families[vulkan->family].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) ++vulkan->family;
  if (vulkan->family == count) no_device("it has no compute queue");
  memset(&queue, 0, sizeof(queue));
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueFamilyIndex = vulkan->family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  memset(&info, 0, sizeof(info));
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  must(vkCreateDevice(vulkan->physical_device, &info, NULL, &vulkan->device), "vkCreateDevice");
  vkGetDeviceQueue(vulkan->device, vulkan->family, 0, &vulkan->queue);
}

static void make_buffer(own_vulkan* vulkan, VkDeviceSize bytes) {
  const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  VkBufferCreateInfo info;
  VkMemoryRequirements needs;
  VkPhysicalDeviceMemoryProperties types;
  VkMemoryAllocateInfo allocate;
  void* mapped = NULL;
  memset(&info, 0, sizeof(info));
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  must(vkCreateBuffer(vulkan->device, &info, NULL, &vulkan->buffer), "vkCreateBuffer");
  vkGetBufferMemoryRequirements(vulkan->device, vulkan->buffer, &needs);
  vkGetPhysicalDeviceMemoryProperties(vulkan->physical_device, &types);
  memset(&allocate, 0, sizeof(allocate));
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.allocationSize = needs.size;
  while ((needs.memoryTypeBits >> allocate.memoryTypeIndex & 1u) == 0 ||
         (types.memoryTypes[allocate.memoryTypeIndex].propertyFlags & wanted) != wanted) {
    ++allocate.memoryTypeIndex; /* Vulkan promises one such type for buffers */
  }
  must(vkAllocateMemory(vulkan->device, &allocate, NULL, &vulkan->memory), "vkAllocateMemory");
  must(vkBindBufferMemory(vulkan->device, vulkan->buffer, vulkan->memory, 0), "vkBindBufferMemory");
  must(vkMapMemory(vulkan->device, vulkan->memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory");
  vulkan->mapped = (float*)mapped;
}

/* Opens a device, creates a buffer of `bytes` bytes, and begins a command buffer. */
static void open_vulkan(own_vulkan* vulkan, VkDeviceSize bytes) {
  VkCommandPoolCreateInfo pool;
  VkCommandBufferAllocateInfo allocate;
  VkCommandBufferBeginInfo begin;
  memset(vulkan, 0, sizeof(*vulkan));
  open_instance(vulkan);
  open_device(vulkan);
  make_buffer(vulkan, bytes);
  memset(&pool, 0, sizeof(pool));
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.queueFamilyIndex = vulkan->family;
  must(vkCreateCommandPool(vulkan->device, &pool, NULL, &vulkan->pool), "vkCreateCommandPool");
  memset(&allocate, 0, sizeof(allocate));
  allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  allocate.commandPool = vulkan->pool;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  must(vkAllocateCommandBuffers(vulkan->device, &allocate, &vulkan->commands), "vkAllocateCommandBuffers");
  memset(&begin, 0, sizeof(begin));
  begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  must(vkBeginCommandBuffer(vulkan->commands, &begin), "vkBeginCommandBuffer");
}

/* Submits what was recorded and waits, so that the host can read the results. */
static void submit_and_wait(own_vulkan* vulkan) {
  VkMemoryBarrier barrier;
  VkSubmitInfo info;
  memset(&barrier, 0, sizeof(barrier));
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vkCmdPipelineBarrier(vulkan->commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &barrier, 0,
                       NULL, 0, NULL);
  must(vkEndCommandBuffer(vulkan->commands), "vkEndCommandBuffer");
  memset(&info, 0, sizeof(info));
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &vulkan->commands;
  must(vkQueueSubmit(vulkan->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
  must(vkQueueWaitIdle(vulkan->queue), "vkQueueWaitIdle");
}

static void close_vulkan(own_vulkan* vulkan) {
  vkDestroyBuffer(vulkan->device, vulkan->buffer, NULL);
  vkFreeMemory(vulkan->device, vulkan->memory, NULL);
  vkDestroyCommandPool(vulkan->device, vulkan->pool, NULL);
  vkDestroyDevice(vulkan->device, NULL);
  vkDestroyInstance(vulkan->instance, NULL);
}

#endif

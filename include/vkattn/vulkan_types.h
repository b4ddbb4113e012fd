/** @file
   The types of Vulkan in this library's interface, declared as Vulkan's own headers declare them, so that those, volk
   and these may be included in any order: no function is declared here. Where vulkan_core.h came before, it is used.
   Calls and structures beyond handles need Vulkan's headers. C and C++. */
#ifndef VKATTN_VULKAN_TYPES_H
#define VKATTN_VULKAN_TYPES_H

#ifndef VULKAN_CORE_H_

#include <stdint.h>

/* As in vk_platform.h. */
#if defined(_WIN32)
#define VKATTN_VKAPI_PTR __stdcall
#elif defined(__ANDROID__) && defined(__ARM_ARCH) && __ARM_ARCH >= 7 && defined(__ARM_32BIT_STATE)
#define VKATTN_VKAPI_PTR __attribute__((pcs("aapcs-vfp")))
#else
#define VKATTN_VKAPI_PTR
#endif

/* As in vulkan_core.h: pointers where they have 64 bits. */
#ifndef VK_USE_64_BIT_PTR_DEFINES
#if defined(__LP64__) || defined(_WIN64) || (defined(__x86_64__) && !defined(__ILP32__)) || defined(_M_X64) || \
    defined(__ia64) || defined(_M_IA64) || defined(__aarch64__) || defined(__powerpc64__) ||                   \
    (defined(__riscv) && __riscv_xlen == 64)
#define VK_USE_64_BIT_PTR_DEFINES 1
#else
#define VK_USE_64_BIT_PTR_DEFINES 0
#endif
#endif

#if VK_USE_64_BIT_PTR_DEFINES == 1
#define VKATTN_HANDLE(NAME) typedef struct NAME##_T* NAME;
#else
#define VKATTN_HANDLE(NAME) typedef uint64_t NAME;
#endif

typedef struct VkInstance_T* VkInstance;
typedef struct VkPhysicalDevice_T* VkPhysicalDevice;
typedef struct VkDevice_T* VkDevice;
typedef struct VkQueue_T* VkQueue;
typedef struct VkCommandBuffer_T* VkCommandBuffer;
VKATTN_HANDLE(VkBuffer)
VKATTN_HANDLE(VkPipelineCache)
VKATTN_HANDLE(VkDescriptorPool)
VKATTN_HANDLE(VkQueryPool)

typedef uint64_t VkDeviceSize;
typedef uint32_t VkFlags;
typedef VkFlags VkBufferUsageFlags;
typedef VkFlags VkPipelineStageFlags;
typedef VkFlags VkAccessFlags;

typedef struct VkPhysicalDeviceFeatures VkPhysicalDeviceFeatures;
typedef struct VkAllocationCallbacks VkAllocationCallbacks;
typedef struct VkDeviceCreateInfo VkDeviceCreateInfo;

typedef void(VKATTN_VKAPI_PTR* PFN_vkVoidFunction)(void);
typedef PFN_vkVoidFunction(VKATTN_VKAPI_PTR* PFN_vkGetInstanceProcAddr)(VkInstance instance, const char* name);

#undef VKATTN_HANDLE

#endif /* VULKAN_CORE_H_ */

#endif /* VKATTN_VULKAN_TYPES_H */

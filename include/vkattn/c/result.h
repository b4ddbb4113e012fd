/** @file
   How calls end, and which version this is. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_RESULT_H
#define VKATTN_C_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include <vkattn/vulkan_types.h>

/** @def VKATTN_API
    A function of the core: exported where it is a shared library. */
#if defined(_WIN32) && defined(VKATTN_SHARED_BUILD)
#define VKATTN_API __declspec(dllexport)
#elif defined(_WIN32) && defined(VKATTN_SHARED)
#define VKATTN_API __declspec(dllimport)
#elif defined(__GNUC__)
#define VKATTN_API __attribute__((visibility("default")))
#else
#define VKATTN_API
#endif

/** Of components beside the core, which are static only. */
#define VKATTN_COMPONENT_API

#ifdef __cplusplus
extern "C" {
#endif

/** Version of this header; vkattn_version() tells the library's. @{ */
#define VKATTN_VERSION_MAJOR 1
#define VKATTN_VERSION_MINOR 0
#define VKATTN_VERSION_PATCH 0
/** @} */

/** Declares the two init functions of a structure. vkattn_x_init(&x) gives every member its default, and struct_size the size
    that this header gives the structure; vkattn_x_init_sized(&x, bytes) does it with a size of the caller's. */
#define VKATTN_INIT_FUNCTIONS(STRUCTURE)                                      \
  VKATTN_API void STRUCTURE##_init_sized(STRUCTURE* structure, size_t bytes); \
  static inline void STRUCTURE##_init(STRUCTURE* structure) {                 \
    STRUCTURE##_init_sized(structure, sizeof(*structure));                    \
  }

/** How a call ended: VKATTN_SUCCESS, or a number below 0 for the kind of failure. */
typedef int32_t vkattn_result;
enum {
  VKATTN_SUCCESS = 0,                 /**< done */
  VKATTN_ERROR_INVALID_ARGUMENT = -1, /**< a structure, tensor or option breaks a rule of the interface */
  VKATTN_ERROR_UNSUPPORTED = -2,      /**< valid, but this device or build cannot do it */
  VKATTN_ERROR_LIMIT_EXCEEDED = -3,   /**< a limit of the device; the message names it and both numbers */
  VKATTN_ERROR_OUT_OF_MEMORY = -4,    /**< host or device memory ran out */
  VKATTN_ERROR_DEVICE_LOST = -5,      /**< VK_ERROR_DEVICE_LOST */
  VKATTN_ERROR_VULKAN = -6,           /**< any other Vulkan error: vkattn_error.vk_result */
  VKATTN_ERROR_NOT_FOUND = -7,        /**< no such kernel */
  VKATTN_ERROR_IO = -8                /**< the host failed */
};

/** What went wrong, in memory of the caller's. */
typedef struct vkattn_error {
  uint32_t struct_size; /**< set by the init function */
  void* next;           /**< null */
  int32_t vk_result;    /**< a VkResult; 0: none failed */
  char message[1024];   /**< one sentence, cut off where it is longer; empty where nothing failed */
} vkattn_error;
VKATTN_INIT_FUNCTIONS(vkattn_error)

/** Version of the library: major << 22 | minor << 12 | patch. */
VKATTN_API uint32_t vkattn_version(void);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_RESULT_H */

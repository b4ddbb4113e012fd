/** @file
   What a plan would be on a device that is not there. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_SUPPORTS_H
#define VKATTN_C_SUPPORTS_H

#include <vkattn/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a device can do: Capabilities of vkattn/capabilities.hpp, from a file. May be used from any thread. */
typedef struct vkattn_capabilities vkattn_capabilities;

/** Reads a device from the text of a file that `vkattn devices --json` has written: number `device` of those that can be
    used, from 0 on. The text is read during the call only. Refused: a text that is torn, of another version, or has a field
    or a value that this version does not know, and a number that it does not have. */
VKATTN_API vkattn_result vkattn_capabilities_create(const char* text, size_t bytes, uint32_t device,
                                                    vkattn_capabilities** capabilities, vkattn_error* error);
/** The device's name. Bytes as vkattn_plan_describe. */
VKATTN_API size_t vkattn_capabilities_get_name(const vkattn_capabilities* capabilities, char* text, size_t capacity);
/** Destroys it. Null is nothing; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_capabilities_destroy(vkattn_capabilities* capabilities);

/** What a problem gets on a device: Support of vkattn/supports.hpp. Texts are cut off where they are longer. */
typedef struct vkattn_support {
  uint32_t struct_size;         /**< set by the init function */
  void* next;                   /**< null */
  VkDeviceSize workspace_bytes; /**< as vkattn_requirements has them */
  uint32_t storage_buffers,     /**< of a descriptor set */
      push_constant_bytes,      /**< of a pipeline layout */
      dispatches;               /**< of an execution */
  uint32_t reserved; /**< 0 */
  char kernel[32];              /**< that the plan would have; empty for operations with one kernel alone */
  char summary[480];            /**< its block sizes and form in words */
  char uses[960];               /**< features of the device that this takes, by Vulkan's names with ", " between: enable them */
  char lacks[960];              /**< likewise features that the device lacks, and with which the problem would get `better` */
  char better[96];              /**< kernel and shader */
} vkattn_support;
VKATTN_INIT_FUNCTIONS(vkattn_support)

/** Plans attention for a device of these capabilities, without compiling anything, and fills `support`, for which its init
    function was called. `options` may be null. Errors are those of vkattn_plan_create_attention: such as a limit with both
    numbers, or the reasons of each kernel. */
VKATTN_API vkattn_result vkattn_supports_attention(const vkattn_capabilities* capabilities,
                                                   const vkattn_attention_desc* desc,
                                                   const vkattn_plan_options* options, vkattn_support* support,
                                                   vkattn_error* error);
#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_SUPPORTS_H */

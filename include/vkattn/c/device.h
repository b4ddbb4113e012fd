/** @file
   What to enable on a device, and the device. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_DEVICE_H
#define VKATTN_C_DEVICE_H

#include <vkattn/c/result.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- What to enable on a device ------------------------------------------------------------------------------------ */

/** A physical device that a VkDevice is to be made of. */
typedef struct vkattn_physical_device {
  uint32_t struct_size;                             /**< set by the init function */
  const void* next;                                 /**< null */
  VkInstance instance;                              /**< that has physical_device */
  VkPhysicalDevice physical_device;                 /**< what is asked */
  PFN_vkGetInstanceProcAddr get_instance_proc_addr; /**< the loader's vkGetInstanceProcAddr */
  uint32_t api_version;                             /**< VkApplicationInfo::apiVersion of the instance */
  uint32_t disabled_extension_count;                /**< how many there are */
  /** extensions to do without, with the parts of them that later versions of Vulkan contain, and features by name */
  const char* const* disabled_extensions;
} vkattn_physical_device;
VKATTN_INIT_FUNCTIONS(vkattn_physical_device)

/** A feature, or an extension without one, that the library gains from. The texts live as long as the library. */
typedef struct vkattn_wanted_feature {
  const char* name;      /**< of the structure's member; empty: the extension alone */
  const char* extension; /**< to be enabled with it; empty: none with this version of Vulkan */
  const char* gain;      /**< what is had from it */
  uint32_t is_supported; /**< by the device */
} vkattn_wanted_feature;

/** Tells every feature and extension that the library gains from. Writes at most *count of them to `features` (which
    may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_query_wanted(const vkattn_physical_device* device, vkattn_wanted_feature* features,
                                             uint32_t* count, vkattn_error* error);

/** Memory for what vkattn_enable_wanted adds. It must not be moved, and live until the device is made and borrowed. */
typedef struct vkattn_enable_memory {
  uint64_t words[1024]; /**< the library's */
} vkattn_enable_memory;

/** Adds everything that is supported and wanted to the extensions and features of a VkDeviceCreateInfo, in place. Bits are
    set in the structures of its chain (or in pEnabledFeatures), which must be writable. Missing structures, and a longer
    list of extensions, lie in `memory`. Nothing is taken away, and nothing is added twice. */
VKATTN_API vkattn_result vkattn_enable_wanted(const vkattn_physical_device* device, VkDeviceCreateInfo* info,
                                              vkattn_enable_memory* memory, vkattn_error* error);

/* --- Devices ------------------------------------------------------------------------------------------------------- */

/** A handle to a borrowed VkDevice, with counted references; may be used from any thread. */
typedef struct vkattn_device vkattn_device;

/** How much a message of the log matters. */
typedef uint32_t vkattn_log_level;
enum {
  VKATTN_LOG_LEVEL_DETAIL = 0, /**< devices and plans in words, as their describe functions have them */
  VKATTN_LOG_LEVEL_INFO = 1,   /**< what was compiled, and how long it took */
  VKATTN_LOG_LEVEL_WARNING = 2 /**< what works less well than it could, such as for a feature that is not enabled */
};

/** Is told what happens, one text without a final newline for each call. The thread that does the work calls it, and several
    threads may call it at once. It must not call the library. Errors are not logged: they are returned. */
typedef void (*vkattn_log)(void* user, vkattn_log_level level, const char* text);

/** A borrowed VkDevice, described by what was enabled on it. */
typedef struct vkattn_device_desc {
  uint32_t struct_size;                                  /**< set by the init function */
  const void* next;                                      /**< null */
  VkInstance instance;                                   /**< that has physical_device */
  VkPhysicalDevice physical_device;                      /**< that `device` was made of */
  VkDevice device;                                       /**< what is borrowed */
  PFN_vkGetInstanceProcAddr get_instance_proc_addr;      /**< the loader's vkGetInstanceProcAddr */
  uint32_t api_version;                                  /**< VkApplicationInfo::apiVersion of the instance */
  uint32_t enabled_extension_count;                      /**< how many there are */
  const char* const* enabled_extensions;                 /**< names of device extensions that were enabled */
  const void* enabled_features;                          /**< VkDeviceCreateInfo::pNext as it was passed; an extension's
                                                              features count where the extension is enabled */
  const VkPhysicalDeviceFeatures* enabled_core_features; /**< VkDeviceCreateInfo::pEnabledFeatures */
  /** host memory of Vulkan objects; null: the driver's own. The structure is copied; its functions and pUserData must live
      as long as the device and everything made with it */
  const VkAllocationCallbacks* allocator;
  vkattn_log log;                                        /**< of the device and everything made with it; null: none */
  void* log_user;                                        /**< what `log` is given: lives as long */
  /** messages below this level are not made; at first VKATTN_LOG_LEVEL_INFO */
  vkattn_log_level log_least;
  uint32_t reserved; /**< 0 */
  /** memory of the caller's for parameters of bindings of problems with features (vkattn_requirements.parameter_bytes for
      each): a buffer with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT in memory that is host-visible, coherent, and mapped as long
      as the device and everything made with it live, for one vkattn_device at a time. Pieces begin at multiples of 64 and
      of minStorageBufferOffsetAlignment in the buffer; bytes before the first such multiple are lost. If no piece is left,
      making bindings fails, also of self-tests, which take as much as the plan's. Null: the library allocates by itself */
  VkBuffer parameter_buffer;
  VkDeviceSize parameter_offset;                         /**< of the first byte that the library may use */
  VkDeviceSize parameter_size;                           /**< bytes from there on */
  void* parameter_data;                                  /**< where byte parameter_offset is mapped */
  /** not 0: bufferDeviceAddress is enabled, and every buffer that the library is given (tensors, workspaces, parameter_buffer)
      has VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT and memory allocated with VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT. CPUs
      gain from it, as they check the bounds of each access by a descriptor. Refused without the feature */
  uint32_t buffer_addresses;
  uint32_t buffer_reserved; /**< 0 */
} vkattn_device_desc;
VKATTN_INIT_FUNCTIONS(vkattn_device_desc)

/** Borrows a VkDevice, which must outlive the handle and everything made with it. */
VKATTN_API vkattn_result vkattn_device_create(const vkattn_device_desc* desc, vkattn_device** device,
                                              vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_device_retain(vkattn_device* device);
/** A few lines for a person: the device, what is enabled of what the library gains from, and what could be. Writes at
    most `capacity` bytes with the 0 at the end, and returns the bytes that all of it takes, with the 0. */
VKATTN_API size_t vkattn_device_describe(const vkattn_device* device, char* text, size_t capacity);
/** One reference less; the last one destroys it, and plans keep one of their own. Null is ignored. A handle that is not alive
    is refused. */
VKATTN_API vkattn_result vkattn_device_release(vkattn_device* device);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_DEVICE_H */

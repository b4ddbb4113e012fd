/** @file
   vkattn in C: attention and cache appends on a Vulkan device of the caller's, for every language that calls C. C99.

   docs/semantics.md defines every result, docs/embedding.md who does what. What the fields of a problem mean is said in
   vkattn/attention.hpp and vkattn/cache.hpp, whose names these are.

   The rules of the interface:
   - Structures with an init function begin with struct_size and next. That function sets struct_size, null for next (no
     structure can follow yet) and the defaults; call it before anything else is written, of a vkattn_error too: one whose
     struct_size is 0 gets no message. A library takes structures of every earlier version, and refuses by name those of a
     later one whose size it does not know. Languages without this header call the functions that end in _init_sized, with
     the size of their structure. Plain values have neither.
   - Functions that can fail return a vkattn_result and write one sentence to `error`, which may be null. Then handles that
     they would have made are null, and nothing else has changed.
   - Nothing here submits, waits for the device, prints, throws or aborts. Handles to devices and plans may be used from
     several threads; bindings from one at a time.
   - What pointers in structures point to is read during the call only. */
#ifndef VKATTN_VKATTN_H
#define VKATTN_VKATTN_H

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
#define VKATTN_VERSION_MAJOR 0
#define VKATTN_VERSION_MINOR 1
#define VKATTN_VERSION_PATCH 0
/** @} */

/* --- Results ------------------------------------------------------------------------------------------------------- */

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
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_error_init_sized(vkattn_error* error, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_error_init(vkattn_error* error) {
  vkattn_error_init_sized(error, sizeof(*error));
}

/** Version of the library: major << 22 | minor << 12 | patch. */
VKATTN_API uint32_t vkattn_version(void);

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
  /** extensions to do without, with what later versions of Vulkan took over of them, and features by name */
  const char* const* disabled_extensions;
} vkattn_physical_device;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_physical_device_init_sized(vkattn_physical_device* device, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_physical_device_init(vkattn_physical_device* device) {
  vkattn_physical_device_init_sized(device, sizeof(*device));
}

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

/** Adds all that is supported and wanted to the extensions and features of a VkDeviceCreateInfo, in place: bits are set
    in the structures of its chain (or in pEnabledFeatures) that are there, which must be writable; others, and a longer
    list of extensions, come to lie in `memory`. Nothing is taken away, and nothing is added twice. */
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

/** Is told what happens, one text without a newline at its end for each call: by the thread that does the work, by
    several at once where several do. It must not call the library. Errors are not logged: they are returned. */
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
  const void* enabled_features;                          /**< VkDeviceCreateInfo::pNext as it was passed */
  const VkPhysicalDeviceFeatures* enabled_core_features; /**< VkDeviceCreateInfo::pEnabledFeatures */
  /** host memory of Vulkan objects, copied; null: the driver's own */
  const VkAllocationCallbacks* allocator;
  vkattn_log log;                                        /**< of the device and everything made with it; null: none */
  void* log_user;                                        /**< what `log` is given; the caller's */
  /** what is below is not put into words: at first VKATTN_LOG_LEVEL_INFO */
  vkattn_log_level log_least;
  uint32_t reserved; /**< 0 */
} vkattn_device_desc;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_device_desc_init_sized(vkattn_device_desc* desc, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_device_desc_init(vkattn_device_desc* desc) {
  vkattn_device_desc_init_sized(desc, sizeof(*desc));
}

/** Borrows a VkDevice, which must outlive the handle and everything made with it. */
VKATTN_API vkattn_result vkattn_device_create(const vkattn_device_desc* desc, vkattn_device** device,
                                              vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_device_retain(vkattn_device* device);
/** A few lines for a person: the device, what is enabled of what the library gains from, and what could be. Writes at
    most `capacity` bytes with the 0 at the end, and returns the bytes that all of it takes, with the 0. */
VKATTN_API size_t vkattn_device_describe(const vkattn_device* device, char* text, size_t capacity);
/** Destroys it with the last reference; plans keep one of their own. Null is nothing. A handle that is not alive is
    refused. */
VKATTN_API vkattn_result vkattn_device_release(vkattn_device* device);

/* --- Problems ------------------------------------------------------------------------------------------------------ */

#define VKATTN_UNSET INT64_MIN /**< a size that was not given: it follows from others where it can */
#define VKATTN_UNLIMITED (-1) /**< a side of a window without a bound */

/** How an element is stored. Arithmetic is float32 whatever the storage. */
typedef uint32_t vkattn_data_type;
enum {
  VKATTN_DATA_TYPE_FLOAT32 = 0,    /**< IEEE 754 binary32 */
  VKATTN_DATA_TYPE_FLOAT16 = 1,    /**< IEEE 754 binary16 */
  VKATTN_DATA_TYPE_BFLOAT16 = 2,   /**< the upper half of a binary32 */
  /** blocks of 32: 8 bits an element, 34 bytes; this and those below for K and V only */
  VKATTN_DATA_TYPE_Q8_0 = 3,
  VKATTN_DATA_TYPE_Q4_0 = 4,       /**< blocks of 32: 4 bits an element, 18 bytes */
  VKATTN_DATA_TYPE_FLOAT8_E4M3 = 5 /**< 8 bits an element, with a scale for each KV head */
};

/** The usual memory orders, without padding. */
typedef uint32_t vkattn_layout;
enum {
  VKATTN_LAYOUT_BHSD = 0,      /**< (batch, head, length, dim) */
  VKATTN_LAYOUT_BSHD = 1,      /**< (batch, length, head, dim) */
  VKATTN_LAYOUT_PACKED_QKV = 2 /**< one tensor of Q, K and V: (batch, length, query_heads + 2 * kv_heads, dim) */
};

/** How many queries, or keys, or new rows a batch entry has. */
typedef uint32_t vkattn_lengths;
enum {
  VKATTN_LENGTHS_UNIFORM = 0,   /**< all entries the same number */
  VKATTN_LENGTHS_PER_ENTRY = 1, /**< a device buffer of one int32 per batch entry says */
  VKATTN_LENGTHS_PACKED = 2     /**< without padding: a device buffer of batch + 1 int32 says where each begins */
};

/** Which key position lines up with query 0. Never inferred from the shape. */
typedef uint32_t vkattn_align;
enum {
  VKATTN_ALIGN_TOP_LEFT = 0,     /**< 0 */
  VKATTN_ALIGN_BOTTOM_RIGHT = 1, /**< the key length of the batch entry - its query length */
  VKATTN_ALIGN_OFFSET = 2        /**< vkattn_attention_desc.offset */
};

/** How a mask is stored. */
typedef uint32_t vkattn_mask_type;
enum {
  VKATTN_MASK_TYPE_NONE = 0,    /**< there is no mask */
  VKATTN_MASK_TYPE_FLOAT32 = 1, /**< added to the score; -inf hides the key */
  VKATTN_MASK_TYPE_FLOAT16 = 2, /**< the same */
  VKATTN_MASK_TYPE_BYTES = 3,   /**< not 0: may be seen */
  VKATTN_MASK_TYPE_BITS = 4     /**< 1: may be seen */
};

/** Attention with linear biases: slope[h] * |i + offset - j| is subtracted from the score. */
typedef uint32_t vkattn_alibi_slopes;
enum {
  VKATTN_ALIBI_SLOPES_NONE = 0,     /**< nothing is subtracted */
  VKATTN_ALIBI_SLOPES_STANDARD = 1, /**< the paper's slopes, for any number of heads */
  VKATTN_ALIBI_SLOPES_GIVEN = 2     /**< VKATTN_TENSOR_ALIBI_SLOPES */
};

/** Where key j of a batch entry lies in K and V. */
typedef uint32_t vkattn_key_mapping;
enum {
  VKATTN_KEY_MAPPING_CONTIGUOUS = 0, /**< row j */
  VKATTN_KEY_MAPPING_RING = 1,       /**< row j % ring_length: only the last ring_length keys exist */
  VKATTN_KEY_MAPPING_PAGED = 2       /**< row j % page_size of page page_table[b, j / page_size] */
};

/** A stage at which the attention weights can be had. */
typedef uint32_t vkattn_weights_stage;
enum {
  VKATTN_WEIGHTS_STAGE_NONE = 0,         /**< none are written */
  VKATTN_WEIGHTS_STAGE_SCORES = 1,       /**< scale * Q K^T */
  VKATTN_WEIGHTS_STAGE_SOFTCAP = 2,      /**< after softcap */
  VKATTN_WEIGHTS_STAGE_MASKED = 3,       /**< after bias, ALiBi and masks: -inf where hidden */
  VKATTN_WEIGHTS_STAGE_PROBABILITIES = 4 /**< after softmax, before dropout: 0 where hidden */
};

/** Which dims of a head are turned together. */
typedef uint32_t vkattn_rotary_style;
enum {
  VKATTN_ROTARY_STYLE_NONE = 0,        /**< none: there is no rotation */
  VKATTN_ROTARY_STYLE_INTERLEAVED = 1, /**< dims 2i and 2i + 1 */
  VKATTN_ROTARY_STYLE_HALF_SPLIT = 2   /**< dims i and i + dims / 2 */
};

/* Plain values that parts of problems are made of; they will not change. */

/** Distances in elements between neighbours of a tensor (batch, head, row, dim). */
typedef struct vkattn_strides {
  int64_t batch, /**< between batch entries; of pages, between pages */
      head,      /**< between heads */
      row,       /**< between queries, or keys; never negative, as all */
      dim;       /**< between elements of a row */
} vkattn_strides;

/** Storage of a tensor. */
typedef struct vkattn_tensor_desc {
  vkattn_data_type type;         /**< of its elements */
  /** of the first element's place, as promised: a power of two, or 0 for its size alone */
  uint32_t alignment_bytes;
  const vkattn_strides* strides; /**< null: those of the layout */
} vkattn_tensor_desc;

/** Where K and V of a cache lie. */
typedef struct vkattn_cache_layout {
  vkattn_key_mapping mapping; /**< which of the sizes below count */
  int64_t ring_length;        /**< of a ring: rows of the tensors */
  int64_t page_size,          /**< of pages: rows of a page */
      page_count,             /**< of pages: pages of the tensors */
      page_table_stride;      /**< of pages: entries of the table for each batch entry */
} vkattn_cache_layout;

/** A score function of the user's own, compiled: vkattn/score_function.hpp. */
typedef struct vkattn_score_function vkattn_score_function;

/** softmax(scale * Q K^T + mask) V: AttentionDesc of vkattn/attention.hpp. */
typedef struct vkattn_attention_desc {
  uint32_t struct_size;                  /**< set by the init function */
  const void* next;                      /**< null */
  int64_t batch,                         /**< batch entries */
      query_heads;                       /**< a multiple of kv_heads */
  int64_t kv_heads;                      /**< not given: query_heads */
  int64_t query_length,                  /**< queries of a batch entry, or the most of one; must be given */
      kv_length,                         /**< keys of a batch entry, or the most of one; must be given */
      head_dim;                          /**< elements of a query or key, 1 to 576; must be given */
  int64_t value_dim;                     /**< not given: head_dim */
  vkattn_layout layout;                  /**< where tensors have no strides of their own */
  vkattn_tensor_desc query,              /**< Q */
      key,                               /**< K */
      value,                             /**< V */
      output;                            /**< O */
  float scale;                           /**< NaN, as it is at first: 1 / sqrt(head_dim) */
  uint32_t causal;                       /**< 1: query i sees key j only where j <= i + offset */
  vkattn_align align;                    /**< names the offset of causality, window and ALiBi */
  int64_t offset;                        /**< of VKATTN_ALIGN_OFFSET */
  vkattn_lengths query_lengths,          /**< how many queries the entries have */
      kv_lengths;                        /**< how many keys the entries have; packed only with packed queries */
  int64_t total_query_length,            /**< of packed queries: rows of Q, O and lse */
      total_kv_length;                   /**< of packed keys: rows of K and V */
  vkattn_cache_layout cache;             /**< where K and V lie; kv_length is then the longest that may occur */
  float softcap;                         /**< above 0: scores become softcap * tanh(score / softcap) */
  vkattn_mask_type mask;                 /**< what VKATTN_TENSOR_MASK holds */
  const vkattn_strides* mask_strides;    /**< null: a mask that broadcasts nothing */
  int64_t window_left,                   /**< query i sees key j only from i + offset - left on */
      window_right;                      /**< and up to i + offset + right; VKATTN_UNLIMITED, as at first: no bound */
  vkattn_alibi_slopes alibi;             /**< which slopes */
  uint32_t has_sinks;                    /**< 1: VKATTN_TENSOR_SINKS */
  float dropout;                         /**< share of the probabilities that are dropped, from 0 to below 1 */
  uint32_t has_lse;                      /**< 1: the log-sum-exp of each row is written */
  const vkattn_strides* lse_strides;     /**< null: (batch, head, row) without padding */
  vkattn_weights_stage weights;          /**< stage that is written: query_length x kv_length float32 per head */
  const vkattn_strides* weights_strides; /**< null: (batch, head, query, key) without padding */
  vkattn_score_function* score_function; /**< null: none. Plans keep a reference */
} vkattn_attention_desc;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_attention_desc_init_sized(vkattn_attention_desc* desc, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_attention_desc_init(vkattn_attention_desc* desc) {
  vkattn_attention_desc_init_sized(desc, sizeof(*desc));
}

/** New rows of K and V and where they go: AppendDesc of vkattn/cache.hpp. */
typedef struct vkattn_append_desc {
  uint32_t struct_size;             /**< set by the init function */
  const void* next;                 /**< null */
  int64_t batch,                    /**< batch entries */
      query_heads,                  /**< 0, as at first: there are no queries to rotate */
      kv_heads,                     /**< 0: nothing is appended; not given: query_heads */
      new_length,                   /**< new rows of a batch entry, or the most of one; must be given */
      head_dim,                     /**< elements of a query or key, 1 to 576; must be given */
      value_dim;                    /**< 0: keys only; not given: head_dim */
  vkattn_layout layout;             /**< where tensors have no strides of their own */
  vkattn_tensor_desc query,         /**< float32, float16 or bfloat16, as the next two */
      key,                          /**< new rows of K */
      value,                        /**< new rows of V */
      query_output,                 /**< the rotated queries; may be the query itself */
      cache_key,                    /**< any type, as cache_value */
      cache_value;                  /**< V of the cache */
  vkattn_cache_layout cache;        /**< where the row of a key position lies in both */
  int64_t cache_length;             /**< rows of a contiguous cache */
  uint32_t has_positions;           /**< 1: VKATTN_TENSOR_POSITIONS in place of `position` */
  int64_t position;                 /**< of the first new row of each batch entry */
  vkattn_lengths new_lengths;       /**< how many new rows the entries have */
  int64_t total_new_length;         /**< of packed rows: all of them */
  uint32_t writes_kv_lengths;       /**< 1: VKATTN_TENSOR_KV_LENGTHS gets position + new rows */
  vkattn_rotary_style rotary_style; /**< none: the rotary members below do not count */
  int64_t rotary_dims;              /**< the first so many of a head; even, from 2 to head_dim */
  double rotary_base,               /**< f[i] = position_scale * base^(-2i / dims) */
      rotary_position_scale;        /**< from above 0 to 1 */
  uint32_t rotary_has_frequencies;  /**< 1: f is VKATTN_TENSOR_FREQUENCIES */
  float rotary_magnitude;           /**< multiplies the rotated dims */
} vkattn_append_desc;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_append_desc_init_sized(vkattn_append_desc* desc, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_append_desc_init(vkattn_append_desc* desc) {
  vkattn_append_desc_init_sized(desc, sizeof(*desc));
}

/** Results over parts of the keys and how they are merged: MergeDesc of vkattn/merge.hpp. */
typedef struct vkattn_merge_desc {
  uint32_t struct_size;       /**< set by the init function */
  const void* next;           /**< null */
  int64_t rows,               /**< of one part: batch * query_heads * query_length */
      value_dim,              /**< elements of a row */
      parts;                  /**< at least 1; 2 at first */
  vkattn_data_type part_type, /**< of the parts' outputs: float32, float16 or bfloat16 */
      output_type;            /**< likewise; rows * value_dim is even for 16 bits */
  uint32_t has_lse;           /**< 1, as at first: the merged lse is written too */
  uint32_t reserved; /**< 0 */
} vkattn_merge_desc;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_merge_desc_init_sized(vkattn_merge_desc* desc, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_merge_desc_init(vkattn_merge_desc* desc) {
  vkattn_merge_desc_init_sized(desc, sizeof(*desc));
}

/* --- Plans --------------------------------------------------------------------------------------------------------- */

/** A plan of attention, or of what goes with it, with counted references; may be used from any thread. */
typedef struct vkattn_plan vkattn_plan;

/** A kernel that must not be used, and why, for messages. */
typedef struct vkattn_kernel_refusal {
  const char* kernel; /**< its name */
  const char* reason; /**< one sentence */
} vkattn_kernel_refusal;

/** Block sizes of a kernel, 0 where it has no use for one: TileSizes of vkattn/tuning.hpp. */
typedef struct vkattn_tile_sizes {
  uint32_t threads, /**< invocations of a workgroup */
      subgroups,    /**< of a workgroup, for kernels that count in subgroups */
      columns,      /**< threads along the keys of a block */
      rows,         /**< query rows of an invocation; of matrix kernels, blocks of rows of a subgroup */
      keys,         /**< keys of a step or block; of the tile kernel, keys of an invocation */
      dims;         /**< head dims staged at a time */
} vkattn_tile_sizes;

/** A kernel and its block sizes. */
typedef struct vkattn_kernel_choice {
  char kernel[32];        /**< its name */
  vkattn_tile_sizes tile; /**< all that it has */
} vkattn_kernel_choice;

/** What a program may time to find the best for its problem on this device: every kernel and block size of the library's
    table that the device accepts, the default first. A plan with vkattn_plan_options.kernel and .tile has it. Writes at
    most *count of them to `choices` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_query_choices(const vkattn_device* device, const vkattn_attention_desc* desc,
                                              vkattn_kernel_choice* choices, uint32_t* count, vkattn_error* error);

/** How to plan; what is left at its default the library decides. */
typedef struct vkattn_plan_options {
  uint32_t struct_size;                  /**< set by the init function */
  const void* next;                      /**< null */
  /** decode, lane, tile, matrix or matrix2, or fail; null: the best that accepts */
  const char* kernel;
  VkPipelineCache pipeline_cache;        /**< null: none. It must live until the plan is compiled */
  uint64_t max_dispatch_ns;              /**< no dispatch is estimated above it; 0: 100 ms, and no limit on CPUs */
  uint32_t kv_splits;                    /**< 0: by a rule */
  /** 1: only kernels in which no NaN or infinity of a hidden row of V can reach the output */
  uint32_t strict_nonfinite;
  uint32_t push_descriptors;             /**< for vkattn_record_push */
  uint32_t deferred_compilation;         /**< vkattn_plan_compile is called later */
  const vkattn_kernel_refusal* refusals; /**< kernels to pass by */
  uint32_t refusal_count;                /**< how many there are */
  /** have the driver keep statistics of the pipelines: needs VK_KHR_pipeline_executable_properties */
  uint32_t capture_statistics;
  const vkattn_tile_sizes* tile;         /**< these block sizes, or fail; needs `kernel`. Null: the best known */
} vkattn_plan_options;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_plan_options_init_sized(vkattn_plan_options* options, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_plan_options_init(vkattn_plan_options* options) {
  vkattn_plan_options_init_sized(options, sizeof(*options));
}

/** Plans attention, and compiles the plan unless that is deferred. `options` may be null. Of appends and merges only
    pipeline_cache, push_descriptors and deferred_compilation count. */
VKATTN_API vkattn_result vkattn_plan_create_attention(vkattn_device* device, const vkattn_attention_desc* desc,
                                                      const vkattn_plan_options* options, vkattn_plan** plan,
                                                      vkattn_error* error);
/** Plans an append, likewise. */
VKATTN_API vkattn_result vkattn_plan_create_append(vkattn_device* device, const vkattn_append_desc* desc,
                                                   const vkattn_plan_options* options, vkattn_plan** plan,
                                                   vkattn_error* error);
/** Plans a merge, likewise. */
VKATTN_API vkattn_result vkattn_plan_create_merge(vkattn_device* device, const vkattn_merge_desc* desc,
                                                  const vkattn_plan_options* options, vkattn_plan** plan,
                                                  vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_plan_retain(vkattn_plan* plan);
/** One reference less. With the last one, and the last bindings, the pipelines are destroyed, which must be idle. Null
    is nothing; a handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_plan_release(vkattn_plan* plan);

/** Compiles a plan with deferred compilation, on any thread; later calls do nothing. */
VKATTN_API vkattn_result vkattn_plan_compile(vkattn_plan* plan, vkattn_error* error);
/** 1 where the plan can be recorded, else 0. */
VKATTN_API uint32_t vkattn_plan_is_compiled(const vkattn_plan* plan);

/** A job of vkattn_prewarm, to be called once, from any thread, with the data that came with it. */
typedef void (*vkattn_job)(void* data);
/** Takes a job: a worker of the caller's is to run it as job(data), or it is run at once. */
typedef void (*vkattn_submit)(void* user, vkattn_job job, void* data);
/** Compiles many plans on workers of the caller's: `submit` is called once for each plan. Returns when all are done,
    with the first error. */
VKATTN_API vkattn_result vkattn_prewarm(vkattn_plan* const* plans, uint32_t count, vkattn_submit submit, void* user,
                                        vkattn_error* error);

/** PlanRequirements of vkattn/recording.hpp. */
typedef struct vkattn_requirements {
  uint32_t struct_size;               /**< set by the init function */
  void* next;                         /**< null */
  VkDeviceSize workspace_bytes;       /**< 0: no workspace is needed */
  VkDeviceSize workspace_alignment;   /**< of its first byte in its buffer */
  VkBufferUsageFlags workspace_usage; /**< of its buffer */
  VkBufferUsageFlags tensor_usage;    /**< of every tensor's buffer */
  uint32_t descriptor_sets,           /**< that vkattn_bindings_create() takes from a pool of the caller's */
      storage_buffers;                /**< in each of them */
  uint32_t dispatches;                /**< that vkattn_record() records */
  VkPipelineStageFlags first_stages;  /**< what must come after the writes of the inputs */
  VkAccessFlags first_access;         /**< likewise */
  VkPipelineStageFlags last_stages;   /**< what must be over before the outputs are used */
  VkAccessFlags last_access;          /**< likewise */
  uint32_t descriptor_set,            /**< bound by recording, with the compute pipeline */
      push_constant_bytes;            /**< of the compute stage, from 0 on: changed by recording */
  uint32_t reserved; /**< 0 */
} vkattn_requirements;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_requirements_init_sized(vkattn_requirements* requirements, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_requirements_init(vkattn_requirements* requirements) {
  vkattn_requirements_init_sized(requirements, sizeof(*requirements));
}
/** Fills `requirements`, for which its init function was called. */
VKATTN_API vkattn_result vkattn_plan_get_requirements(const vkattn_plan* plan, vkattn_requirements* requirements,
                                                      vkattn_error* error);

/** A rough guess of what each dispatch takes, in nanoseconds, for slices (0 for appends and merges): writes at most *count of them
    to `estimates` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_estimates(const vkattn_plan* plan, double* estimates, uint32_t* count,
                                                   vkattn_error* error);

/** A few lines for a person: the problem, the kernel, every refusal, what is not enabled. Writes at most `capacity`
    bytes with the 0 at the end, and returns the bytes that all of it takes, with the 0. */
VKATTN_API size_t vkattn_plan_describe(const vkattn_plan* plan, char* text, size_t capacity);

/** Kernel, types, dims and block sizes in words with a hash of the code, equal for plans whose pipelines do the same;
    an empty text for appends. Bytes as vkattn_plan_describe. */
VKATTN_API size_t vkattn_plan_get_configuration(const vkattn_plan* plan, char* text, size_t capacity);

/** The kernel of a plan of attention and its block sizes; an empty name for other plans. */
VKATTN_API vkattn_result vkattn_plan_get_choice(const vkattn_plan* plan, vkattn_kernel_choice* choice,
                                                vkattn_error* error);

/** One number that a driver tells of a pipeline, such as registers or spills. */
typedef struct vkattn_statistic {
  char pipeline[32];      /**< the kernel, or what follows it */
  char name[96];          /**< the driver's words */
  double value;           /**< in what unit the name says; 1 and 0 for yes and no */
  uint32_t subgroup_size; /**< invocations, of the pipeline */
  uint32_t reserved; /**< 0 */
} vkattn_statistic;
/** Tells the driver's statistics of a plan of attention that was made with capture_statistics and is compiled. Writes at
    most *count of them to `statistics` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_statistics(const vkattn_plan* plan, vkattn_statistic* statistics,
                                                    uint32_t* count, vkattn_error* error);

/** Where the word (uint32: 0 hidden, 1 mixed, 2 visible) of a block of the mask lies: BlockMaskLayout of
    vkattn/plan.hpp, strides in words. */
typedef struct vkattn_block_mask_layout {
  uint32_t rows,    /**< of a block; 0: the plan has no block mask */
      keys,         /**< of a block */
      batch_stride, /**< 0 where blocks do not depend on the batch entry */
      head_stride,  /**< 0 where they do not depend on the KV head */
      row_stride;   /**< from a block of rows to the next: blocks along the keys */
} vkattn_block_mask_layout;
/** How a program's own block mask is laid out, for plans of attention that use one. */
VKATTN_API vkattn_result vkattn_plan_get_block_mask_layout(const vkattn_plan* plan, vkattn_block_mask_layout* layout,
                                                           vkattn_error* error);

/* --- Tensors and recording ----------------------------------------------------------------------------------------- */

/** Which tensor a range is bound as. Shapes are those of the descriptor. */
typedef uint32_t vkattn_tensor;
enum {
  VKATTN_TENSOR_QUERY = 0,                    /**< Q; of an append: the queries to rotate */
  VKATTN_TENSOR_KEY = 1,                      /**< K; of an append: its new rows */
  VKATTN_TENSOR_VALUE = 2,                    /**< V; of an append: its new rows */
  VKATTN_TENSOR_OUTPUT = 3,                   /**< O; written */
  VKATTN_TENSOR_LSE = 4,                      /**< float32; written */
  VKATTN_TENSOR_KV_LENGTHS = 5,               /**< int32, one per batch entry; of an append: written */
  VKATTN_TENSOR_QUERY_LENGTHS = 6,            /**< int32, one per batch entry */
  VKATTN_TENSOR_CUMULATIVE_QUERY_LENGTHS = 7, /**< int32, batch + 1 */
  VKATTN_TENSOR_CUMULATIVE_KV_LENGTHS = 8,    /**< int32, batch + 1 */
  VKATTN_TENSOR_PAGE_TABLE = 9,               /**< int32 (batch, page_table_stride) */
  VKATTN_TENSOR_KEY_SCALES = 10,              /**< float32, one per KV head, where K is float8 */
  VKATTN_TENSOR_VALUE_SCALES = 11,            /**< float32, one per KV head, where V is float8 */
  VKATTN_TENSOR_MASK = 12,                    /**< as vkattn_attention_desc.mask says */
  VKATTN_TENSOR_ALIBI_SLOPES = 13,            /**< float32, one per query head */
  VKATTN_TENSOR_SINKS = 14,                   /**< float32, one per query head */
  VKATTN_TENSOR_WEIGHTS = 15,                 /**< float32; written */
  VKATTN_TENSOR_BLOCK_MASK = 16,              /**< uint32; where the block mask is kept */
  VKATTN_TENSOR_QUERY_OUTPUT = 17,            /**< the rotated queries, written; this and those below of appends */
  VKATTN_TENSOR_CACHE_KEY = 18,               /**< K of the cache; written */
  VKATTN_TENSOR_CACHE_VALUE = 19,             /**< V of the cache; written */
  VKATTN_TENSOR_POSITIONS = 20,               /**< int32, one per batch entry */
  VKATTN_TENSOR_NEW_LENGTHS = 21,             /**< int32, one per batch entry */
  VKATTN_TENSOR_CUMULATIVE_NEW_LENGTHS = 22,  /**< int32, batch + 1 */
  VKATTN_TENSOR_FREQUENCIES = 23,             /**< float32, rotary_dims / 2 */
  /** (parts, rows, value_dim); this and the next of merges, which write output and lse */
  VKATTN_TENSOR_PARTS = 24,
  VKATTN_TENSOR_PART_LSE = 25                 /**< float32 (parts, rows) */
};

/** A part of a buffer that holds a tensor: `offset` is the byte of its first element. */
typedef struct vkattn_binding {
  vkattn_tensor tensor; /**< which it is */
  VkBuffer buffer;      /**< with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
  VkDeviceSize offset,  /**< in bytes */
      size;             /**< bytes from there: at least vkattn_plan_tensor_range() */
} vkattn_binding;

/** Bytes that the range of a tensor must have from `offset` on, on every device the same; 0: the plan has no use for
    it. */
VKATTN_API VkDeviceSize vkattn_plan_tensor_range(const vkattn_plan* plan, vkattn_tensor tensor, VkDeviceSize offset);

/** What one execution works on. */
typedef struct vkattn_execution {
  uint32_t struct_size;                /**< set by the init function */
  const void* next;                    /**< null */
  const vkattn_binding* tensors;       /**< in any order, each at most once; those that are not used may be missing */
  uint32_t tensor_count;               /**< how many there are */
  uint32_t block_mask_complete;        /**< the block mask is there already: AttentionTensors::block_mask_complete */
  VkBuffer workspace;                  /**< vkattn_requirements.workspace_bytes and so on */
  VkDeviceSize workspace_offset,       /**< in bytes */
      workspace_size;                  /**< bytes from there */
  uint64_t dropout_seed;               /**< executions with one seed and dropout_offset drop the same */
  uint32_t dropout_offset;             /**< of the call, so that calls with one seed differ */
  /** those of the score function, in its order; their `tensor` is not looked at */
  uint32_t score_buffer_count;
  const vkattn_binding* score_buffers; /**< each from a multiple of minStorageBufferOffsetAlignment on */
} vkattn_execution;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_execution_init_sized(vkattn_execution* execution, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_execution_init(vkattn_execution* execution) {
  vkattn_execution_init_sized(execution, sizeof(*execution));
}

/** Descriptor sets and parameters for one execution, used as often as wanted, by one thread at a time. */
typedef struct vkattn_bindings vkattn_bindings;
/** Makes bindings, from a pool of the caller's where `pool` is not null: then no other thread uses that meanwhile, and
    it outlives the bindings' last use. */
VKATTN_API vkattn_result vkattn_bindings_create(vkattn_plan* plan, const vkattn_execution* execution,
                                                VkDescriptorPool pool, vkattn_bindings** bindings,
                                                vkattn_error* error);
/** Points them at other tensors. Only while none is in use by the device. */
VKATTN_API vkattn_result vkattn_bindings_rewrite(vkattn_bindings* bindings, const vkattn_execution* execution,
                                                 vkattn_error* error);
/** Destroys bindings. They must be idle. Null is nothing; bindings that are not alive are refused. */
VKATTN_API vkattn_result vkattn_bindings_destroy(vkattn_bindings* bindings);

/** RecordOptions of vkattn/recording.hpp. */
typedef struct vkattn_record_options {
  uint32_t struct_size;      /**< set by the init function */
  const void* next;          /**< null */
  uint32_t first_dispatch,   /**< of a slice; 0 at first */
      dispatch_count;        /**< of a slice; all at first */
  uint32_t wait_for_earlier; /**< begin with a barrier after all compute and transfers recorded before */
  uint32_t reserved; /**< 0 */
} vkattn_record_options;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_record_options_init_sized(vkattn_record_options* options, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_record_options_init(vkattn_record_options* options) {
  vkattn_record_options_init_sized(options, sizeof(*options));
}

/** Records the work outside of a render pass. No allocation, no wait, no lock. `options` may be null. */
VKATTN_API vkattn_result vkattn_record(vkattn_plan* plan, VkCommandBuffer commands, const vkattn_bindings* bindings,
                                       const vkattn_record_options* options, vkattn_error* error);
/** The same without bindings, of plans with push_descriptors. */
VKATTN_API vkattn_result vkattn_record_push(vkattn_plan* plan, VkCommandBuffer commands,
                                            const vkattn_execution* execution, const vkattn_record_options* options,
                                            vkattn_error* error);

/* --- Slices for frames ---------------------------------------------------------------------------------------------- */

/** Deals the dispatches of a plan out to frames, and learns from what they took: FrameBudget of
    vkattn/frame_budget.hpp. Used by one thread at a time. */
typedef struct vkattn_frame_budget vkattn_frame_budget;
/** Of a plan, whose estimates it copies. */
VKATTN_API vkattn_result vkattn_frame_budget_create(const vkattn_plan* plan, vkattn_frame_budget** budget,
                                                    vkattn_error* error);
/** Sets first_dispatch and dispatch_count of `slice`, which has been initialized, to the next slice that should take
    no longer than `budget_ns` nanoseconds: one dispatch at least, and none where all were given out. */
VKATTN_API vkattn_result vkattn_frame_budget_next(vkattn_frame_budget* budget, double budget_ns,
                                                  vkattn_record_options* slice, vkattn_error* error);
/** Tells what a slice took, in nanoseconds, by timestamps of the caller's, who may be some frames behind. */
VKATTN_API vkattn_result vkattn_frame_budget_measured(vkattn_frame_budget* budget, const vkattn_record_options* slice,
                                                      double ns, vkattn_error* error);
/** What a slice is expected to take, in nanoseconds; below 0 where there is no such slice. */
VKATTN_API double vkattn_frame_budget_estimate(const vkattn_frame_budget* budget, const vkattn_record_options* slice);
/** 1 where all dispatches were given out, else 0. */
VKATTN_API uint32_t vkattn_frame_budget_is_done(const vkattn_frame_budget* budget);
/** Begin at the first dispatch again; what was learnt stays. */
VKATTN_API vkattn_result vkattn_frame_budget_restart(vkattn_frame_budget* budget);
/** Destroys it. Null is nothing; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_frame_budget_destroy(vkattn_frame_budget* budget);

/* --- Compiled pipelines between runs ------------------------------------------------------------------------------- */

/** Compiled pipelines that a program keeps between runs. */
typedef struct vkattn_pipeline_cache vkattn_pipeline_cache;
/** Makes a cache for pipelines of the device, from bytes that vkattn_pipeline_cache_save gave, or none. Bytes of
    another device or driver, and torn ones, are passed over; then, if `ignored` is not null, it gets why (else an empty
    text), with at most `ignored_capacity` bytes. */
VKATTN_API vkattn_result vkattn_pipeline_cache_create(vkattn_device* device, const void* blob, size_t blob_bytes,
                                                      char* ignored, size_t ignored_capacity,
                                                      vkattn_pipeline_cache** cache, vkattn_error* error);
/** Vulkan's handle, for vkattn_plan_options.pipeline_cache; null for null. */
VKATTN_API VkPipelineCache vkattn_pipeline_cache_handle(const vkattn_pipeline_cache* cache);
/** Writes the bytes to keep where *bytes is enough for them, and sets *bytes to what they take; `blob` may be null. */
VKATTN_API vkattn_result vkattn_pipeline_cache_save(const vkattn_pipeline_cache* cache, void* blob, size_t* bytes,
                                                    vkattn_error* error);
/** No plan that is yet to be compiled may need it. Null is nothing; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_pipeline_cache_destroy(vkattn_pipeline_cache* cache);

/* --- Self-tests ---------------------------------------------------------------------------------------------------- */

/** 1 where the plan runs on matrix units, else 0. Drivers have claimed matrix shapes that gave wrong results. Before a
    plan that needs it is trusted, a small problem of its kind can be run on the same kernel and compared with a float64
    reference: vkattn/self_test.hpp. Where the result is wrong, make the plan again with its kernel refused. The outcome
    holds for vkattn_plan_get_configuration on this device with this driver. */
VKATTN_API uint32_t vkattn_plan_needs_self_test(const vkattn_plan* plan);

/** A small problem on the kernel of a plan. */
typedef struct vkattn_self_test vkattn_self_test;
/** Makes the self-test of a plan of attention, and compiles what it runs. `device` is the plan's; `cache` may be
    null. */
VKATTN_API vkattn_result vkattn_self_test_create(vkattn_device* device, const vkattn_plan* plan, VkPipelineCache cache,
                                                 vkattn_self_test** test, vkattn_error* error);
/** Bytes of the one buffer that the test needs: host-visible and coherent, for storage. */
VKATTN_API VkDeviceSize vkattn_self_test_buffer_bytes(const vkattn_self_test* test);
/** Writes what the test starts from to the buffer's memory. */
VKATTN_API vkattn_result vkattn_self_test_fill(const vkattn_self_test* test, void* memory, size_t bytes,
                                               vkattn_error* error);
/** Records the test with a barrier before the host's reads. Once for each test; `offset` is a multiple of
    minStorageBufferOffsetAlignment. */
VKATTN_API vkattn_result vkattn_self_test_record(vkattn_self_test* test, VkCommandBuffer commands, VkBuffer buffer,
                                                 VkDeviceSize offset, vkattn_error* error);
/** Looks at the buffer's memory when all is done. `difference` gets what is wrong, in words; an empty text: the results
    are right. */
VKATTN_API vkattn_result vkattn_self_test_check(const vkattn_self_test* test, const void* memory, size_t bytes,
                                                char* difference, size_t capacity, vkattn_error* error);
/** Destroys a self-test. It must be idle. Null is nothing. */
VKATTN_API vkattn_result vkattn_self_test_destroy(vkattn_self_test* test);

/* --- Score functions ------------------------------------------------------------------------------------------------ */

/** Elements of a score function's buffer, 4 bytes each. */
typedef uint32_t vkattn_score_buffer_type;
enum {
  VKATTN_SCORE_BUFFER_FLOAT = 0, /**< GLSL's float */
  VKATTN_SCORE_BUFFER_INT = 1,   /**< GLSL's int */
  VKATTN_SCORE_BUFFER_UINT = 2   /**< GLSL's uint */
};

/** A table that the function reads as name(i). */
typedef struct vkattn_score_buffer {
  const char* name;              /**< how GLSL reads it */
  vkattn_score_buffer_type type; /**< of its elements */
} vkattn_score_buffer;

/** GLSL of a score function, and the tables that it reads. */
typedef struct vkattn_score_function_desc {
  uint32_t struct_size;               /**< set by the init function */
  const void* next;                   /**< null */
  const char* source;                 /**< GLSL: docs/score_functions.md */
  const char* name;                   /**< in messages; null: "score function" */
  const vkattn_score_buffer* buffers; /**< tables, in the order of vkattn_execution.score_buffers */
  uint32_t buffer_count;              /**< at most 4 */
  uint32_t reserved; /**< 0 */
} vkattn_score_function_desc;
/** Sets struct_size, and every other member to its default. */
VKATTN_API void vkattn_score_function_desc_init_sized(vkattn_score_function_desc* desc, size_t bytes);
/** Sets the defaults, with the size that this header gives the structure. */
static inline void vkattn_score_function_desc_init(vkattn_score_function_desc* desc) {
  vkattn_score_function_desc_init_sized(desc, sizeof(*desc));
}

/** Compiles GLSL: in the component score_functions, which brings a compiler, and not in the shared library. */
VKATTN_COMPONENT_API vkattn_result vkattn_score_function_compile(const vkattn_score_function_desc* desc,
                                                                 vkattn_score_function** function,
                                                                 vkattn_error* error);
/** The function with its kernels compiled, as bytes for vkattn_score_function_load: for programs that bring no
    compiler. `shaders` names binaries; none: all. Writes where *bytes is enough, and sets *bytes to what it takes;
    `blob` may be null. */
VKATTN_API vkattn_result vkattn_score_function_save(const vkattn_score_function* function, const char* const* shaders,
                                                    uint32_t shader_count, void* blob, size_t* bytes,
                                                    vkattn_error* error);
/** Makes a score function from bytes that vkattn_score_function_save gave, which are code and must be trusted like it.
    Refused where they are torn or of a library with other shaders. */
VKATTN_API vkattn_result vkattn_score_function_load(const void* blob, size_t bytes, vkattn_score_function** function,
                                                    vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_score_function_retain(vkattn_score_function* function);
/** Destroys it with the last reference; plans keep one of their own. Null is nothing. */
VKATTN_API vkattn_result vkattn_score_function_release(vkattn_score_function* function);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_VKATTN_H */

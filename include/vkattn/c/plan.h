/** @file
   Plans: made, compiled, asked. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_PLAN_H
#define VKATTN_C_PLAN_H

#include <vkattn/c/device.h>
#include <vkattn/c/problem.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A plan of attention, of what goes with it, or of a layer, with counted references; may be used from any thread. */
typedef struct vkattn_plan vkattn_plan;

/** A kernel that must not be used, and why, for messages. Plans of every kind with kernels take a refusal of any of these
    names, also of a kernel that the kind does not have, and refuse other names. */
typedef struct vkattn_kernel_refusal {
  const char* kernel; /**< its name, see vkattn_plan_options.kernel */
  const char* reason; /**< one sentence */
} vkattn_kernel_refusal;

/** Block sizes of a kernel, 0 for a size that it does not use: TileSizes of vkattn/tuning.hpp; of products MatmulTile of
    vkattn/matmul_desc.hpp. */
typedef struct vkattn_tile_sizes {
  uint32_t threads, /**< invocations of a workgroup */
      subgroups,    /**< of a workgroup, for kernels that count in subgroups */
      /** threads along the keys of a block; of matrix2 lanes that share a row; of a product columns of an invocation or
          subgroup */
      columns,
      /** query rows of an invocation; of matrix kernels blocks of rows of a subgroup; of a product rows of either */
      rows,
      /** keys of a step or block; of the tile kernel keys of an invocation; of a product `inner` of a step (in
          vectors of 8 where lane_decode reads these, with rows 1 the most of them) */
      keys,
      /** head dims staged at a time; of matrix2, with `columns`: heads of up to so many dims have their scores computed a
          tile ahead; of decode, their keys read a step ahead; of a product its stages */
      dims;
} vkattn_tile_sizes;

/** A kernel and its block sizes. */
typedef struct vkattn_kernel_choice {
  char kernel[32];        /**< its name */
  vkattn_tile_sizes tile; /**< all that it has */
} vkattn_kernel_choice;

/** The choices that a program may time to find the best for its problem on this device: every kernel and block size of the
    library's table that the device accepts, the default first. vkattn_plan_options.kernel and .tile select one. Writes at
    most *count of them to `choices` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_query_choices(const vkattn_device* device, const vkattn_attention_desc* desc,
                                              vkattn_kernel_choice* choices, uint32_t* count, vkattn_error* error);

/** A kernel, and whether device and problem suit it. */
typedef struct vkattn_kernel_support {
  char kernel[32];  /**< its name */
  char reason[480]; /**< against it, one sentence, cut off where it is longer; empty: it can run */
} vkattn_kernel_support;

/** Every kernel of attention in the order of preference for the device, with the reason against each; those that the build
    left out too. Writes at most *count of them to `kernels` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_query_kernels_attention(const vkattn_device* device, const vkattn_attention_desc* desc,
                                                        vkattn_kernel_support* kernels, uint32_t* count,
                                                        vkattn_error* error);

/** How to plan. The library decides options that are left at their defaults. An option that is set, but that a kind of plan
    does not use, is refused by its name. Members whose comment names no kind are for all kinds; "layers" means both passes
    of a layer. */
typedef struct vkattn_plan_options {
  uint32_t struct_size;                  /**< set by the init function */
  const void* next;                      /**< null */
  /** use this kernel or fail: decode, lane, lane_decode, tile, matrix or matrix2; gradients have all but decode and
      lane_decode, products all but decode and matrix2. Null: the best that accepts. Of a layer the kernel of its
      attention; not of appends and merges */
  const char* kernel;
  VkPipelineCache pipeline_cache;        /**< null: none. It must live until the plan is compiled */
  /** work is cut so that no dispatch is estimated above it; 0: 100 ms, and no limit on CPUs. Appends and merges have no
      estimates, and are not cut */
  uint64_t max_dispatch_ns;
  /** of attention and layers: parts that the keys are cut into, PlanOptions::kv_splits; 0: by a rule */
  uint32_t kv_splits;
  /** 1, of attention and layers: only kernels in which no NaN or infinity of a hidden row of V can reach the output */
  uint32_t strict_nonfinite;
  uint32_t push_descriptors;             /**< for vkattn_record_push */
  uint32_t deferred_compilation;         /**< vkattn_plan_compile is called later */
  /** of plans with kernels: kernels to pass over; of a layer in its attention */
  const vkattn_kernel_refusal* refusals;
  uint32_t refusal_count;                /**< how many there are */
  /** 1: have the driver keep statistics of the pipelines for vkattn_plan_get_statistics; needs
      VK_KHR_pipeline_executable_properties. */
  uint32_t capture_statistics;
  /** of attention, gradients (matrix2 alone), products and layers: these block sizes, or fail; needs `kernel`. Null: the best
      known */
  const vkattn_tile_sizes* tile;
  const char* matmul_kernel;             /**< of a layer: `kernel` of its products */
  const char* backward_kernel;           /**< of a layer: `kernel` of the gradients of its attention */
  uint32_t chunk_keys;                   /**< of gradients: PlanOptions::chunk_keys; 0: by a rule */
  uint32_t inner_splits;                 /**< of a product: PlanOptions::inner_splits; 0: by a rule */
  const vkattn_kernel_refusal* matmul_refusals;   /**< of a layer: `refusals` of its products */
  const vkattn_kernel_refusal* backward_refusals; /**< of a layer: `refusals` of the gradients of its attention */
  uint32_t matmul_refusal_count;         /**< how many there are */
  uint32_t backward_refusal_count;       /**< likewise */
  /** of attention and layers: PlanOptions::arithmetic_type, float32 or float16, with a tolerance of its own; in a layer for
      its attention in the forward pass */
  vkattn_data_type arithmetic_type;
  uint32_t reserved; /**< 0 */
} vkattn_plan_options;
VKATTN_INIT_FUNCTIONS(vkattn_plan_options)

/** Plans attention, and compiles the plan unless that is deferred. `options` may be null. `plan` is null after an error: a
    broken rule of the descriptor or an option, a limit of the device (with both numbers), no kernel that accepts (with each
    reason), or an error of Vulkan. Pointers are read during the call only, except pipeline_cache. */
VKATTN_API vkattn_result vkattn_plan_create_attention(vkattn_device* device, const vkattn_attention_desc* desc,
                                                      const vkattn_plan_options* options, vkattn_plan** plan,
                                                      vkattn_error* error);
/** Writes a short text in ASCII, for a hash table, to `text` of *bytes, where that is enough, and sets *bytes to what it
    takes with the 0 at its end; `text` may be null. Equal for descriptors that are equal in every member and in all that
    these point to, different for others: plan_key() of vkattn/plan_key.hpp, which says what a key does not tell. */
VKATTN_API vkattn_result vkattn_plan_key_attention(const vkattn_attention_desc* desc, char* text, size_t* bytes,
                                                   vkattn_error* error);
/** One reference more. A handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_plan_retain(vkattn_plan* plan);
/** One reference less. The last one, and the last bindings, destroy the pipelines, which must be idle. Null is ignored; a
    handle that is not alive is refused. */
VKATTN_API vkattn_result vkattn_plan_release(vkattn_plan* plan);

/** Compiles a plan with deferred compilation, on any thread. Later calls do nothing. Calls at the same time wait for the
    first and have its outcome; after a failure a later call tries again. */
VKATTN_API vkattn_result vkattn_plan_compile(vkattn_plan* plan, vkattn_error* error);
/** 1 if the plan can be recorded, else 0. */
VKATTN_API uint32_t vkattn_plan_is_compiled(const vkattn_plan* plan);

/** A job of vkattn_prewarm, to be called once, from any thread, with the data that came with it. */
typedef void (*vkattn_job)(void* data);
/** Takes a job: a worker of the caller's is to run it as job(data), or it is run at once. */
typedef void (*vkattn_submit)(void* user, vkattn_job job, void* data);
/** Compiles many plans on workers of the caller's: `submit` is called once for each plan. Returns when all are done,
    with the first error. A C++ `submit` may throw where the library was compiled with exceptions. The job that it was
    given must then not be started later. No more jobs are submitted, and this returns an error once those taken before
    are done. */
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
      storage_buffers;                /**< in each of them, at most */
  uint32_t dispatches;                /**< that vkattn_record() records */
  VkPipelineStageFlags first_stages;  /**< what must come after the writes of the inputs */
  VkAccessFlags first_access;         /**< likewise */
  VkPipelineStageFlags last_stages;   /**< what must be over before the outputs are used */
  VkAccessFlags last_access;          /**< likewise */
  uint32_t descriptor_set,            /**< bound by recording, with the compute pipeline */
      push_constant_bytes;            /**< of the compute stage, from 0 on: changed by recording */
  uint32_t parameter_bytes;           /**< of host-visible memory that bindings take: vkattn_device_desc.parameter_buffer */
} vkattn_requirements;
VKATTN_INIT_FUNCTIONS(vkattn_requirements)
/** Fills `requirements`, for which its init function was called. */
VKATTN_API vkattn_result vkattn_plan_get_requirements(const vkattn_plan* plan, vkattn_requirements* requirements,
                                                      vkattn_error* error);

/** One dispatch of a plan: DispatchInfo of vkattn/recording.hpp. */
typedef struct vkattn_dispatch {
  char pass[32];          /**< the kernel, or what follows it, as in vkattn_statistic and the labels of a recording */
  uint64_t first_tile,    /**< of the pass's tiles: row tiles of all heads of all batch entries, or rows */
      tile_count;         /**< from there on */
  double estimated_ns;    /**< as vkattn_plan_get_estimates */
  uint32_t workgroups[3]; /**< what vkCmdDispatch gets */
  uint32_t reserved; /**< 0 */
} vkattn_dispatch;
/** Tells what vkattn_record records, in this order. Writes at most *count of them to `dispatches` (which may be null) and
    sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_dispatches(const vkattn_plan* plan, vkattn_dispatch* dispatches,
                                                    uint32_t* count, vkattn_error* error);

/** A rough guess of what each dispatch takes, in nanoseconds, for slices (0 for appends and merges): writes
    at most *count of them to `estimates` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_estimates(const vkattn_plan* plan, double* estimates, uint32_t* count,
                                                   vkattn_error* error);

/** A few lines for a person: the problem, the kernel, every refusal, what is not enabled. Writes at most `capacity`
    bytes with the 0 at the end, and returns the bytes that all of it takes, with the 0. */
VKATTN_API size_t vkattn_plan_describe(const vkattn_plan* plan, char* text, size_t capacity);

/** Kernel, types, dims and block sizes in words with a hash of the code, equal for plans whose pipelines do the same: of
    attention, gradients and products, and of a layer's attention; an empty text for other plans. Bytes as vkattn_plan_describe. */
VKATTN_API size_t vkattn_plan_get_configuration(const vkattn_plan* plan, char* text, size_t capacity);

/** The kernel and its block sizes: of attention, of a layer's attention, of a product, and of gradients (zeros where
    vkattn_plan_options.tile cannot give them). An empty name for other plans. */
VKATTN_API vkattn_result vkattn_plan_get_choice(const vkattn_plan* plan, vkattn_kernel_choice* choice,
                                                vkattn_error* error);

/** The type that the kernel rounds probabilities to before it multiplies them with V, of gradients also those of scores
    before they are multiplied with Q and K: it widens the tolerance. Of attention, of a layer's attention and of
    gradients of attention; refused for other plans. */
VKATTN_API vkattn_result vkattn_plan_get_probability_type(const vkattn_plan* plan, vkattn_data_type* type,
                                                          vkattn_error* error);

/** The type of products and short sums, if vkattn_plan_options.arithmetic_type asked for another than float32, with a
    tolerance of its own. It says nothing of matrix units. Of attention and of a layer's attention; refused for other
    plans. */
VKATTN_API vkattn_result vkattn_plan_get_arithmetic_type(const vkattn_plan* plan, vkattn_data_type* type,
                                                         vkattn_error* error);

/** One pipeline of a plan: PipelineInfo of vkattn/statistics.hpp. */
typedef struct vkattn_pipeline {
  char pass[32];           /**< as in vkattn_dispatch */
  char shader[96];         /**< the binary, by whose name vkattn_score_function_save takes it */
  uint32_t workgroup_size; /**< invocations */
  uint32_t reserved; /**< 0 */
} vkattn_pipeline;
/** Tells the pipelines of a plan of an operation in the order of their dispatches, each once. Writes at most *count of
    them to `pipelines` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_pipelines(const vkattn_plan* plan, vkattn_pipeline* pipelines,
                                                   uint32_t* count, vkattn_error* error);

/** Bytes that a plan holds, or needs of its caller, as far as they are known: PlanMemory of vkattn/statistics.hpp. */
typedef struct vkattn_memory {
  uint32_t struct_size;     /**< set by the init function */
  void* next;               /**< null */
  uint64_t workspace_bytes, /**< of the caller's workspace, for each execution that may overlap another */
      parameter_bytes,      /**< of host-visible memory, for each bindings */
      spirv_bytes,          /**< of SPIR-V that the pipelines are compiled from, which drivers do not keep */
      code_bytes,           /**< of machine code, as the driver tells it for plans with capture_statistics; 0: it does not */
      total_bytes;          /**< of workspace, parameters and machine code */
  uint32_t pipelines;       /**< that differ; those that several plans share count in each */
  uint32_t reserved; /**< 0 */
} vkattn_memory;
VKATTN_INIT_FUNCTIONS(vkattn_memory)
/** Fills `memory`, for which its init function was called, for a plan of any kind. */
VKATTN_API vkattn_result vkattn_plan_get_memory(const vkattn_plan* plan, vkattn_memory* memory, vkattn_error* error);

/** One number that a driver tells of a pipeline, such as registers or spills. */
typedef struct vkattn_statistic {
  char pipeline[32];      /**< the kernel, or what follows it */
  char name[96];          /**< the driver's words */
  double value;           /**< in what unit the name says; 1 and 0 for yes and no */
  uint32_t subgroup_size; /**< invocations, of the pipeline */
  uint32_t reserved; /**< 0 */
} vkattn_statistic;
/** Tells the driver's statistics of a plan of an operation that was made with capture_statistics and is compiled.
    Writes at most *count of them to `statistics` (which may be null) and sets *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_statistics(const vkattn_plan* plan, vkattn_statistic* statistics,
                                                    uint32_t* count, vkattn_error* error);

/** Where the word (uint32: 0 hidden, 1 mixed, 2 visible) of a block of the mask lies: BlockMaskLayout of
    vkattn/attention_plan.hpp, strides in words. */
typedef struct vkattn_block_mask_layout {
  uint32_t rows,    /**< of a block; 0: the plan has no block mask */
      keys,         /**< of a block */
      batch_stride, /**< 0 where blocks do not depend on the batch entry */
      head_stride,  /**< 0 where they do not depend on the KV head */
      row_stride;   /**< from a block of rows to the next: blocks along the keys */
} vkattn_block_mask_layout;
/** How a program's own block mask is laid out, for plans of attention that use one, and layers whose attention does. */
VKATTN_API vkattn_result vkattn_plan_get_block_mask_layout(const vkattn_plan* plan, vkattn_block_mask_layout* layout,
                                                           vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_PLAN_H */

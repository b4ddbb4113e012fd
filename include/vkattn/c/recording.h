/** @file
   Tensors, bindings, recording, and slices for frames. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_RECORDING_H
#define VKATTN_C_RECORDING_H

#include <vkattn/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Tensors and recording ----------------------------------------------------------------------------------------- */

/** Which tensor a range is bound as. Shapes are those of the descriptor. */
typedef uint32_t vkattn_tensor;
enum {
  VKATTN_TENSOR_QUERY = 0,                    /**< Q; of an append: the queries to rotate; of a layer: its input */
  VKATTN_TENSOR_KEY = 1,                      /**< K; of an append: its new rows; of a layer: the input of K */
  VKATTN_TENSOR_VALUE = 2,                    /**< V; of an append: its new rows; of a layer: the input of V */
  VKATTN_TENSOR_OUTPUT = 3,                   /**< O; written, but read by gradients of attention */
  VKATTN_TENSOR_LSE = 4,                      /**< float32; likewise */
  VKATTN_TENSOR_KV_LENGTHS = 5,               /**< int32, one per batch entry; written by appends and layers with a cache */
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
  VKATTN_TENSOR_QUERY_OUTPUT = 17,            /**< the rotated queries, written; this and those up to 23 of appends */
  VKATTN_TENSOR_CACHE_KEY = 18,               /**< K of the cache; its new rows are written; of layers with a cache too */
  VKATTN_TENSOR_CACHE_VALUE = 19,             /**< V of the cache, likewise */
  /** int32, one per batch entry: rows that the cache holds already; of layers with a cache too */
  VKATTN_TENSOR_POSITIONS = 20,
  VKATTN_TENSOR_NEW_LENGTHS = 21,             /**< int32, one per batch entry */
  VKATTN_TENSOR_CUMULATIVE_NEW_LENGTHS = 22,  /**< int32, batch + 1 */
  VKATTN_TENSOR_FREQUENCIES = 23,             /**< float32, rotary_dims / 2; of layers too */
  /** (parts, rows, value_dim); this and the next of merges, which write output and lse */
  VKATTN_TENSOR_PARTS = 24,
  VKATTN_TENSOR_PART_LSE = 25,                /**< float32 (parts, rows) */
  /** with the shape of O, or of a layer's output; this and those up to 32 of gradients */
  VKATTN_TENSOR_GRAD_OUTPUT = 26,
  VKATTN_TENSOR_GRAD_QUERY = 27,              /**< with the shape of Q, or of a layer's query; written */
  VKATTN_TENSOR_GRAD_KEY = 28,                /**< with the shape of K, or of a layer's key; written */
  VKATTN_TENSOR_GRAD_VALUE = 29,              /**< with the shape of V, or of a layer's value; written */
  VKATTN_TENSOR_GRAD_MASK = 30,               /**< grad_mask of attention's or a layer's gradients; written */
  VKATTN_TENSOR_GRAD_ALIBI_SLOPES = 31,       /**< float32, one per query head; written */
  VKATTN_TENSOR_GRAD_SINKS = 32,              /**< float32, one per query head; written */
  /** (batch, rows, inner); this and the next two of products, which write OUTPUT (batch, rows, columns) */
  VKATTN_TENSOR_A = 33,
  VKATTN_TENSOR_B = 34,                       /**< (batch, inner, columns) */
  VKATTN_TENSOR_BIAS = 35,                    /**< (columns) */
  /** W_Q, W_K and W_V, (outputs, inputs) as all weights; this and those below of layers */
  VKATTN_TENSOR_IN_PROJ_WEIGHT = 36,
  VKATTN_TENSOR_Q_PROJ_WEIGHT = 37,           /**< W_Q */
  VKATTN_TENSOR_K_PROJ_WEIGHT = 38,           /**< W_K */
  VKATTN_TENSOR_V_PROJ_WEIGHT = 39,           /**< W_V */
  VKATTN_TENSOR_IN_PROJ_BIAS = 40,            /**< b_Q, b_K and b_V */
  VKATTN_TENSOR_OUT_PROJ_WEIGHT = 41,         /**< W_O */
  VKATTN_TENSOR_OUT_PROJ_BIAS = 42,           /**< b_O */
  /** what gradients need of the forward pass, which writes it: vkattn_plan_tensor_range bytes from a multiple of 16 on */
  VKATTN_TENSOR_SAVED = 43,
  VKATTN_TENSOR_AVERAGED_WEIGHTS = 44,        /**< float32 (batch, query_length, kv_length); written */
  VKATTN_TENSOR_GRAD_IN_PROJ_WEIGHT = 45,     /**< the gradient of parameter 36; written, as all up to 51 */
  VKATTN_TENSOR_GRAD_Q_PROJ_WEIGHT = 46,      /**< of 37 */
  VKATTN_TENSOR_GRAD_K_PROJ_WEIGHT = 47,      /**< of 38 */
  VKATTN_TENSOR_GRAD_V_PROJ_WEIGHT = 48,      /**< of 39 */
  VKATTN_TENSOR_GRAD_IN_PROJ_BIAS = 49,       /**< of 40 */
  VKATTN_TENSOR_GRAD_OUT_PROJ_WEIGHT = 50,    /**< of 41 */
  VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS = 51,      /**< of 42 */
  /** dL/dlse of gradients of attention: float32, with the shape and strides of LSE */
  VKATTN_TENSOR_GRAD_LSE = 52
};

/** A part of a buffer that holds a tensor: `offset` is the byte of its first element. */
typedef struct vkattn_binding {
  vkattn_tensor tensor; /**< which it is */
  VkBuffer buffer;      /**< with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT */
  VkDeviceSize offset,  /**< in bytes */
      size;             /**< bytes from there: at least vkattn_plan_tensor_range() */
} vkattn_binding;

/** Bytes that the range of a tensor must have from `offset` on, equal on every device; 0: the plan does not use the
    tensor. */
VKATTN_API VkDeviceSize vkattn_plan_tensor_range(const vkattn_plan* plan, vkattn_tensor tensor, VkDeviceSize offset);

/** What one execution works on. A tensor that is written must not overlap another one or the workspace, unless a
    structure of a problem says that it may lie in place. Such executions are refused with the bytes of both. */
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
  /** how many tables score_buffers has: those of the score function, in its order; their `tensor` is not looked at */
  uint32_t score_buffer_count;
  /** each from a multiple of minStorageBufferOffsetAlignment on, of a size that is a multiple of 4 */
  const vkattn_binding* score_buffers;
} vkattn_execution;
VKATTN_INIT_FUNCTIONS(vkattn_execution)

/** Descriptor sets and parameters for one execution, used as often as wanted, by one thread at a time. */
typedef struct vkattn_bindings vkattn_bindings;
/** Makes bindings, from a pool of the caller's if `pool` is not null: then no other thread uses the pool meanwhile, and it
    outlives the bindings' last use. It must have room for vkattn_requirements.descriptor_sets sets of
    .storage_buffers storage buffers; they are never given back one by one: reset or destroy the pool. */
VKATTN_API vkattn_result vkattn_bindings_create(vkattn_plan* plan, const vkattn_execution* execution,
                                                VkDescriptorPool pool, vkattn_bindings** bindings,
                                                vkattn_error* error);
/** Points bindings at other tensors, while the device uses none of them. After an error they are as they were. */
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
  /** write timestamps into this pool of VK_QUERY_TYPE_TIMESTAMP, whose queries the caller has reset: one before the slice's
      first dispatch and one after each. Null: none */
  VkQueryPool timestamps;
  uint32_t first_timestamp;  /**< the first of these queries */
  uint32_t timestamp_reserved; /**< 0 */
} vkattn_record_options;
VKATTN_INIT_FUNCTIONS(vkattn_record_options)

/** Records the work outside of a render pass. No allocation, no wait, no lock. `options` may be null. */
VKATTN_API vkattn_result vkattn_record(vkattn_plan* plan, VkCommandBuffer commands, const vkattn_bindings* bindings,
                                       const vkattn_record_options* options, vkattn_error* error);
/** Records without bindings, for plans with push_descriptors. */
VKATTN_API vkattn_result vkattn_record_push(vkattn_plan* plan, VkCommandBuffer commands,
                                            const vkattn_execution* execution, const vkattn_record_options* options,
                                            vkattn_error* error);

/* --- Slices for frames ---------------------------------------------------------------------------------------------- */

/** Executions of several plans in a row, recorded as one, so that a slice may span plans: Sequence of
    vkattn/sequence.hpp. Used by one thread at a time, as its bindings are. */
typedef struct vkattn_sequence vkattn_sequence;
/** An execution of a sequence: SequenceItem of vkattn/sequence.hpp. */
typedef struct vkattn_sequence_item {
  vkattn_plan* plan;               /**< of any kind, compiled; it may be released once the sequence is made */
  const vkattn_bindings* bindings; /**< that it has made; they may be destroyed likewise */
  /** It reads nothing that was written before, and overwrites nothing that was read or written before, the workspace
      included: no barrier comes before it. 0: one does, as of vkattn_record_options.wait_for_earlier. */
  uint32_t is_independent;
  uint32_t reserved; /**< 0 */
} vkattn_sequence_item;
/** Makes a sequence of `count` items in their order, whose dispatches are numbered through. Refused: bindings that
    another plan made, a plan that is not compiled or on another VkDevice than the first. Bindings that are rewritten
    are rewritten for it too. */
VKATTN_API vkattn_result vkattn_sequence_create(const vkattn_sequence_item* items, uint32_t count,
                                                vkattn_sequence** sequence, vkattn_error* error);
/** Records a slice of all dispatches as vkattn_record does, with the items' barriers; all where `slice` is null. Slices
    are submitted in their order to one queue. No allocation, no wait, no lock. */
VKATTN_API vkattn_result vkattn_sequence_record(const vkattn_sequence* sequence, VkCommandBuffer commands,
                                                const vkattn_record_options* slice, vkattn_error* error);
/** Destroys it. Null is nothing; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_sequence_destroy(vkattn_sequence* sequence);

/** Deals the dispatches of a plan or a sequence out to frames, and learns from what they took: FrameBudget of
    vkattn/frame_budget.hpp. Used by one thread at a time. */
typedef struct vkattn_frame_budget vkattn_frame_budget;
/** Of a sequence, whose estimates it copies. */
VKATTN_API vkattn_result vkattn_frame_budget_create_sequence(const vkattn_sequence* sequence,
                                                             vkattn_frame_budget** budget, vkattn_error* error);
/** Of a plan, whose estimates it copies. */
VKATTN_API vkattn_result vkattn_frame_budget_create(const vkattn_plan* plan, vkattn_frame_budget** budget,
                                                    vkattn_error* error);
/** Sets first_dispatch and dispatch_count of `slice`, which has been initialized, to the next slice that should take
    no longer than `budget_ns` nanoseconds, with a reserve: one dispatch at least, alone where its pass was not measured
    yet, and none where all were given out. */
VKATTN_API vkattn_result vkattn_frame_budget_next(vkattn_frame_budget* budget, double budget_ns,
                                                  vkattn_record_options* slice, vkattn_error* error);
/** Tells what a slice took, in nanoseconds, by timestamps of the caller's, who may be some frames behind. Tell each
    slice once, whole. Slices as they were given also teach the reserve, so that about one in 250 takes longer than its
    budget. */
VKATTN_API vkattn_result vkattn_frame_budget_measured(vkattn_frame_budget* budget, const vkattn_record_options* slice,
                                                      double ns, vkattn_error* error);
/** What a slice is expected to take, in nanoseconds, without the reserve; below 0 where there is no such slice. */
VKATTN_API double vkattn_frame_budget_estimate(const vkattn_frame_budget* budget, const vkattn_record_options* slice);
/** 1 where all dispatches were given out, else 0. */
VKATTN_API uint32_t vkattn_frame_budget_is_done(const vkattn_frame_budget* budget);
/** Begin at the first dispatch again; what was learnt stays. */
VKATTN_API vkattn_result vkattn_frame_budget_restart(vkattn_frame_budget* budget);
/** Destroys it. Null is nothing; one that is not alive is refused. */
VKATTN_API vkattn_result vkattn_frame_budget_destroy(vkattn_frame_budget* budget);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_RECORDING_H */

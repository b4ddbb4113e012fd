/** @file
   The problem of attention, and the types that all problems share. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_PROBLEM_H
#define VKATTN_C_PROBLEM_H

#include <vkattn/c/result.h>

#ifdef __cplusplus
extern "C" {
#endif

#define VKATTN_UNSET INT64_MIN /**< a size that was not given: it follows from others where it can */
#define VKATTN_UNLIMITED (-1) /**< a side of a window without a bound */

/** How an element is stored. Arithmetic is float32 whatever the storage, unless vkattn_plan_options.arithmetic_type asks
    for another. */
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
  VKATTN_LENGTHS_UNIFORM = 0,   /**< every entry has the same number */
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

/** Attention with linear biases: slope[h] * |i + offset - j| is subtracted from the score, or slope[h] * mask added to it. */
typedef uint32_t vkattn_alibi_slopes;
enum {
  VKATTN_ALIBI_SLOPES_NONE = 0,     /**< nothing is subtracted */
  VKATTN_ALIBI_SLOPES_STANDARD = 1, /**< the paper's slopes, for any number of heads */
  VKATTN_ALIBI_SLOPES_GIVEN = 2,    /**< VKATTN_TENSOR_ALIBI_SLOPES */
  /** The same tensor; its numbers multiply an additive mask, and no distance is subtracted (max_bias of ggml). */
  VKATTN_ALIBI_SLOPES_TIMES_MASK = 3
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
  /** promised alignment of the first element: a power of two, 16 at first, or 0 for its size alone. Less costs speed */
  uint32_t alignment_bytes;
  const vkattn_strides* strides; /**< null: the strides of the layout */
} vkattn_tensor_desc;

/** Where K and V of a cache lie. */
typedef struct vkattn_cache_layout {
  vkattn_key_mapping mapping; /**< which of the sizes below count */
  int64_t ring_length;        /**< of a ring: rows of the tensors */
  int64_t page_size,          /**< of pages: rows of a page */
      page_count,             /**< of pages: pages of the tensors */
      page_table_stride;      /**< of pages: entries of the table for each batch entry */
} vkattn_cache_layout;

/** A score function of the user's own, compiled: by vkattn_score_function_compile or _load of vkattn/c/score_function.h. */
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
  vkattn_layout layout;                  /**< memory order of tensors without strides */
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
  const vkattn_strides* mask_strides;    /**< null: a mask that repeats along no dimension */
  int64_t window_left,                   /**< query i sees key j only from i + offset - left on */
      window_right;                      /**< and up to i + offset + right; VKATTN_UNLIMITED, as at first: no bound */
  vkattn_alibi_slopes alibi;             /**< which slopes */
  uint32_t has_sinks;                    /**< 1: VKATTN_TENSOR_SINKS */
  float dropout;                         /**< share of the probabilities that are dropped, 0 to 1; with 1 O is 0 */
  uint32_t has_lse;                      /**< 1: the log-sum-exp of each row is written */
  const vkattn_strides* lse_strides;     /**< null: (batch, head, row) without padding */
  vkattn_weights_stage weights;          /**< stage that is written: query_length x kv_length float32 per head */
  const vkattn_strides* weights_strides; /**< null: (batch, head, query, key) without padding */
  vkattn_score_function* score_function; /**< null: none. Plans keep a reference */
  int64_t mask_heads;                    /**< of the mask, a divisor of query_heads: head h reads h % mask_heads;
                                              not given: query_heads */
} vkattn_attention_desc;
VKATTN_INIT_FUNCTIONS(vkattn_attention_desc)

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_PROBLEM_H */

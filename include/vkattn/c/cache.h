/** @file
   Appends of new keys and values to a cache. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_CACHE_H
#define VKATTN_C_CACHE_H

#include <vkattn/c/plan.h>
#include <vkattn/c/supports.h>

#ifdef __cplusplus
extern "C" {
#endif

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
  vkattn_layout layout;             /**< memory order of tensors without strides */
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
  int64_t rotary_dims;              /**< how many first dims of a head are turned; even, from 2 to head_dim */
  double rotary_base,               /**< f[i] = position_scale * base^(-2i / dims) */
      rotary_position_scale;        /**< from above 0 to 1 */
  uint32_t rotary_has_frequencies;  /**< 1: f is VKATTN_TENSOR_FREQUENCIES */
  float rotary_magnitude;           /**< multiplies the rotated dims */
  uint32_t rotary_inverse;          /**< 1: pairs are turned back, as gradients of turned rows need */
  uint32_t reserved; /**< 0 */
} vkattn_append_desc;
VKATTN_INIT_FUNCTIONS(vkattn_append_desc)

/** Plans an append, as vkattn_plan_create_attention. */
VKATTN_API vkattn_result vkattn_plan_create_append(vkattn_device* device, const vkattn_append_desc* desc,
                                                   const vkattn_plan_options* options, vkattn_plan** plan,
                                                   vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_append(const vkattn_append_desc* desc, char* text, size_t* bytes,
                                                vkattn_error* error);
/** What an append gets on a device, as vkattn_supports_attention. */
VKATTN_API vkattn_result vkattn_supports_append(const vkattn_capabilities* capabilities, const vkattn_append_desc* desc,
                                                const vkattn_plan_options* options, vkattn_support* support,
                                                vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_CACHE_H */

/** @file
   Merges of results over parts of the keys. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_MERGE_H
#define VKATTN_C_MERGE_H

#include <vkattn/c/plan.h>
#include <vkattn/c/supports.h>

#ifdef __cplusplus
extern "C" {
#endif

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
VKATTN_INIT_FUNCTIONS(vkattn_merge_desc)

/** Plans a merge, as vkattn_plan_create_attention. */
VKATTN_API vkattn_result vkattn_plan_create_merge(vkattn_device* device, const vkattn_merge_desc* desc,
                                                  const vkattn_plan_options* options, vkattn_plan** plan,
                                                  vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_merge(const vkattn_merge_desc* desc, char* text, size_t* bytes,
                                               vkattn_error* error);
/** What a merge gets on a device, as vkattn_supports_attention. */
VKATTN_API vkattn_result vkattn_supports_merge(const vkattn_capabilities* capabilities, const vkattn_merge_desc* desc,
                                               const vkattn_plan_options* options, vkattn_support* support,
                                               vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_MERGE_H */

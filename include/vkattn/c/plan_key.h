/** @file
   What a cache of plans finds a plan by. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_PLAN_KEY_H
#define VKATTN_C_PLAN_KEY_H

#include <vkattn/c/backward.h>
#include <vkattn/c/matmul.h>
#include <vkattn/c/multi_head_attention.h>
#include <vkattn/c/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Writes a short text in ASCII, for a hash table, to `text` of *bytes, where that is enough, and sets *bytes to what it
    takes with the 0 at its end; `text` may be null. Equal for descriptors that are equal in every member and in all that
    these point to, different for others: plan_key() of vkattn/plan_key.hpp, which says what a key does not tell. @{ */
VKATTN_API vkattn_result vkattn_plan_key_attention(const vkattn_attention_desc* desc, char* text, size_t* bytes,
                                                   vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_append(const vkattn_append_desc* desc, char* text, size_t* bytes,
                                                vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_merge(const vkattn_merge_desc* desc, char* text, size_t* bytes,
                                               vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_backward(const vkattn_backward_desc* desc, char* text, size_t* bytes,
                                                  vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_matmul(const vkattn_matmul_desc* desc, char* text, size_t* bytes,
                                                vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_multi_head_attention(const vkattn_multi_head_attention_desc* desc, char* text,
                                                              size_t* bytes, vkattn_error* error);
VKATTN_API vkattn_result vkattn_plan_key_multi_head_attention_backward(
    const vkattn_multi_head_attention_backward_desc* desc, char* text, size_t* bytes, vkattn_error* error);
/** @} */

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_PLAN_KEY_H */

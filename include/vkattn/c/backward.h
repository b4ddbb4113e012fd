/** @file
   Gradients of attention, the backward pass of training. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_BACKWARD_H
#define VKATTN_C_BACKWARD_H

#include <vkattn/c/plan.h>
#include <vkattn/c/supports.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The gradients of a forward problem: BackwardDesc of vkattn/backward.hpp. With L a number that depends on O, and with
    has_grad_lse on the lse too, VKATTN_TENSOR_GRAD_OUTPUT is dL/dO, and those that are written are dL/dQ, dL/dK, …. Two
    runs with the same inputs give the same bits. Keys and values lie in one piece and are not quantised; there are no
    gradients through score functions. */
typedef struct vkattn_backward_desc {
  uint32_t struct_size;                   /**< set by the init function */
  const void* next;                       /**< null */
  /** as the forward pass was planned, with has_lse; must be given */
  const vkattn_attention_desc* attention;
  uint32_t has_grad_query,                /**< 1, as at first: VKATTN_TENSOR_GRAD_QUERY is written */
      has_grad_key,                       /**< likewise, VKATTN_TENSOR_GRAD_KEY */
      has_grad_value,                     /**< likewise, VKATTN_TENSOR_GRAD_VALUE */
      has_grad_mask,                      /**< 1: VKATTN_TENSOR_GRAD_MASK is written, of a mask of numbers */
      has_grad_alibi_slopes,              /**< 1: VKATTN_TENSOR_GRAD_ALIBI_SLOPES, of slopes GIVEN or TIMES_MASK */
      has_grad_sinks;                     /**< 1: VKATTN_TENSOR_GRAD_SINKS */
  const vkattn_tensor_desc* grad_output;  /**< float32, float16 or bfloat16; null: as the output, strides too */
  const vkattn_tensor_desc* grad_query;   /**< likewise; null: as the query. What is written must not overlap */
  const vkattn_tensor_desc* grad_key;     /**< likewise; null: as the key */
  const vkattn_tensor_desc* grad_value;   /**< likewise; null: as the value */
  /** float32 or float16 over (batch, query head, query, key), summed along dimensions with stride 0; null: as the mask */
  const vkattn_tensor_desc* grad_mask;
  uint32_t has_grad_lse;                  /**< 1: VKATTN_TENSOR_GRAD_LSE is read, as L depends on the lse too */
  uint32_t reserved; /**< 0 */
} vkattn_backward_desc;
VKATTN_INIT_FUNCTIONS(vkattn_backward_desc)

/** Plans the gradients of attention, as vkattn_plan_create_attention. An execution has the tensors of the forward pass,
    OUTPUT and LSE as it has written them, its dropout_seed and dropout_offset, and the gradients; what is written
    overlaps nothing. Gradients are written, not added to what is there. */
VKATTN_API vkattn_result vkattn_plan_create_backward(vkattn_device* device, const vkattn_backward_desc* desc,
                                                     const vkattn_plan_options* options, vkattn_plan** plan,
                                                     vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_backward(const vkattn_backward_desc* desc, char* text, size_t* bytes,
                                                  vkattn_error* error);
/** What gradients get on a device, as vkattn_supports_attention. */
VKATTN_API vkattn_result vkattn_supports_backward(const vkattn_capabilities* capabilities, const vkattn_backward_desc* desc,
                                                  const vkattn_plan_options* options, vkattn_support* support,
                                                  vkattn_error* error);

/** Every kernel of gradients, as vkattn_query_kernels_attention. */
VKATTN_API vkattn_result vkattn_query_kernels_backward(const vkattn_device* device, const vkattn_backward_desc* desc,
                                                       vkattn_kernel_support* kernels, uint32_t* count,
                                                       vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_BACKWARD_H */

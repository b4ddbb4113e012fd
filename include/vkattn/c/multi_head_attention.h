/** @file
   Multi-head attention as a layer: projections, attention, output projection, and its gradients. Part of
   vkattn/vkattn.h. */
#ifndef VKATTN_C_MULTI_HEAD_ATTENTION_H
#define VKATTN_C_MULTI_HEAD_ATTENTION_H

#include <vkattn/c/recording.h>
#include <vkattn/c/supports.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Which inputs a layer has. */
typedef uint32_t vkattn_layer_inputs;
enum {
  VKATTN_LAYER_INPUTS_SELF = 0,    /**< one: Q, K and V are projections of VKATTN_TENSOR_QUERY */
  VKATTN_LAYER_INPUTS_CROSS = 1,   /**< two: K and V are projections of VKATTN_TENSOR_KEY */
  VKATTN_LAYER_INPUTS_SEPARATE = 2 /**< three, as the arguments query, key and value of nn.MultiheadAttention */
};

/** A layer: MultiHeadAttentionDesc of vkattn/multi_head_attention.hpp, which has the formula. Inputs and output are
    (batch, length, elements of a row) without padding; of packed sequences (rows, elements). Parameters lie as PyTorch's
    nn.MultiheadAttention stores them: weights (outputs, inputs). */
typedef struct vkattn_multi_head_attention_desc {
  uint32_t struct_size;                   /**< set by the init function */
  const void* next;                       /**< null */
  /** the problem of the heads; must be given. Storage of Q, K, V and O, and has_lse, stay at their defaults; with a cache
      layout, key and value are those of the cache. head_dim not given: d_model / query_heads. kv_length not given where
      K and V are of the query: query_length */
  const vkattn_attention_desc* attention;
  int64_t d_model;                        /**< elements of a row of query and output; must be given */
  int64_t key_input_dim;                  /**< of a row of key; not given: d_model */
  int64_t value_input_dim;                /**< of a row of value; not given: key_input_dim with CROSS inputs, else d_model */
  vkattn_layer_inputs inputs;             /**< which tensors the projections read */
  uint32_t packed_weights;                /**< 1, as at first: W_Q, W_K and W_V are one tensor */
  uint32_t has_input_bias,                /**< 1, as at first: VKATTN_TENSOR_IN_PROJ_BIAS */
      has_output_bias;                    /**< 1, as at first: VKATTN_TENSOR_OUT_PROJ_BIAS */
  vkattn_data_type type;                  /**< of inputs and output: float32, float16 or bfloat16 */
  uint32_t alignment_bytes;               /**< as promised of inputs, output, parameters and gradients; 16 at first */
  const vkattn_data_type* parameter_type; /**< of weights and biases likewise; null: `type` */
  /** of Q and K before attention, of VKATTN_LAYER_INPUTS_SELF; members as those of vkattn_append_desc. Positions are counted
      from 0 in each batch entry, or from VKATTN_TENSOR_POSITIONS where there is a cache */
  vkattn_rotary_style rotary_style;
  uint32_t rotary_has_frequencies;        /**< 1: VKATTN_TENSOR_FREQUENCIES */
  int64_t rotary_dims;                    /**< how many first dims of a head are turned; even, from 2 to head_dim */
  double rotary_base,                     /**< f[i] = position_scale * base^(-2i / dims) */
      rotary_position_scale;              /**< from above 0 to 1 */
  float rotary_magnitude;                 /**< multiplies the rotated dims */
  uint32_t rotary_inverse;                /**< 1: pairs are turned back */
  /** 1, of VKATTN_LAYER_INPUTS_SELF: K and V are appended to a cache of kv_length rows, which is attended: CACHE_KEY,
      CACHE_VALUE, POSITIONS (rows that it holds already) and KV_LENGTHS, which is written and may be POSITIONS itself.
      Causality and windows take VKATTN_ALIGN_BOTTOM_RIGHT */
  uint32_t has_cache;
  /** 1: VKATTN_TENSOR_AVERAGED_WEIGHTS, the mean over the query heads. Of each head: attention->weights */
  uint32_t has_averaged_weights;
  uint32_t adds_to_output;                /**< 1: the output's previous content is added, as in a residual connection */
  uint32_t saves_for_gradients;           /**< 1: VKATTN_TENSOR_SAVED is written for the backward pass */
  const vkattn_data_type* weight_type;    /**< of weights alone, also q8_0 or q4_0 without gradients; null: parameter_type */
} vkattn_multi_head_attention_desc;
VKATTN_INIT_FUNCTIONS(vkattn_multi_head_attention_desc)

/** Plans a layer's forward pass, as vkattn_plan_create_attention; it is recorded with bindings. Options that both passes
    of a layer take may be the same for both. kernel, tile, kv_splits, strict_nonfinite, arithmetic_type, refusals and
    capture_statistics are of the attention in its forward pass, matmul_kernel and matmul_refusals of its products. */
VKATTN_API vkattn_result vkattn_plan_create_multi_head_attention(vkattn_device* device,
                                                                 const vkattn_multi_head_attention_desc* desc,
                                                                 const vkattn_plan_options* options,
                                                                 vkattn_plan** plan, vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_multi_head_attention(const vkattn_multi_head_attention_desc* desc, char* text,
                                                              size_t* bytes, vkattn_error* error);
/** Refuses: ask for the products, the attention and the appends that a layer is made of. */
VKATTN_API vkattn_result vkattn_supports_multi_head_attention(const vkattn_capabilities* capabilities,
                                                              const vkattn_multi_head_attention_desc* desc,
                                                              const vkattn_plan_options* options, vkattn_support* support,
                                                              vkattn_error* error);

/** The gradients of a layer: MultiHeadAttentionBackwardDesc of vkattn/multi_head_attention.hpp. With L a number that
    depends on the output alone, VKATTN_TENSOR_GRAD_OUTPUT is dL/doutput. */
typedef struct vkattn_multi_head_attention_backward_desc {
  uint32_t struct_size;                            /**< set by the init function */
  const void* next;                                /**< null */
  /** as the forward pass was planned, with saves_for_gradients; must be given */
  const vkattn_multi_head_attention_desc* forward;
  /** 1, as at first: VKATTN_TENSOR_GRAD_QUERY is written, of VKATTN_LAYER_INPUTS_SELF all of the input's */
  uint32_t has_grad_query,
      has_grad_key,                                /**< likewise, where the layer has this input */
      has_grad_value,                              /**< likewise */
      has_grad_parameters;                         /**< 1, as at first: the gradients of all parameters are written */
  uint32_t adds_to_inputs;                         /**< 1: what GRAD_QUERY, GRAD_KEY and GRAD_VALUE hold is added */
  uint32_t adds_to_parameters;                     /**< 1: likewise of parameters, for sums over several batches */
  /** of the parameters' gradients: float32, float16 or bfloat16; null: parameter_type */
  const vkattn_data_type* grad_parameter_type;
  uint32_t has_grad_mask,                          /**< 1: VKATTN_TENSOR_GRAD_MASK is written, of a mask of numbers */
      has_grad_alibi_slopes,                       /**< 1: VKATTN_TENSOR_GRAD_ALIBI_SLOPES, of slopes GIVEN or TIMES_MASK */
      has_grad_sinks;                              /**< 1: VKATTN_TENSOR_GRAD_SINKS */
  /** over (batch, head, query, key), summed along a dimension with stride 0; float32 or float16; null: as the mask */
  const vkattn_tensor_desc* grad_mask;
} vkattn_multi_head_attention_backward_desc;
VKATTN_INIT_FUNCTIONS(vkattn_multi_head_attention_backward_desc)

/** Plans a layer's gradients, as above. An execution has the tensors of the forward pass, with VKATTN_TENSOR_SAVED as it
    has written it and without its outputs, and the gradients; what is written overlaps nothing. matmul_kernel and
    matmul_refusals are of its products, backward_kernel and backward_refusals of the gradients of its attention. */
VKATTN_API vkattn_result vkattn_plan_create_multi_head_attention_backward(
    vkattn_device* device, const vkattn_multi_head_attention_backward_desc* desc, const vkattn_plan_options* options,
    vkattn_plan** plan, vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_multi_head_attention_backward(
    const vkattn_multi_head_attention_backward_desc* desc, char* text, size_t* bytes, vkattn_error* error);
/** Refuses, as vkattn_supports_multi_head_attention. */
VKATTN_API vkattn_result vkattn_supports_multi_head_attention_backward(const vkattn_capabilities* capabilities,
                                                                       const vkattn_multi_head_attention_backward_desc* desc,
                                                                       const vkattn_plan_options* options,
                                                                       vkattn_support* support,
                                                                       vkattn_error* error);

/** What a step of a layer computes. */
typedef uint32_t vkattn_step_kind;
enum {
  VKATTN_STEP_KIND_MATMUL = 0,    /**< a product: matmul_kernel and matmul_refusals of the layer's options are of it */
  VKATTN_STEP_KIND_ATTENTION = 1, /**< kernel and refusals are of it */
  VKATTN_STEP_KIND_BACKWARD = 2,  /**< gradients of attention: backward_kernel and backward_refusals are of it */
  VKATTN_STEP_KIND_APPEND = 3     /**< new rows of a cache, or rotary embedding: it has one kernel and no choice */
};
/** A plan that a layer is made of. */
typedef struct vkattn_layer_step {
  char name[64];         /**< as vkattn_plan_describe of the layer has it: projection to Q K V, attention, ... */
  vkattn_plan* plan;     /**< shares its pipelines with the layer; a handle of its own, released by the caller */
  vkattn_step_kind kind; /**< what it computes */
  uint32_t reserved;     /**< 0 */
} vkattn_layer_step;
/** Gives the plans that a layer, or its gradients, is made of, in the order in which they are recorded; an error for other
    plans. Writes at most *count of them to `steps` (which may be null), each with a handle to release, and sets
    *count to how many there are. */
VKATTN_API vkattn_result vkattn_plan_get_steps(const vkattn_plan* plan, vkattn_layer_step* steps, uint32_t* count,
                                               vkattn_error* error);

/** A parameter of a layer. */
typedef struct vkattn_parameter {
  /** as nn.MultiheadAttention's state_dict has it, such as out_proj.weight; lives as long as the library */
  const char* name;
  vkattn_tensor tensor,   /**< that it is bound as */
      gradient;           /**< that its gradient is bound as */
  int64_t rows,           /**< outputs; of a bias its elements */
      columns;            /**< inputs; 0 of a bias, which has one dimension */
} vkattn_parameter;
/** Tells the parameters of a layer. Writes at most *count of them to `parameters` (which may be null) and sets *count to
    how many there are. */
VKATTN_API vkattn_result vkattn_query_parameters(const vkattn_multi_head_attention_desc* desc,
                                                 vkattn_parameter* parameters, uint32_t* count, vkattn_error* error);

/** Distributions of first values, Xavier's and He's: Initialisation of vkattn/initialisation.hpp. */
typedef uint32_t vkattn_initialisation;
enum {
  VKATTN_INITIALISATION_XAVIER_UNIFORM = 0, /**< from -b to b, b = sqrt(6 / (fan_in + fan_out)) */
  VKATTN_INITIALISATION_XAVIER_NORMAL = 1,  /**< standard deviation sqrt(2 / (fan_in + fan_out)) */
  VKATTN_INITIALISATION_HE_UNIFORM = 2,     /**< from -b to b, b = sqrt(6 / fan_in) */
  VKATTN_INITIALISATION_HE_NORMAL = 3       /**< standard deviation sqrt(2 / fan_in) */
};
/** Fills `values` with the first values of a parameter, the same on every platform: a weight has its columns as fan_in
    and its rows as fan_out, a bias is 0. The name (which may be null) counts as the seed does: one seed for all
    parameters of a layer gives each numbers of its own, and so does the next seed. `count` is rows * columns, or rows for
    a bias. Any thread may call this; it runs on the host. */
VKATTN_API vkattn_result vkattn_initial_values(const vkattn_parameter* parameter, vkattn_initialisation how,
                                               uint64_t seed, float* values, size_t count, vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_MULTI_HEAD_ATTENTION_H */

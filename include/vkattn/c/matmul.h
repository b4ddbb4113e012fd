/** @file
   Matrix multiplication for the projections around attention. Part of vkattn/vkattn.h. */
#ifndef VKATTN_C_MATMUL_H
#define VKATTN_C_MATMUL_H

#include <vkattn/c/plan.h>
#include <vkattn/c/supports.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Plain values; they will not change. */

/** Distances in elements between neighbours of a batch of matrices; never negative. */
typedef struct vkattn_matrix_strides {
  int64_t batch, /**< between matrices */
      row,       /**< between the rows of a matrix */
      column;    /**< between the elements of a row */
} vkattn_matrix_strides;

/** Storage of a batch of matrices: MatrixDesc of vkattn/matmul.hpp. */
typedef struct vkattn_matrix_desc {
  vkattn_data_type type;                /**< float32, float16 or bfloat16; of `b` also Q8_0 or Q4_0 */
  /** promised alignment of the first element: a power of two, 16 at first, or 0 for its size alone */
  uint32_t alignment_bytes;
  /** null: (batch, row, column) without padding. Q8_0 and Q4_0 have blocks along `inner`: there b is (batch, column, row),
      as weights (outputs, inputs) are stored, with a row stride of 1 and others that are multiples of 32 */
  const vkattn_matrix_strides* strides;
} vkattn_matrix_desc;

/** output = a b + bias for each batch entry: MatmulDesc of vkattn/matmul.hpp. Sums are float32. Transposed matrices are
    strides, so of Y = X W + b the gradients are products too: dX = dY W^T with W's strides exchanged, dW = X^T dY with
    X's, and db with a_is_ones, one row, and dY as b. */
typedef struct vkattn_matmul_desc {
  uint32_t struct_size;       /**< set by the init function */
  const void* next;           /**< null */
  int64_t batch,              /**< products; 1 at first */
      rows,                   /**< of a and output; must be given */
      columns,                /**< of b and output; must be given */
      inner;                  /**< columns of a, rows of b; must be given. 0: the sums are 0 */
  vkattn_matrix_desc a,       /**< (batch, rows, inner): VKATTN_TENSOR_A */
      b,                      /**< (batch, inner, columns): VKATTN_TENSOR_B */
      output;                 /**< (batch, rows, columns): VKATTN_TENSOR_OUTPUT */
  uint32_t has_bias;          /**< 1: VKATTN_TENSOR_BIAS, `columns` elements side by side, is added to each row */
  vkattn_data_type bias_type; /**< float32, float16 or bfloat16 */
  uint32_t accumulates;       /**< 1: the previous content of output is added too */
  uint32_t a_is_ones;         /**< 1: a is all ones and has no tensor, so that the columns of b are summed */
} vkattn_matmul_desc;
VKATTN_INIT_FUNCTIONS(vkattn_matmul_desc)

/** Plans a matrix multiplication, as vkattn_plan_create_attention. The output overlaps no other tensor. */
VKATTN_API vkattn_result vkattn_plan_create_matmul(vkattn_device* device, const vkattn_matmul_desc* desc,
                                                   const vkattn_plan_options* options, vkattn_plan** plan,
                                                   vkattn_error* error);
/** The key of such a problem, as vkattn_plan_key_attention. */
VKATTN_API vkattn_result vkattn_plan_key_matmul(const vkattn_matmul_desc* desc, char* text, size_t* bytes,
                                                vkattn_error* error);
/** What a product gets on a device, as vkattn_supports_attention. */
VKATTN_API vkattn_result vkattn_supports_matmul(const vkattn_capabilities* capabilities, const vkattn_matmul_desc* desc,
                                                const vkattn_plan_options* options, vkattn_support* support,
                                                vkattn_error* error);

/** Every kernel of products, as vkattn_query_kernels_attention. */
VKATTN_API vkattn_result vkattn_query_kernels_matmul(const vkattn_device* device, const vkattn_matmul_desc* desc,
                                                     vkattn_kernel_support* kernels, uint32_t* count,
                                                     vkattn_error* error);

#ifdef __cplusplus
}
#endif

#endif /* VKATTN_C_MATMUL_H */

// Loads of matrices from memory by tensor addressing (VK_NV_cooperative_matrix2), from rows of dense dims. A tensor's base
// is the start of a head in units of uvec4, so it must be a multiple of 16 bytes. The matrix's rows and dims are a slice
// behind the base, which may start anywhere.
#ifndef VKATTN_LIB_MATRIX2_LOADS
#define VKATTN_LIB_MATRIX2_LOADS

#include "lib/matrix_forms.glsl"

#extension GL_NV_cooperative_matrix2 : require

// A row stride must not be below the row's length, even if there is only one row. The multiplication by 8 shows the
// compiler that the stride is a multiple of 8, which allows wide loads.
uint tensor_row_stride(uint stride, uint dims, bool loads8) {
  return loads8 ? max(stride / 8u, (dims + 7u) / 8u) * 8u : max(stride, dims);
}

// MATRIX = rows FIRST .. FIRST + ROWS - 1 and dims FIRST_DIM .. FIRST_DIM + BLOCK_DIMS - 1 of END rows of DIMS dims behind the
// element BASE of QUADS; VIEW is AS_IT_IS or TRANSPOSED. A macro, as a function cannot take a buffer.
#define VKATTN_LOAD_TENSOR(MATRIX, CLAMP, QUADS, BASE, ROW_STRIDE, DIMS, END, FIRST, ROWS, FIRST_DIM, BLOCK_DIMS, VIEW) \
  {                                                                                                                    \
    const uint row_stride = ROW_STRIDE;                                                                                \
    tensorLayoutNV<2, CLAMP> layout_of_head = createTensorLayoutNV(2, CLAMP);                                          \
    layout_of_head = setTensorLayoutDimensionNV(layout_of_head, END, DIMS);                                            \
    layout_of_head = setTensorLayoutStrideNV(layout_of_head, row_stride, 1);                                           \
    layout_of_head = sliceTensorLayoutNV(layout_of_head, FIRST, ROWS, FIRST_DIM, BLOCK_DIMS);                          \
    coopMatLoadTensorNV(MATRIX, QUADS, (BASE) >> 3, layout_of_head VKATTN_VIEW_##VIEW);                                \
  }
#define VKATTN_VIEW_AS_IT_IS
#define VKATTN_VIEW_TRANSPOSED , createTensorViewNV(2, false, 1, 0)

#endif

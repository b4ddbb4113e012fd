// The matrices of the matrix2 kernel, their specialization constants, and loads of workgroup-scope matrices from memory.
#ifndef VKATTN_MATRIX2_MATRICES
#define VKATTN_MATRIX2_MATRICES

#include "lib/grid.glsl"
#include "lib/matrix_forms.glsl"
#include "lib/matrix2_loads.glsl"
#include "lib/tensors.glsl"

#extension GL_NV_cooperative_matrix2 : require

// Matrices of workgroup scope are loaded by tensor addressing. Matrices of the staged form have subgroup scope, and are
// loaded from shared memory.
#if VKATTN_STAGED
#define VKATTN_MATRIX2_SCOPE gl_ScopeSubgroup
#else
#define VKATTN_MATRIX2_SCOPE gl_ScopeWorkgroup
#endif

// The defaults are sizes that devices list, as validation layer 1.4.309 checks them in place of the values in force.
layout(local_size_x = 128, local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_MATRIX2_ROWS) const uint kRows = 32;
layout(constant_id = VKATTN_SPEC_MATRIX2_KEYS) const uint kKeys = 32;
layout(constant_id = VKATTN_SPEC_MATRIX2_HEAD_BLOCK) const uint kHeadBlock = 32;    // dims of one matrix of Q or K
layout(constant_id = VKATTN_SPEC_MATRIX2_VALUE_BLOCK) const uint kValueBlock = 32;  // dims of one matrix of V or O
layout(constant_id = VKATTN_SPEC_MATRIX2_ROW_COLUMNS) const uint kRowColumns = 32;
// Blocks of head dims of which queries stay in registers. The workgroup-scope form holds all.
layout(constant_id = VKATTN_SPEC_MATRIX2_HELD_BLOCKS) const uint kHeldBlocks = 1;
layout(constant_id = VKATTN_SPEC_MATRIX2_QUERY_TENSOR) const bool kQueryTensor = false;
layout(constant_id = VKATTN_SPEC_MATRIX2_KEY_LOADS8) const bool kKeyLoads8 = false;
layout(constant_id = VKATTN_SPEC_MATRIX2_VALUE_LOADS8) const bool kValueLoads8 = false;

const uint kHeadBlocks = (kHeadDim + kHeadBlock - 1) / kHeadBlock;
const uint kValueBlocks = (kValueDim + kValueBlock - 1) / kValueBlock;

#define QueryMatrix coopmat<VKATTN_MATRIX_ELEMENT, VKATTN_MATRIX2_SCOPE, kRows, kHeadBlock, gl_MatrixUseA>
#define KeyMatrix coopmat<VKATTN_MATRIX_ELEMENT, VKATTN_MATRIX2_SCOPE, kHeadBlock, kKeys, gl_MatrixUseB>
#define ScoreMatrix coopmat<float, VKATTN_MATRIX2_SCOPE, kRows, kKeys, gl_MatrixUseAccumulator>
#define ProbabilityMatrix coopmat<VKATTN_MATRIX_ELEMENT, VKATTN_MATRIX2_SCOPE, kRows, kKeys, gl_MatrixUseA>
#define ValueMatrix coopmat<VKATTN_MATRIX_ELEMENT, VKATTN_MATRIX2_SCOPE, kKeys, kValueBlock, gl_MatrixUseB>
#define SumMatrix coopmat<float, VKATTN_MATRIX2_SCOPE, kRows, kValueBlock, gl_MatrixUseAccumulator>
// A number of each row, equal in all columns.
#define RowMatrix coopmat<float, VKATTN_MATRIX2_SCOPE, kRows, kRowColumns, gl_MatrixUseAccumulator>
#if !VKATTN_STAGED
// Queries that a function fetches: accumulators can be converted to operands.
#define FetchedMatrix coopmat<float, VKATTN_MATRIX2_SCOPE, kRows, kHeadBlock, gl_MatrixUseAccumulator>

// This is a macro, as a function cannot take a buffer.
#define VKATTN_LOAD_HEAD(MATRIX, NAME, CLAMP, BATCH, HEAD, DIMS, LOADS8, END, FIRST, ROWS, FIRST_DIM, BLOCK_DIMS, VIEW) \
  VKATTN_LOAD_TENSOR(MATRIX, CLAMP, NAME##_quads, NAME##_row(BATCH, HEAD, 0u),                                         \
                     tensor_row_stride(params.NAME##_row_stride, DIMS, LOADS8), DIMS, END, FIRST, ROWS, FIRST_DIM,     \
                     BLOCK_DIMS, VIEW)

// Keys from key_end on are never read: zeros stand for them, and for dims beyond the last. A tile without such keys and
// dims is loaded without a test.
void load_keys(out KeyMatrix keys, uint batch, uint kv_head, uint first_key, uint key_end, uint block, bool whole) {
  if (whole && kHeadDim % kHeadBlock == 0) {
    VKATTN_LOAD_HEAD(keys, key, gl_CooperativeMatrixClampModeUndefinedNV, batch, kv_head, kHeadDim, kKeyLoads8,
                       key_end, first_key, kKeys, block * kHeadBlock, kHeadBlock, TRANSPOSED)
  } else {
    VKATTN_LOAD_HEAD(keys, key, gl_CooperativeMatrixClampModeConstantNV, batch, kv_head, kHeadDim, kKeyLoads8,
                       key_end, first_key, kKeys, block * kHeadBlock, kHeadBlock, TRANSPOSED)
  }
}

void load_values(out ValueMatrix values, uint batch, uint kv_head, uint first_key, uint key_end, uint block,
                 bool whole) {
  if (whole && kValueDim % kValueBlock == 0) {
    VKATTN_LOAD_HEAD(values, value, gl_CooperativeMatrixClampModeUndefinedNV, batch, kv_head, kValueDim, kValueLoads8,
                       key_end, first_key, kKeys, block * kValueBlock, kValueBlock, AS_IT_IS)
  } else {
    VKATTN_LOAD_HEAD(values, value, gl_CooperativeMatrixClampModeConstantNV, batch, kv_head, kValueDim, kValueLoads8,
                       key_end, first_key, kKeys, block * kValueBlock, kValueBlock, AS_IT_IS)
  }
}

void load_query_tensor(out QueryMatrix queries, uint batch, uint head, uint first_row, uint block) {
  VKATTN_LOAD_HEAD(queries, query, gl_CooperativeMatrixClampModeConstantNV, batch, head, kHeadDim, true,
                     visible_query_length(), first_row, kRows, block * kHeadBlock, kHeadBlock, AS_IT_IS)
}

// An element of the packed rows from first_row on. The last row stands for rows beyond it; they are not stored.
float fetch_query(const in uint row, const in uint dim, const in float element, const in uint batch,
                  const in uint kv_head, const in uint first_row, const in uint first_dim) {
  if (first_dim + dim >= kHeadDim) return 0.0;
  const uint packed = min(first_row + row, packed_row_count() - 1u);
  return query_at(query_row(batch, packed_head(kv_head, packed), packed_query(packed)), first_dim + dim);
}

// Loads one block of dims of the packed rows from first_row on. If each KV head has one query head, these are rows of
// memory. Rows of several heads are fetched by element, once for all keys.
void load_queries(out QueryMatrix queries, TilePosition tile, uint block) {
  if (kQueryTensor) {
    load_query_tensor(queries, tile.batch, tile.kv_head, tile.first_row, block);
  } else {
    FetchedMatrix fetched = FetchedMatrix(0.0);
    coopMatPerElementNV(fetched, fetched, fetch_query, tile.batch, tile.kv_head, tile.first_row, block * kHeadBlock);
    queries = QueryMatrix(fetched);
  }
}
#endif

#endif

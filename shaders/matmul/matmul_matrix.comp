// Matrix multiplication on matrix units (VK_KHR_cooperative_matrix): a workgroup computes a block of rows and columns
// of the output, kInner elements of the inner dimension a step, which it stages in shared memory.
//
//   kSubgroups subgroups are a grid of kGridColumns columns:
//
//                     kColumns columns         kColumns columns
//                   +------------------------+------------------------+
//   kRows rows      | subgroup 0: kRowBlocks | subgroup 1             |
//                   | x kColumnBlocks sums   |                        |
//                   +------------------------+------------------------+
//   kRows rows      | subgroup 2             | subgroup 3             |
//                   +------------------------+------------------------+
//
// Budget. Example: 4 subgroups of 32 lanes, matrices of 16x16x16, 64 rows x 64 columns, kInner = 32; a by rows, b by
// rows.
//   registers      of a lane: kRows * kColumns / 32 sums + 4 * (a_fetches + b_fetches) of the next step + (kRows + kN)
//                  * kK / (2 * 32) operands = 128 + 32 + 20
//   shared memory  16 * (VKATTN_MATMUL_MATRIX_STAGE4 of a + of b) + 4 * VKATTN_MATMUL_RESULT_STAGE bytes
//                  = 16 * (128 * 5 + 32 * 17) + 4 * 1024 = 23,040
//   memory         each multiply-add reads 2 / kBlockColumns bytes of a + 2 / kBlockRows of b = 1/64 + 1/64
//   stages         each multiply-add reads 2 / kColumns bytes of a + 2 / kRows of b = 1/32 + 1/32
//
// Operands are staged as they are stored, lines along whichever dimension is dense in memory. They are 16-bit, sums
// float32.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/matrix_barriers.glsl"
#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "shared/shared_memory.h"

// The defaults are a shape that lavapipe lists: validation layer 1.4.309 checks them in place of the values in force.
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_M) const uint kM = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_N) const uint kN = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_K) const uint kK = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_SUBGROUP_SIZE) const uint kSubgroupSize = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_GRID_COLUMNS) const uint kGridColumns = 1;
layout(constant_id = VKATTN_MATMUL_SPEC_A_LOADS8) const bool kALoads8 = false;
layout(constant_id = VKATTN_MATMUL_SPEC_B_LOADS8) const bool kBLoads8 = false;

const uint kSubgroups = kWorkgroupSize / kSubgroupSize;
const uint kBlockRows = kSubgroups / kGridColumns * kRows;
const uint kBlockColumns = kGridColumns * kColumns;
const uint kRowBlocks = kRows / kM;  // of a subgroup
const uint kColumnBlocks = kColumns / kN;
const uint kInnerBlocks = kInner / kK;

#define MatrixA coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define MatrixB coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

Block block;
MatrixC sums[kRowBlocks * kColumnBlocks];
shared float result_stage[VKATTN_MATMUL_RESULT_STAGE(kSubgroups, kM, kN)];

// For each operand NAME, whose BLOCK outer elements are staged:
//   void find_NAME()                 where this thread's vectors of 8 lie
//   void fetch_NAME(inner, whole)    to registers; all of them before the first is written, so that latencies overlap
//   void stage_NAME()                from there to shared memory
// Vectors lie along the inner dimension, or with VKATTN_MATMUL_LOADS_OUTER along the other. Outer elements behind the last
// repeat others, as nothing of theirs is stored; inner ones are zeros (`whole`: there are none).
#define VKATTN_MATMUL_STAGE(NAME, LOADS, LOADS8, BLOCK, SIZE, FIRST)                                             \
  const bool NAME##_by_outer = LOADS == VKATTN_MATMUL_LOADS_OUTER;                                               \
  const uint NAME##_line8 = (NAME##_by_outer ? BLOCK : kInner) / 8;                                              \
  const uint NAME##_stride8 = VKATTN_MATRIX_STRIDE(NAME##_by_outer ? BLOCK : kInner);                            \
  const uint NAME##_vectors = BLOCK * kInner / 8;                                                                \
  const uint NAME##_fetches = (NAME##_vectors + kWorkgroupSize - 1) / kWorkgroupSize;                            \
  shared uvec4 NAME##_stage[VKATTN_MATMUL_MATRIX_STAGE4(NAME##_by_outer ? kInner : BLOCK,                        \
                                                        NAME##_by_outer ? BLOCK : kInner)];                      \
  uvec4 NAME##_fetched[NAME##_fetches];                                                                          \
  uint NAME##_source[NAME##_fetches];                                                                            \
  uint NAME##_second[NAME##_fetches]; /* the distance of elements 4 to 7 */                                      \
                                                                                                                 \
  uint NAME##_vector(uint n) { return min(gl_LocalInvocationIndex + n * kWorkgroupSize, NAME##_vectors - 1u); }  \
  uint NAME##_line(uint n) { return NAME##_vector(n) / NAME##_line8; }                                           \
  uint NAME##_along(uint n) { return NAME##_vector(n) % NAME##_line8 * 8u; }                                     \
  uint NAME##_vector_inner(uint n) { return NAME##_by_outer ? NAME##_line(n) : NAME##_along(n); }                \
                                                                                                                 \
  void find_##NAME() {                                                                                           \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) {                                                       \
      const uint outer = FIRST + (NAME##_by_outer ? NAME##_along(n) : NAME##_line(n));                           \
      const uint existing = min(outer, NAME##_by_outer ? SIZE - (LOADS8 ? 8u : 4u) : SIZE - 1u);                 \
      NAME##_source[n] = NAME##_outer(block.batch, existing);                                                    \
      NAME##_second[n] = NAME##_by_outer && existing + 4u >= SIZE ? 0u : 4u;                                     \
    }                                                                                                            \
  }                                                                                                              \
                                                                                                                 \
  uvec4 NAME##_dense8(uint index, uint second) {                                                                 \
    if (LOADS8) return VKATTN_LOAD4(NAME, index >> 3);                                                           \
    return uvec4(VKATTN_LOAD2(NAME, index >> 2), VKATTN_LOAD2(NAME, (index + second) >> 2));                     \
  }                                                                                                              \
                                                                                                                 \
  /* One element of the inner dimension, 0 behind the last. */                                                   \
  uint NAME##_bits(uint source, uint inner) {                                                                    \
    const uint last = block.inner_end - 1u;                                                                      \
    const uint bits = VKATTN_HALF_BITS(NAME, source + min(inner, last) * params.NAME##_inner_stride);            \
    return inner <= last ? bits : 0u;                                                                            \
  }                                                                                                              \
  uint NAME##_bits2(uint source, uint inner) {                                                                   \
    return NAME##_bits(source, inner) | NAME##_bits(source, inner + 1u) << 16;                                   \
  }                                                                                                              \
                                                                                                                 \
  uvec4 NAME##_vector8(uint n, uint inner, bool whole) {                                                         \
    const uint at = inner + NAME##_vector_inner(n);                                                              \
    const uint source = NAME##_source[n];                                                                        \
    if (NAME##_by_outer) {                                                                                       \
      const uint last = block.inner_end - 1u;                                                                    \
      const uvec4 bits = NAME##_dense8(source + min(at, last) * params.NAME##_inner_stride, NAME##_second[n]);   \
      return whole ? bits : mix(uvec4(0u), bits, bvec4(at <= last));                                             \
    }                                                                                                            \
    if (whole && LOADS == VKATTN_MATMUL_LOADS_INNER) return NAME##_dense8(source + at, 4u);                      \
    return uvec4(NAME##_bits2(source, at), NAME##_bits2(source, at + 2u), NAME##_bits2(source, at + 4u),         \
                 NAME##_bits2(source, at + 6u));                                                                 \
  }                                                                                                              \
                                                                                                                 \
  void fetch_##NAME(uint inner, bool whole) {                                                                    \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) NAME##_fetched[n] = NAME##_vector8(n, inner, whole);    \
  }                                                                                                              \
                                                                                                                 \
  void stage_##NAME() {                                                                                          \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) {                                                       \
      const bool is_own = NAME##_vectors % kWorkgroupSize == 0 ||                                                \
                          gl_LocalInvocationIndex + n * kWorkgroupSize < NAME##_vectors;                         \
      if (is_own) NAME##_stage[NAME##_line(n) * NAME##_stride8 + NAME##_along(n) / 8u] = NAME##_fetched[n];      \
    }                                                                                                            \
  }

VKATTN_MATMUL_STAGE(a, kALoads, kALoads8, kBlockRows, params.rows, block.first_row)
VKATTN_MATMUL_STAGE(b, kBLoads, kBLoads8, kBlockColumns, params.columns, block.first_column)

uint subgroup_row;  // the subgroup's first row and column in the block
uint subgroup_column;

void fetch(uint inner) {
  const bool whole = inner + kInner <= block.inner_end;
  if (whole) {
    fetch_a(inner, true);
    fetch_b(inner, true);
  } else {
    fetch_a(inner, false);
    fetch_b(inner, false);
  }
}

void load_a(out MatrixA a, uint r, uint k) {
  const uint row = subgroup_row + r * kM;
  if (a_by_outer) {
    coopMatLoad(a, a_stage, k * kK * a_stride8 + row / 8u, a_stride8, gl_CooperativeMatrixLayoutColumnMajor);
  } else {
    coopMatLoad(a, a_stage, row * a_stride8 + k * (kK / 8u), a_stride8, gl_CooperativeMatrixLayoutRowMajor);
  }
}

void load_b(out MatrixB b, uint c, uint k) {
  const uint column = subgroup_column + c * kN;
  if (b_by_outer) {
    coopMatLoad(b, b_stage, k * kK * b_stride8 + column / 8u, b_stride8, gl_CooperativeMatrixLayoutRowMajor);
  } else {
    coopMatLoad(b, b_stage, column * b_stride8 + k * (kK / 8u), b_stride8, gl_CooperativeMatrixLayoutColumnMajor);
  }
}

void add_products() {
  [[unroll]] for (uint k = 0; k < kInnerBlocks; ++k) {
    MatrixA a[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) load_a(a[r], r, k);
    [[unroll]] for (uint c = 0; c < kColumnBlocks; ++c) {
      MatrixB b;
      load_b(b, c, k);
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        sums[r * kColumnBlocks + c] = coopMatMulAdd(a[r], b, sums[r * kColumnBlocks + c]);
      }
    }
  }
}

// By way of the subgroup's stage, as the layout of a matrix over the lanes is the driver's own.
void store_matrix(uint matrix) {
  const uint r = matrix / kColumnBlocks;
  const uint c = matrix % kColumnBlocks;
  const uint first = gl_SubgroupID * (kM * kN);
  coopMatStore(sums[matrix], result_stage, first, kN, gl_CooperativeMatrixLayoutRowMajor);
  subgroup_barrier();  // lanes read what others have written
  for (uint i = gl_SubgroupInvocationID; i < kM * kN; i += kSubgroupSize) {
    const uint row = block.first_row + subgroup_row + r * kM + i / kN;
    const uint column = block.first_column + subgroup_column + c * kN + i % kN;
    if (row < params.rows && column < params.columns) {
      store_sum(block.part, block.batch, row, column, result_stage[first + i]);
    }
  }
  subgroup_barrier();  // the next matrix is written over this one
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;  // of all threads
  block = block_of(unit, kBlockRows, kBlockColumns);
  subgroup_row = gl_SubgroupID / kGridColumns * kRows;
  subgroup_column = gl_SubgroupID % kGridColumns * kColumns;
  [[unroll]] for (uint i = 0; i < kRowBlocks * kColumnBlocks; ++i) sums[i] = MatrixC(0.0);
  if (block.inner_begin < block.inner_end) {
    find_a();
    find_b();
    fetch(block.inner_begin);
    for (uint inner = block.inner_begin; inner < block.inner_end; inner += kInner) {
      stage_a();
      stage_b();
      workgroup_barrier();  // what is staged is read by others
      if (inner + kInner < block.inner_end) fetch(inner + kInner);
      add_products();
      workgroup_barrier();  // what was read is written over
    }
  }
  VKATTN_MATRIX_STEPS(kRowBlocks * kColumnBlocks, store_matrix)
}

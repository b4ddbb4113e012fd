// Matrix multiplication on matrix units (VK_KHR_cooperative_matrix): a workgroup computes a block of rows and columns of the
// output. In each step it stages kInner elements of the inner dimension in shared memory.
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
// Budget. Example: 4 subgroups of 32 lanes, matrices of 16x16x16, a grid of 2 columns, 64 rows x 64 columns, kInner = 32; a
// and b by rows.
//   registers      of a lane: kRows * kColumns / 32 sums + 4 * (kAFetches + kBFetches) of the next step + (kRows + kN)
//                  * kK / (2 * 32) operands = 128 + 32 + 20
//   shared memory  16 * (VKATTN_MATMUL_MATRIX_STAGE4 of a + of b) + 4 * VKATTN_MATMUL_RESULT_STAGE bytes
//                  = 16 * (128 * 5 + 32 * 17) + 4 * 1024 = 23,040
//   memory         each multiply-add reads 2 / kBlockColumns bytes of a + 2 / kBlockRows of b = 1/64 + 1/64
//   stages         each multiply-add reads 2 / kColumns bytes of a + 2 / kRows of b = 1/32 + 1/32
//
// With kStages = 2 there are two stages of each operand, 41,984 bytes in all here. While a step reads one of them, the next
// step's operands are written to the other and those of the step after it are fetched, so that a step has one barrier.
//
// Lost on an H100 (docs/trials/h100.md), where 4096 cubed has 247 TFLOP/s: 64 x 32 a subgroup 169, 8 subgroups 223, 16 and 64 of
// inner 191 and 187, two stages whose steps are not written out 152, one matrix of workgroup scope 99.
//
// Operands are staged as they are stored, in lines along the dimension that is dense in memory. Operands are 16-bit, sums
// float32.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/matrix_barriers.glsl"
#include "lib/shares.glsl"
#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "shared/shared_memory.h"

// The defaults are a shape that lavapipe lists, as validation layer 1.4.309 checks them in place of the values in force.
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_M) const uint kM = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_N) const uint kN = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_MATRIX_K) const uint kK = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_SUBGROUP_SIZE) const uint kSubgroupSize = 8;
layout(constant_id = VKATTN_MATMUL_SPEC_GRID_COLUMNS) const uint kGridColumns = 1;
layout(constant_id = VKATTN_MATMUL_SPEC_STAGES) const uint kStages = 1;
layout(constant_id = VKATTN_MATMUL_SPEC_A_LOADS8) const bool kALoads8 = false;
layout(constant_id = VKATTN_MATMUL_SPEC_B_LOADS8) const bool kBLoads8 = false;

const uint kSubgroups = kWorkgroupSize / kSubgroupSize;
const uint kBlockRows = kSubgroups / kGridColumns * kRows;
const uint kBlockColumns = kGridColumns * kColumns;
const uint kRowBlocks = kRows / kM;  // blocks of a subgroup
const uint kColumnBlocks = kColumns / kN;
const uint kInnerBlocks = kInner / kK;

#define MatrixA coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define MatrixB coopmat<VKATTN_MATRIX_ELEMENT, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define MatrixC coopmat<float, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

// A thread's arrays are globals, as GLSL passes arrays by copying them.
MatrixC sums[kRowBlocks * kColumnBlocks];
shared float result_stage[VKATTN_MATMUL_RESULT_STAGE(kSubgroups, kM, kN)];

// Operands are staged in lines along the inner dimension, or, with VKATTN_MATMUL_LOADS_OUTER, along the outer one. A thread
// moves vectors of 8 elements of a line.
const bool kAByOuter = kALoads == VKATTN_MATMUL_LOADS_OUTER;
const bool kBByOuter = kBLoads == VKATTN_MATMUL_LOADS_OUTER;
const uint kALine = kAByOuter ? kBlockRows : kInner;  // elements
const uint kBLine = kBByOuter ? kBlockColumns : kInner;
const uint kAStride8 = VKATTN_MATRIX_STRIDE(kALine);
const uint kBStride8 = VKATTN_MATRIX_STRIDE(kBLine);
const uint kAVectors = kBlockRows * kInner / 8;
const uint kBVectors = kBlockColumns * kInner / 8;
const uint kAFetches = (kAVectors + kWorkgroupSize - 1) / kWorkgroupSize;
const uint kBFetches = (kBVectors + kWorkgroupSize - 1) / kWorkgroupSize;
const uint kAStage = VKATTN_MATMUL_MATRIX_STAGE4(kAByOuter ? kInner : kBlockRows, kALine);
const uint kBStage = VKATTN_MATMUL_MATRIX_STAGE4(kBByOuter ? kInner : kBlockColumns, kBLine);
shared uvec4 a_stage[kStages * kAStage];
shared uvec4 b_stage[kStages * kBStage];

// The place of a thread's vector in memory.
struct Source {
  uint first;
  uint second;  // the distance from the first element to elements 4 to 7
};
Source a_source[kAFetches], b_source[kBFetches];
uvec4 a_fetched[kAFetches], b_fetched[kBFetches];

// Functions with `of_b` serve both operands; of_b is a constant once they are inlined.

bool is_by_outer(bool of_b) { return of_b ? kBByOuter : kAByOuter; }
uint vector_of(bool of_b, uint n) { return unit_of_share(n, of_b ? kBVectors : kAVectors, kWorkgroupSize); }

// 8 neighbouring threads write vectors of one line, or of lines that lie so far apart that the vectors meet no bank twice.
uint line_of(bool of_b, uint n) {
  const uint vectors = (of_b ? kBLine : kALine) / 8u;  // of a line
  const uint line = vector_of(of_b, n) / vectors;
  if (vectors >= 8u) return line;
  const uint lines = 8u / vectors;  // of 8 threads
  return line / 8u * 8u + line % lines * vectors + line / lines % vectors;
}

uint along_line(bool of_b, uint n) { return vector_of(of_b, n) % ((of_b ? kBLine : kALine) / 8u) * 8u; }
uint inner_of(bool of_b, uint n) { return is_by_outer(of_b) ? line_of(of_b, n) : along_line(of_b, n); }
uint outer_of(bool of_b, uint n) { return is_by_outer(of_b) ? along_line(of_b, n) : line_of(of_b, n); }

// Other elements stand for outer elements behind the last, whose results are not stored.
Source source_of(Block block, bool of_b, uint n) {
  const uint size = of_b ? params.columns : params.rows;
  const uint outer = (of_b ? block.first_column : block.first_row) + outer_of(of_b, n);
  const uint last = is_by_outer(of_b) ? size - ((of_b ? kBLoads8 : kALoads8) ? 8u : 4u) : size - 1u;
  const uint existing = min(outer, last);
  const uint first = of_b ? b_outer(block.batch, existing) : a_outer(block.batch, existing);
  return Source(first, is_by_outer(of_b) && existing + 4u >= size ? 0u : 4u);
}

uvec4 dense8(bool of_b, uint index, uint second) {
  if (of_b) {
    if (kBLoads8) return VKATTN_LOAD4(b, index >> 3);
    return uvec4(VKATTN_LOAD2(b, index >> 2), VKATTN_LOAD2(b, (index + second) >> 2));
  }
  if (kALoads8) return VKATTN_LOAD4(a, index >> 3);
  return uvec4(VKATTN_LOAD2(a, index >> 2), VKATTN_LOAD2(a, (index + second) >> 2));
}

// The bits of one element of the inner dimension; 0 behind the last of the block.
uint bits_at(bool of_b, uint first, uint inner, uint last) {
  const uint existing = min(inner, last);
  uint bits;
  if (of_b) {
    bits = VKATTN_HALF_BITS(b, first + existing * params.b_inner_stride);
  } else {
    bits = VKATTN_HALF_BITS(a, first + existing * params.a_inner_stride);
  }
  return inner <= last ? bits : 0u;
}

uint bits2_at(bool of_b, uint first, uint inner, uint last) {
  return bits_at(of_b, first, inner, last) | bits_at(of_b, first, inner + 1u, last) << 16;
}

// The thread's n-th vector of a step. Inner elements behind the last are zeros; `whole` says that there are none.
uvec4 vector8(Block block, bool of_b, Source source, uint n, uint inner, bool whole) {
  const uint last = block.inner_end - 1u;
  const uint at = inner + inner_of(of_b, n);
  if (is_by_outer(of_b)) {
    const uint stride = of_b ? params.b_inner_stride : params.a_inner_stride;
    if (whole) return dense8(of_b, source.first + at * stride, source.second);
    return mix(uvec4(0u), dense8(of_b, source.first + min(at, last) * stride, source.second), bvec4(at <= last));
  }
  if (whole && (of_b ? kBLoads : kALoads) == VKATTN_MATMUL_LOADS_INNER) return dense8(of_b, source.first + at, 4u);
  return uvec4(bits2_at(of_b, source.first, at, last), bits2_at(of_b, source.first, at + 2u, last),
               bits2_at(of_b, source.first, at + 4u, last), bits2_at(of_b, source.first, at + 6u, last));
}

void find_vectors(Block block) {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) a_source[n] = source_of(block, false, n);
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) b_source[n] = source_of(block, true, n);
}

// Fetches all vectors to registers before the first is written, so that their latencies overlap.
void fetch_vectors(Block block, uint inner, bool whole) {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) a_fetched[n] = vector8(block, false, a_source[n], n, inner, whole);
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) b_fetched[n] = vector8(block, true, b_source[n], n, inner, whole);
}

void stage_vectors(uint stage) {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) {
    if (!is_own_unit(n, kAVectors, kWorkgroupSize)) continue;
    a_stage[stage * kAStage + line_of(false, n) * kAStride8 + along_line(false, n) / 8u] = a_fetched[n];
  }
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) {
    if (!is_own_unit(n, kBVectors, kWorkgroupSize)) continue;
    b_stage[stage * kBStage + line_of(true, n) * kBStride8 + along_line(true, n) / 8u] = b_fetched[n];
  }
}

void fetch(Block block, uint inner) {
  const bool whole = inner + kInner <= block.inner_end;
  if (whole) {
    fetch_vectors(block, inner, true);
  } else {
    fetch_vectors(block, inner, false);
  }
}

uint subgroup_row = gl_SubgroupID / kGridColumns * kRows;
uint subgroup_column = gl_SubgroupID % kGridColumns * kColumns;

void load_a(out MatrixA a, uint stage, uint r, uint k) {
  const uint first = stage * kAStage;
  const uint row = subgroup_row + r * kM;
  if (kAByOuter) {
    coopMatLoad(a, a_stage, first + k * kK * kAStride8 + row / 8u, kAStride8, gl_CooperativeMatrixLayoutColumnMajor);
  } else {
    coopMatLoad(a, a_stage, first + row * kAStride8 + k * (kK / 8u), kAStride8, gl_CooperativeMatrixLayoutRowMajor);
  }
}

void load_b(out MatrixB b, uint stage, uint c, uint k) {
  const uint first = stage * kBStage;
  const uint column = subgroup_column + c * kN;
  if (kBByOuter) {
    coopMatLoad(b, b_stage, first + k * kK * kBStride8 + column / 8u, kBStride8, gl_CooperativeMatrixLayoutRowMajor);
  } else {
    coopMatLoad(b, b_stage, first + column * kBStride8 + k * (kK / 8u), kBStride8, gl_CooperativeMatrixLayoutColumnMajor);
  }
}

void add_products(uint stage) {
  [[unroll]] for (uint k = 0; k < kInnerBlocks; ++k) {
    MatrixA a[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) load_a(a[r], stage, r, k);
    [[unroll]] for (uint c = 0; c < kColumnBlocks; ++c) {
      MatrixB b;
      load_b(b, stage, c, k);
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        sums[r * kColumnBlocks + c] = coopMatMulAdd(a[r], b, sums[r * kColumnBlocks + c]);
      }
    }
  }
}

// Stores a matrix of sums through the subgroup's stage, as the driver chooses how a matrix lies over the lanes.
void store_matrix(Block block, uint matrix) {
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
  subgroup_barrier();  // the next matrix overwrites this one
}

// The first step's vectors are in registers. All of the workgroup's subgroups take as many steps.
void add_steps(Block block) {
  for (uint inner = block.inner_begin; inner < block.inner_end; inner += kInner) {
    stage_vectors(0);
    workgroup_barrier();  // the stages are complete before other threads read them
    if (inner + kInner < block.inner_end) fetch(block, inner + kInner);
    add_products(0);
    workgroup_barrier();  // the stages were read before the next step overwrites them
  }
}

// One step of two stages: its operands are in `stage`, those of the next one in registers.
void add_step(Block block, uint inner, uint stage) {
  if (inner + kInner < block.inner_end) stage_vectors(1 - stage);
  if (inner + 2 * kInner < block.inner_end) fetch(block, inner + 2 * kInner);
  add_products(stage);
  workgroup_barrier();  // this stage was read before it is overwritten; the other one is complete before it is read
}

// Both steps are written out, so that each stage has constant addresses.
void add_steps_in_two_stages(Block block) {
  stage_vectors(0);
  if (block.inner_begin + kInner < block.inner_end) fetch(block, block.inner_begin + kInner);
  workgroup_barrier();  // the first stage is complete before other threads read it
  for (uint inner = block.inner_begin; inner < block.inner_end; inner += 2 * kInner) {
    add_step(block, inner, 0);
    if (inner + kInner >= block.inner_end) break;
    add_step(block, inner + kInner, 1);
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;  // uniform over the workgroup, so no barrier is missed
  const Block block = block_of(unit, kBlockRows, kBlockColumns, kGroupRows);
  [[unroll]] for (uint i = 0; i < kRowBlocks * kColumnBlocks; ++i) sums[i] = MatrixC(0.0);
  if (block.inner_begin < block.inner_end) {
    find_vectors(block);
    fetch(block, block.inner_begin);
    if (kStages == 2) {
      add_steps_in_two_stages(block);
    } else {
      add_steps(block);
    }
  }
#define VKATTN_STORE_MATRIX(MATRIX) store_matrix(block, MATRIX)
  VKATTN_MATRIX_STEPS(kRowBlocks * kColumnBlocks, VKATTN_STORE_MATRIX)
}

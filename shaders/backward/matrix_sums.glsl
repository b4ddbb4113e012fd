// The sums of gradients in a workgroup of the matrix forms. It owns kOwned rows or keys, whose gradients are sums over the
// keys or rows that it visits, kVisited at a time:
//   sums += F X      F: factors, kOwned x kVisited; X: visited rows, kVisited x kGradientDims, 16-bit in shared memory
// Subgroups are a grid over rows and columns of a product. Where loads of matrices want neighbouring elements of a column of X,
// X is staged transposed (kVisitedTransposed).
//
// Factors are float32 of any size. As operands they are multiples of their row's unit, see backward/units.glsl.
#ifndef VKATTN_BACKWARD_MATRIX_SUMS
#define VKATTN_BACKWARD_MATRIX_SUMS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#extension GL_KHR_shader_subgroup_vote : require

#include "backward/gradients.glsl"
#include "backward/units.glsl"
#include "lib/matrix_barriers.glsl"
#include "lib/matrix_operands.glsl"
#include "lib/tensor_bits.glsl"
#include "shared/backward_constants.h"
#include "shared/shared_memory.h"

layout(local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_STEP_OWNED) const uint kOwned = 16;
layout(constant_id = VKATTN_SPEC_STEP_VISITED) const uint kVisited = 16;
layout(constant_id = VKATTN_SPEC_GRID_COLUMNS) const uint kGridColumns = 2;
layout(constant_id = VKATTN_SPEC_VISITED_TRANSPOSED) const bool kVisitedTransposed = false;
layout(constant_id = VKATTN_SPEC_MATRIX_QUERY_LOADS8) const bool kQueryLoads8 = false;
layout(constant_id = VKATTN_SPEC_GRAD_OUTPUT_LOADS8) const bool kGradOutputLoads8 = false;

VKATTN_INPUT_BITS(query, kHeadDim, kQueryDimStride, kQueryLoads8, kQueryVectorLoads)
VKATTN_INPUT_BITS(grad_output, kValueDim, kGradOutputDimStride, kGradOutputLoads8, kGradOutputVectorLoads)

// The dims of the pass's widest gradient. A pass may define it before this file.
#ifndef VKATTN_GRADIENT_DIMS
#define VKATTN_GRADIENT_DIMS kHeadDim
#endif
const uint kGradientDims = VKATTN_GRADIENT_DIMS;

const uint kSubgroups = kThreads / kSubgroupSize;
const uint kGridRows = kSubgroups / kGridColumns;
const uint kRowBlocks = kOwned / kGridRows / kM;  // blocks of rows of a subgroup
const uint kSumDims = VKATTN_BACKWARD_PADDED(kGradientDims, kK, kN, kGridColumns);
const uint kSumBlocks = kSumDims / kGridColumns / kN;  // blocks of dims of a subgroup
const uint kOwnerThreads = kThreads / kOwned;          // threads that share a row of factors
const uint kQuads = kVisited / kOwnerThreads / 4;      // quads of factors of a thread
// Strides of rows in shared memory, in units of 8 bytes, and of 16.
const uint kOperandStride2 = VKATTN_MATRIX_STRIDE(kVisited) * 2;
const uint kSumStride8 = VKATTN_MATRIX_STRIDE(kSumDims);
const uint kTransposedStride8 = VKATTN_MATRIX_STRIDE(kVisited);

shared uvec2 operand_stage[2 * VKATTN_MATRIX_KEY_STAGE4(kOwned, kVisited)];
shared float factor_stage[VKATTN_MATRIX_FACTOR_STAGE4(kOwned) * 4];  // a factor of each row's sums
shared uvec4 visited_stage[VKATTN_BACKWARD_VISITED_STAGE4(kVisited, kSumDims, kVisitedTransposed)];
// Sums on their way out. The rows' pass has scores there before, and defines a larger size before this file.
#ifndef VKATTN_SUM_STAGE4
#define VKATTN_SUM_STAGE4 VKATTN_BACKWARD_SUM_STAGE4(kSubgroups, kM, kN)
#endif
shared vec4 sum_stage[VKATTN_SUM_STAGE4];

// A subgroup's place: its first row in all products, and its place in a row of the grid. As functions, compilers would compute
// them again in each loop.
uint subgroup_row = gl_SubgroupID / kGridColumns * (kRowBlocks * kM);
uint subgroup_column = gl_SubgroupID % kGridColumns;

MatrixC gradient_sums[kRowBlocks * kSumBlocks];  // a global, as GLSL passes arrays by copying them

// Elements dim .. dim + 7, with zeros behind the last. If the dims do not exist, it reads the row's first ones: with a branch
// each load would wait. This is a macro, as a function cannot take a buffer.
#define VKATTN_PADDED_BITS(NAME, DIMS, PADDED_DIMS)                                  \
  uvec4 NAME##_padded8(uint row, uint dim) {                                         \
    if (DIMS == PADDED_DIMS) return NAME##_full_bits8(row, dim);                     \
    if (DIMS % 8u != 0u) return NAME##_bits8(row, dim);                              \
    const bool exists = dim < DIMS;                                                  \
    return mix(uvec4(0u), NAME##_full_bits8(row, exists ? dim : 0u), bvec4(exists)); \
  }

// STAGE[ROWS][DIMS / 8, and one more] = FETCH(row, dim), with a few loads in flight. This is a macro, as a function can take
// neither shared memory nor a function.
#define VKATTN_FILL_STAGE(STAGE, ROWS, DIMS, FETCH)                                                             \
  {                                                                                                             \
    const uint vectors = (ROWS) * ((DIMS) / 8u);                                                                \
    const uint fetches = (vectors + kThreads - 1u) / kThreads;                                                  \
    const uint batch = fetches < 4u ? fetches : 4u;                                                             \
    [[unroll]] for (uint first = 0; first < fetches; first += batch) {                                          \
      uvec4 loaded[4];                                                                                          \
      [[unroll]] for (uint f = 0; f < batch; ++f) {                                                             \
        const uint i = min(gl_LocalInvocationIndex + (first + f) * kThreads, vectors - 1u);                     \
        loaded[f] = FETCH(i / ((DIMS) / 8u), i % ((DIMS) / 8u) * 8u);                                           \
      }                                                                                                         \
      [[unroll]] for (uint f = 0; f < batch; ++f) {                                                             \
        const uint i = gl_LocalInvocationIndex + (first + f) * kThreads;                                        \
        if (i < vectors) STAGE[i / ((DIMS) / 8u) * VKATTN_MATRIX_STRIDE(DIMS) + i % ((DIMS) / 8u)] = loaded[f]; \
      }                                                                                                         \
    }                                                                                                           \
  }

// Places elements dim .. dim + 7 of two neighbouring rows in a transposed stage, where they share words.
void place_transposed(uint pair, uint dim, uvec4 even, uvec4 odd) {
  [[unroll]] for (uint d = 0; d < 8; ++d) {
    const uint shift = d % 2u * 16u;
    const uint low = (even[d / 2u] >> shift) & 0xffffu;
    const uint high = (odd[d / 2u] >> shift) << 16;
    visited_stage[(dim + d) * kTransposedStride8 + pair / 4u][pair % 4u] = low | high;
  }
}

// The same as VKATTN_FILL_STAGE for a transposed visited_stage. Neighbouring threads have neighbouring pairs of rows.
#define VKATTN_FILL_TRANSPOSED(FETCH)                                                      \
  {                                                                                        \
    const uint pairs = kVisited / 2u;                                                      \
    const uint places = pairs * (kSumDims / 8u);                                           \
    const uint fetches = (places + kThreads - 1u) / kThreads;                              \
    const uint batch = fetches < 2u ? fetches : 2u;                                        \
    [[unroll]] for (uint first = 0; first < fetches; first += batch) {                     \
      uvec4 even[2], odd[2];                                                               \
      [[unroll]] for (uint f = 0; f < batch; ++f) {                                        \
        const uint i = min(gl_LocalInvocationIndex + (first + f) * kThreads, places - 1u); \
        even[f] = FETCH(i % pairs * 2u, i / pairs * 8u);                                   \
        odd[f] = FETCH(i % pairs * 2u + 1u, i / pairs * 8u);                               \
      }                                                                                    \
      [[unroll]] for (uint f = 0; f < batch; ++f) {                                        \
        const uint i = gl_LocalInvocationIndex + (first + f) * kThreads;                   \
        if (i < places) place_transposed(i % pairs, i / pairs * 8u, even[f], odd[f]);      \
      }                                                                                    \
    }                                                                                      \
  }

void begin_sums() {
  [[unroll]] for (uint i = 0; i < kRowBlocks * kSumBlocks; ++i) gradient_sums[i] = MatrixC(0.0);
}

// The bits of the largest magnitude of factors. As bits, NaN is above infinity, and infinity above numbers.
uint larger_magnitude(uint largest, vec4 factors) {
  const uvec4 bits = floatBitsToUint(factors) & 0x7fffffffu;
  return max(max(largest, max(bits.x, bits.y)), max(bits.z, bits.w));
}

// Raises the unit of the thread's row, a biased exponent, if its largest factor requires it. Returns the factor of the row's
// sums.
float raise_unit(inout uint unit, uint largest) {
  const uint before = unit;
  unit = raised_unit(before, largest);
  return change_of_unit(before, unit);
}

// The factor that takes the units out of a row's sums; with the operands' scale, which the operands have not had.
float last_factor(uint unit, bool scaled) {
  const float number = power_of_two(int(unit));
  return scaled ? scaled_operand(number) : number;
}

// Places four neighbouring factors of row `owned` as operands.
void place_factors(uint unit, uint owned, uint visited, vec4 factors) {
  factors *= units_of_one(unit);
  operand_stage[owned * kOperandStride2 + visited / 4u] = uvec2(pack_operands(factors.xy), pack_operands(factors.zw));
}

// Multiplies the sums by the factors of their rows.
void scale_sums() {
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    MatrixC factors;
    coopMatLoad(factors, factor_stage, subgroup_row + r * kM, 0, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint n = 0; n < kSumBlocks; ++n) {
      gradient_sums[r * kSumBlocks + n] = gradient_sums[r * kSumBlocks + n] * factors;
    }
  }
}

// True if a unit of the subgroup's rows was raised.
bool is_raised() {
  bool raised = false;
  for (uint row = gl_SubgroupInvocationID; row < kRowBlocks * kM; row += kSubgroupSize) {
    raised = raised || factor_stage[subgroup_row + row] != 1.0;
  }
  return subgroupAny(raised);
}

// sums += F X, from the staged factors and the staged visited rows.
void add_products() {
  if (is_raised()) scale_sums();
  [[unroll]] for (uint b = 0; b < kVisited / kK; ++b) {
    MatrixA factors[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
      coopMatLoad(factors[r], operand_stage, (subgroup_row + r * kM) * kOperandStride2 + b * (kK / 4u), kOperandStride2,
                  gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint n = 0; n < kSumBlocks; ++n) {
      MatrixB visited;
      const uint block = subgroup_column * kSumBlocks + n;
      if (kVisitedTransposed) {
        coopMatLoad(visited, visited_stage, block * (kN * kTransposedStride8) + b * (kK / 8u), kTransposedStride8,
                    gl_CooperativeMatrixLayoutColumnMajor);
      } else {
        coopMatLoad(visited, visited_stage, b * kK * kSumStride8 + block * (kN / 8u), kSumStride8,
                    gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        const uint sum = r * kSumBlocks + n;
        gradient_sums[sum] = coopMatMulAdd(factors[r], visited, gradient_sums[sum]);
      }
    }
  }
}

// Stores matrix `block` of the sums in the subgroup's part of sum_stage, where staged_sum() reads it.
void stage_sums(uint block) {
  // Constant indices keep the sums in registers. The branch is uniform.
  [[unroll]] for (uint i = 0; i < kRowBlocks * kSumBlocks; ++i) {
    if (i != block) continue;
    coopMatStore(gradient_sums[i], sum_stage, gl_SubgroupID * (kM * kN / 4u), kN / 4u,
                 gl_CooperativeMatrixLayoutRowMajor);
  }
  subgroup_barrier();  // lanes read what others have written
}

struct StagedSum {
  uint owned;
  uint dim;
  float sum;
};

// The i-th of the kM * kN sums of matrix `block`.
StagedSum staged_sum(uint block, uint i) {
  const uint row = subgroup_row + block / kSumBlocks * kM;
  const uint dim = (subgroup_column * kSumBlocks + block % kSumBlocks) * kN;
  const float sum = sum_stage[gl_SubgroupID * (kM * kN / 4u) + i / 4u][i % 4u];
  return StagedSum(row + i / kN, dim + i % kN, sum);
}

#endif

#endif

// Measures the rate of the device's matrix units: each subgroup multiplies four A matrices by kColumns B matrices in registers,
// into 4 * kColumns independent accumulators, as the inner loop of a matrix product does. More accumulators hide more latency and
// take more registers; a flip of B costs instructions beside the matrix units. So the host tries several forms.
// Defines: VKATTN_PEAK_OPERAND and VKATTN_PEAK_ACCUMULATOR, the element types; VKATTN_PEAK_BFLOAT16 if the operand is bfloat16.
#version 450
#pragma use_vulkan_memory_model
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
#ifdef VKATTN_PEAK_BFLOAT16
#extension GL_EXT_bfloat16 : require
#endif

#include "shared/peak_constants.h"

layout(local_size_x_id = VKATTN_PEAK_WORKGROUP_SIZE_ID) in;
layout(constant_id = VKATTN_PEAK_MATRIX_M_ID) const uint kM = 16;
layout(constant_id = VKATTN_PEAK_MATRIX_N_ID) const uint kN = 16;
layout(constant_id = VKATTN_PEAK_MATRIX_K_ID) const uint kK = 16;
layout(constant_id = VKATTN_PEAK_MATRIX_OPERAND_BYTES_ID) const uint kOperandBytes = 2;
layout(constant_id = VKATTN_PEAK_MATRIX_COLUMNS_ID) const uint kColumns = 2;
// Whether B changes its sign in each iteration. If not, every iteration multiplies the same numbers. A compiler without matrix
// units could move that out of the loop; a matrix unit multiplies and adds in one instruction.
layout(constant_id = VKATTN_PEAK_MATRIX_FLIPS_ID) const bool kFlips = true;

#define OperandA coopmat<VKATTN_PEAK_OPERAND, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define OperandB coopmat<VKATTN_PEAK_OPERAND, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define Accumulator coopmat<VKATTN_PEAK_ACCUMULATOR, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

// bfloat16 has conversions but no arithmetic.
#ifdef VKATTN_PEAK_BFLOAT16
#define TIMES_FLIP(b) OperandB(coopmat<float, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>(b) * flip)
#else
#define TIMES_FLIP(b) ((b) * VKATTN_PEAK_OPERAND(flip))
#endif

layout(push_constant) uniform Parameters {
  float flip;  // -1: sums go up and down, never far, and no product equals that of the iteration before
  uint iterations;
};

// results[0]: the subgroups of a workgroup, which only a running shader knows; from 1 on: results that keep the work alive.
layout(std430, set = 0, binding = 0) writeonly buffer Results { float results[]; };
// Elements of the operand's type, loaded as whole words, so that no storage of small types is needed.
layout(std430, set = 0, binding = 1) readonly buffer Operands { uint operands[]; };

void main() {
  const uint a_words = kM * kK * kOperandBytes / 4, b_words = kK * kN * kOperandBytes / 4;
  OperandA a[VKATTN_PEAK_MATRIX_ROWS];
  OperandB b[kColumns];
  Accumulator sums[VKATTN_PEAK_MATRIX_ROWS * kColumns];
  [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ROWS; ++i) {
    coopMatLoad(a[i], operands, i * a_words, kK * kOperandBytes / 4, gl_CooperativeMatrixLayoutRowMajor);
  }
  [[unroll]] for (uint j = 0; j < kColumns; ++j) {
    coopMatLoad(b[j], operands, j * b_words, kN * kOperandBytes / 4, gl_CooperativeMatrixLayoutRowMajor);
  }
  [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ROWS * kColumns; ++i) {
    sums[i] = Accumulator(VKATTN_PEAK_ACCUMULATOR(i));
  }
  for (uint iteration = 0; iteration < iterations; ++iteration) {
    [[unroll]] for (uint j = 0; j < kColumns; ++j) {
      if (kFlips) b[j] = TIMES_FLIP(b[j]);
      [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ROWS; ++i) {
        const uint tile = j * VKATTN_PEAK_MATRIX_ROWS + i;
        sums[tile] = coopMatMulAdd(a[i], b[j], sums[tile]);
      }
    }
  }
  Accumulator total = sums[0];
  [[unroll]] for (uint i = 1; i < VKATTN_PEAK_MATRIX_ROWS * kColumns; ++i) total = total + sums[i];
  float result = 0.0;
  for (uint i = 0; i < total.length(); ++i) result += float(total[i]);
  results[1 + gl_GlobalInvocationID.x] = result;
  if (gl_GlobalInvocationID.x == 0) results[0] = float(gl_NumSubgroups);
}

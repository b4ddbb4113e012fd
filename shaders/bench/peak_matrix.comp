// The rate of the device's matrix units: independent accumulators in each subgroup, operands held in registers.
// Defines: VKATTN_PEAK_OPERAND and VKATTN_PEAK_ACCUMULATOR, the element types; VKATTN_PEAK_BFLOAT16 where the operand is one.
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

#define OperandA coopmat<VKATTN_PEAK_OPERAND, gl_ScopeSubgroup, kM, kK, gl_MatrixUseA>
#define OperandB coopmat<VKATTN_PEAK_OPERAND, gl_ScopeSubgroup, kK, kN, gl_MatrixUseB>
#define Accumulator coopmat<VKATTN_PEAK_ACCUMULATOR, gl_ScopeSubgroup, kM, kN, gl_MatrixUseAccumulator>

layout(push_constant) uniform Parameters {
  float value;      // every element of B, and of A with both signs in turn: sums go up and down again, never far
  uint iterations;
};

// results[0]: subgroups in a workgroup, which only the running shader knows; from 1 on: what keeps the work alive.
layout(std430, set = 0, binding = 0) writeonly buffer Results { float results[]; };

void main() {
  const OperandA up = OperandA(VKATTN_PEAK_OPERAND(value));
  const OperandA down = OperandA(VKATTN_PEAK_OPERAND(-value));
  const OperandB b = OperandB(VKATTN_PEAK_OPERAND(value));
  Accumulator sums[VKATTN_PEAK_MATRIX_ACCUMULATORS];
  [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ACCUMULATORS; ++i) {
    sums[i] = Accumulator(VKATTN_PEAK_ACCUMULATOR(value * float(i + 1)));
  }
  for (uint iteration = 0; iteration < iterations; ++iteration) {
    [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ACCUMULATORS; ++i) sums[i] = coopMatMulAdd(up, b, sums[i]);
    [[unroll]] for (uint i = 0; i < VKATTN_PEAK_MATRIX_ACCUMULATORS; ++i) sums[i] = coopMatMulAdd(down, b, sums[i]);
  }
  Accumulator total = sums[0];
  [[unroll]] for (uint i = 1; i < VKATTN_PEAK_MATRIX_ACCUMULATORS; ++i) total = total + sums[i];
  float result = 0.0;
  for (uint i = 0; i < total.length(); ++i) result += float(total[i]);
  results[1 + gl_GlobalInvocationID.x] = result;
  if (gl_GlobalInvocationID.x == 0) results[0] = float(gl_NumSubgroups);
}

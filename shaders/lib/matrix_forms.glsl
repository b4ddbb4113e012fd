// The forms of the kernels on matrix units, as lib/forms.glsl has those of all kernels.
#ifndef VKATTN_LIB_MATRIX_FORMS
#define VKATTN_LIB_MATRIX_FORMS

#include "lib/forms.glsl"
#include "lib/unrolled.glsl"

#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// The operand type, and whether it is bfloat16.
#ifndef VKATTN_MATRIX_BFLOAT16
#define VKATTN_MATRIX_BFLOAT16 0
#endif
#if VKATTN_MATRIX_BFLOAT16
#extension GL_EXT_bfloat16 : require
#define VKATTN_MATRIX_ELEMENT bfloat16_t
#else
#define VKATTN_MATRIX_ELEMENT float16_t
#endif

// Matrices stay in registers where loops over them are unrolled. Loops with barriers in them are written out for
// NVIDIA's compiler, see lib/unrolled.glsl: in a form of its own, as RADV (Mesa 25.0) crashes where both are there.
#ifndef VKATTN_MATRIX_WRITES_OUT
#define VKATTN_MATRIX_WRITES_OUT 0
#endif
#if VKATTN_MATRIX_WRITES_OUT
#define VKATTN_MATRIX_STEPS VKATTN_WRITTEN_STEPS
#else
#define VKATTN_MATRIX_STEPS(COUNT, STEP) \
  [[unroll]] for (uint step_ = 0; step_ < (COUNT); ++step_) { STEP(step_); }
#endif

#endif

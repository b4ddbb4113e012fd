// The forms of kernels on matrix units, as lib/forms.glsl has the forms of all kernels.
#ifndef VKATTN_LIB_MATRIX_FORMS
#define VKATTN_LIB_MATRIX_FORMS

#include "lib/forms.glsl"
#include "lib/unrolled.glsl"

#pragma use_vulkan_memory_model
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

// The type of operands: bfloat16 or float16.
#ifndef VKATTN_MATRIX_BFLOAT16
#define VKATTN_MATRIX_BFLOAT16 0
#endif
#if VKATTN_MATRIX_BFLOAT16
#extension GL_EXT_bfloat16 : require
#define VKATTN_MATRIX_ELEMENT bfloat16_t
#else
#define VKATTN_MATRIX_ELEMENT float16_t
#endif

// Matrices stay in registers only if loops over them are unrolled. NVIDIA's compiler needs loops with barriers written out
// (lib/unrolled.glsl). In matmul and matrix2 that is a form of its own, as RADV (Mesa 25.0) crashes if a shader contains both
// variants. Of matrix no driver sees both: what the constant switches off is left out before (src/spirv/live_code.hpp).
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

// The form of a shader: what each define says where shaders/binaries.cmake does not. They stand for what can be no
// specialization constant. This file is included before all others, as it also asks for what all of them use.
#ifndef VKATTN_LIB_FORMS
#define VKATTN_LIB_FORMS

#extension GL_EXT_control_flow_attributes : require

// With the bindings of masks, caches, lengths and the like, and what goes with them.
#ifndef VKATTN_FEATURES
#define VKATTN_FEATURES 0
#endif

// Features with quantised keys and values; builds of the library may do without.
#ifndef VKATTN_QUANTISED
#define VKATTN_QUANTISED 1
#endif

// 16-bit elements are read and written as such; else as halves of 32-bit words.
#ifndef VKATTN_STORAGE_16BIT
#define VKATTN_STORAGE_16BIT 0
#endif

// Loads of 8 and 16 bytes are 64-bit scalars, for CPU implementations.
#ifndef VKATTN_WIDE_LOADS
#define VKATTN_WIDE_LOADS 0
#endif

#if VKATTN_STORAGE_16BIT
#extension GL_EXT_shader_16bit_storage : require
#endif
#if VKATTN_WIDE_LOADS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

#endif

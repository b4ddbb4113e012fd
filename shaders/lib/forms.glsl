// The form of a shader: the default of each define that shaders/binaries.cmake does not set. A define stands for what no
// specialization constant can say. This file comes before all other includes, as it also asks for extensions that all use.
#ifndef VKATTN_LIB_FORMS
#define VKATTN_LIB_FORMS

#extension GL_EXT_control_flow_attributes : require

// The bindings and the code of masks, caches, lengths and other features.
#ifndef VKATTN_FEATURES
#define VKATTN_FEATURES 0
#endif

// Quantised keys and values, among the features; a build of the library may leave them out.
#ifndef VKATTN_QUANTISED
#define VKATTN_QUANTISED 1
#endif

// 1: 16-bit elements are read and written as such; 0: as halves of 32-bit words.
#ifndef VKATTN_STORAGE_16BIT
#define VKATTN_STORAGE_16BIT 0
#endif

// 1: matrices of subgroup scope, from shared memory; 0: as the kernel's other form has them.
#ifndef VKATTN_STAGED
#define VKATTN_STAGED 0
#endif

// 1: loads of 8 and 16 bytes are loads of 64-bit scalars, for CPU implementations.
#ifndef VKATTN_WIDE_LOADS
#define VKATTN_WIDE_LOADS 0
#endif

// 1: tensors are read by addresses in the push constants, for CPU implementations.
#ifndef VKATTN_BUFFER_ADDRESSES
#define VKATTN_BUFFER_ADDRESSES 0
#endif

#if VKATTN_STORAGE_16BIT
#extension GL_EXT_shader_16bit_storage : require
#endif
#if VKATTN_WIDE_LOADS
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

#endif

// Further views of a storage buffer NAME_words: as 16-bit elements on devices with 16-bit storage, and as 8 or 16 bytes.
// Indices are relative to the bound range. These are macros, as a function cannot take a buffer; so is all code that
// defines functions of a tensor NAME.
#ifndef VKATTN_LIB_VIEWS
#define VKATTN_LIB_VIEWS

#include "lib/forms.glsl"

#if VKATTN_STORAGE_16BIT
#define VKATTN_HALVES(NAME, BINDING) \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Halves { uint16_t NAME##_halves[]; };
#define VKATTN_HALF_BITS(NAME, INDEX) uint(NAME##_halves[INDEX])
#else
#define VKATTN_HALVES(NAME, BINDING)
#define VKATTN_HALF_BITS(NAME, INDEX) ((NAME##_words[(INDEX) >> 1] >> (((INDEX) & 1u) * 16u)) & 0xffffu)
#endif

// CPU implementations check bounds for each component of a vector load. 64-bit scalars halve the checks (lavapipe 26.1:
// 15 % faster, a third less compile time).
#if VKATTN_WIDE_LOADS
#define VKATTN_VECTORS(NAME, BINDING) \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Wides { uint64_t NAME##_wides[]; };        \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Quads { uvec4 NAME##_quads[]; };
#define VKATTN_LOAD2(NAME, INDEX) unpackUint2x32(NAME##_wides[INDEX])
#define VKATTN_LOAD4(NAME, INDEX) \
  uvec4(unpackUint2x32(NAME##_wides[(INDEX) * 2u]), unpackUint2x32(NAME##_wides[(INDEX) * 2u + 1u]))
// LLVM keeps words from or for 64-bit values in registers of twice the width, which halves the rate of arithmetic on some
// CPUs. Adding a 0 that only the host knows to be 0 brings them back to their own width.
#define VKATTN_IN_OWN_WIDTH(WORDS, ZERO) ((WORDS) + (ZERO))
#else
#define VKATTN_IN_OWN_WIDTH(WORDS, ZERO) (WORDS)
#define VKATTN_VECTORS(NAME, BINDING)                                                              \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Pairs { uvec2 NAME##_pairs[]; }; \
  layout(set = 0, binding = BINDING, std430) readonly buffer NAME##Quads { uvec4 NAME##_quads[]; };
#define VKATTN_LOAD2(NAME, INDEX) NAME##_pairs[INDEX]
#define VKATTN_LOAD4(NAME, INDEX) NAME##_quads[INDEX]
#endif
// A load by an address has no checks, and a CPU broadcasts each component from memory if all lanes load at one address.
#define VKATTN_QUAD(NAME, INDEX) NAME##_quads[INDEX]

#endif

// Scales of quantised keys and values on matrix units; lib/matrix_quantised.glsl has the elements without them. A scale
// serves 32 dims of a key. Scales never become operands themselves, which would round them: scales of keys multiply sums
// over 32 dims, and scales of values multiply probabilities before these are rounded once.
//
// Only shaders with features, in builds with quantised tensors, have code here; in others the functions do nothing.
//   bool kKeysScaled, kValuesScaled     true if each 32 dims have a scale
//   void load_scales()                  brings a tile's scales to their stages
//   void compute_scaled_scores()        writes Q K^T with scales to the subgroup's stage
//   void accumulate_scaled_values()     sums += P V with scales
#ifndef VKATTN_MATRIX_QUANTISED
#define VKATTN_MATRIX_QUANTISED

#include "lib/online_softmax.glsl"
#include "lib/matrix_quantised.glsl"
#include "matrix/stages.glsl"
#include "shared/shared_memory.h"

#extension GL_KHR_shader_subgroup_shuffle : require

#if VKATTN_FEATURES && VKATTN_QUANTISED

const uint kScaleDims = 32;  // dims that share a scale
// float8 has one scale for a head instead. It multiplies scores or outputs.
const bool kKeysScaled = kKeysQuantised && kKeyType != VKATTN_TYPE_FLOAT8_E4M3;
const bool kValuesScaled = kValuesQuantised && kValueType != VKATTN_TYPE_FLOAT8_E4M3;

const uint kKeyScales = (kHeadDim + kScaleDims - 1) / kScaleDims;  // of a key
const uint kValueScales = kSliceDims / kScaleDims;                 // of a key, in a slice of value dims
const uint kScaleHeadBlocks = kScaleDims / kK;                     // matrices along the dims of one scale
const uint kScaleValueBlocks = kScaleDims / kN;
const uint kProductStride8 = VKATTN_MATRIX_STRIDE(kBlockKeys);

// Scales in the order of scale, then key.
shared float key_scale_stage[VKATTN_MATRIX_SCALE_STAGE4(kBlockKeys, kKeyScales, kKeysScaled) * 4];
shared vec4 value_scale_stage[VKATTN_MATRIX_SCALE_STAGE4(kBlockKeys, kValueScales, kValuesScaled)];
// For each subgroup: probabilities times the scales of 32 value dims, as operands.
shared uvec4 product_stage[VKATTN_MATRIX_PRODUCT_STAGE4(kBlockRows, kBlockKeys, kValuesScaled)];

// Stages the scales of a tile. Keys from key_end on are never read; their scales are 0.
void load_scales(uint batch, uint kv_head, int first_key, int key_end, uint slice) {
  if (kKeysScaled) {
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kKeyScales; i += kThreads) {
      const uint key = uint(first_key) + i % kBlockKeys;
      const uint dim = i / kBlockKeys * kScaleDims;
      key_scale_stage[i] = int(key) < key_end ? key_scale_of(key_row(batch, kv_head, key), dim) : 0.0;
    }
  }
  if (kValuesScaled) {
    [[dont_unroll]] for (uint i = gl_LocalInvocationIndex; i < kBlockKeys * kValueScales; i += kThreads) {
      const uint key = uint(first_key) + i % kBlockKeys;
      const uint dim = slice * kSliceDims + i / kBlockKeys * kScaleDims;
      const bool exists = int(key) < key_end && dim < kValueDim;
      value_scale_stage[i / 4][i % 4] = exists ? value_scale_of(value_row(batch, kv_head, key), dim) : 0.0;
    }
  }
}

// Writes Q K^T to the subgroup's stage, for keys that have a scale for each kScaleDims dims.
void compute_scaled_scores() {
  [[unroll]] for (uint n = 0; n < kKeyBlocks; ++n) {
    MatrixC scores[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) scores[r] = MatrixC(0.0);
    [[unroll]] for (uint s = 0; s < kKeyScales; ++s) {
      MatrixC part[kRowBlocks];
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) part[r] = MatrixC(0.0);
      [[unroll]] for (uint b = s * kScaleHeadBlocks; b < min((s + 1) * kScaleHeadBlocks, kHeadBlocks); ++b) {
        MatrixB keys;
        VKATTN_LOAD_KEYS(keys, b, n)
        [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
          MatrixA queries;
          VKATTN_LOAD_QUERIES(queries, r, b)
          part[r] = coopMatMulAdd(queries, keys, part[r]);
        }
      }
      MatrixC scales;  // equal in all rows
      coopMatLoad(scales, key_scale_stage, s * kBlockKeys + n * kN, 0, gl_CooperativeMatrixLayoutRowMajor);
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) scores[r] = scores[r] + part[r] * scales;
    }
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) store_scores(scores[r], r, n);
  }
}

// Probabilities times scales; 0 for hidden keys, whatever their scales are. kHiddenProbability marks hidden keys, as the
// scale of a visible key counts even if its probability is 0.
vec4 scaled_probabilities(uvec4 bits, vec4 scales) {
  const vec4 probabilities = uintBitsToFloat(bits);
  return mix(probabilities * scales, vec4(0.0), equal(probabilities, vec4(kHiddenProbability)));
}

// The larger of `largest` and the finite magnitudes of `products`.
float largest_of(vec4 products, float largest) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const uint magnitude = floatBitsToUint(products[i]) & 0x7fffffffu;
    if (magnitude < 0x7f800000u) largest = max(largest, uintBitsToFloat(magnitude));
  }
  return largest;
}

// Multiplies the lane's part of a row of probabilities, which it has left in the stage, by the scales of kScaleDims value
// dims. The products become operands, scaled so that the row's largest is kLargestProduct: far from the least normal number
// of 16 bits, rounding stays relative. The row's factor undoes this scaling.
void place_row_products(uint scale, uint row) {
  const float kLargestProduct = 16384.0;
  const float kLeast = 1e-30;  // negligible beside the row's other tiles; its reciprocal is finite
  const uint part = row * kScoreStride4 + lane_part * kLaneKeys8 * 2u;
  const uint first_scales = scale * (kBlockKeys / 4) + lane_part * kLaneKeys8 * 2u;
  vec4 products[kLaneKeys8 * 2];
  float largest = 0.0;
  [[unroll]] for (uint v = 0; v < kLaneKeys8 * 2; ++v) {
    products[v] = scaled_probabilities(score_stage[part + v], value_scale_stage[first_scales + v]);
    largest = largest_of(products[v], largest);
  }
  [[unroll]] for (uint lanes = kSubgroupRows; lanes < kSubgroupSize; lanes *= 2) {
    largest = max(largest, subgroupShuffleXor(largest, lanes));
  }
  const float normal = largest < kLeast ? 0.0 : kLargestProduct / largest;
  [[unroll]] for (uint v = 0; v < kLaneKeys8; ++v) {
    product_stage[row * kProductStride8 + lane_part * kLaneKeys8 + v] =
        pack_operands8(products[v * 2] * normal, products[v * 2 + 1] * normal);
  }
  if (lane_part == 0) factor_stage[row] = largest * (1.0 / kLargestProduct);
}

// sums += P V, for the value dims of one scale.
void accumulate_value_scale(uint s) {
  subgroup_barrier();  // products and factors were read before the next ones overwrite them
  [[unroll]] for (uint i = 0; i < kLaneRows; ++i) {
    place_row_products(s, subgroup_row + lane_row + i * kSubgroupSize);
  }
  subgroup_barrier();  // products and factors are complete before other lanes read them
  MatrixC part[kRowBlocks * kScaleValueBlocks];
  [[unroll]] for (uint i = 0; i < kRowBlocks * kScaleValueBlocks; ++i) part[i] = MatrixC(0.0);
  [[unroll]] for (uint b = 0; b < kProductBlocks; ++b) {
    MatrixA products[kRowBlocks];
    [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
      coopMatLoad(products[r], product_stage, (subgroup_row + r * kM) * kProductStride8 + b * (kK / 8),
                  kProductStride8, gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint n = 0; n < kScaleValueBlocks; ++n) {
      MatrixB values;
      VKATTN_LOAD_VALUES(values, b, s * kScaleValueBlocks + n)
      [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
        part[r * kScaleValueBlocks + n] = coopMatMulAdd(products[r], values, part[r * kScaleValueBlocks + n]);
      }
    }
  }
  [[unroll]] for (uint r = 0; r < kRowBlocks; ++r) {
    MatrixC factors;  // equal in all columns
    coopMatLoad(factors, factor_stage, subgroup_row + r * kM, 0, gl_CooperativeMatrixLayoutColumnMajor);
    [[unroll]] for (uint n = 0; n < kScaleValueBlocks; ++n) {
      const uint sum = r * kValueBlocks + s * kScaleValueBlocks + n;
      sums[sum] = sums[sum] + part[r * kScaleValueBlocks + n] * factors;
    }
  }
}

// sums += P V, for values that have a scale for each kScaleDims dims.
void accumulate_scaled_values() {
  VKATTN_STEPS(kValueScales, accumulate_value_scale)
}

#else

const bool kKeysScaled = false;
const bool kValuesScaled = false;
void load_scales(uint batch, uint kv_head, int first_key, int key_end, uint slice) {}
void compute_scaled_scores() {}
void accumulate_scaled_values() {}

#endif

#endif

// The parameters of features (masks, windows, caches, lengths and the like), and those of their specialization constants
// that several files use. Shaders are built without features (VKATTN_FEATURES 0) and with them; a constant switches off
// each feature that a problem does not use.
//
// The code and the other constants of a feature are in the file of its subject, with and without features:
// lib/entries.glsl, lib/key_ranges.glsl, lib/mask.glsl, lib/scores.glsl, lib/softmax_start.glsl, lib/dropout.glsl,
// lib/block_mask.glsl and lib/quantised.glsl.
#ifndef VKATTN_LIB_FEATURES
#define VKATTN_LIB_FEATURES

#include "lib/specialization.glsl"

// A score of -inf comes only from infinities in Q and K. With this constant it hides its key, even if the key's value is
// NaN, in the kernels on single threads. Then all steps look for such scores.
layout(constant_id = VKATTN_SPEC_STRICT_NONFINITE) const bool kStrictNonfinite = false;

#if VKATTN_FEATURES

layout(constant_id = VKATTN_SPEC_MASK_TYPE) const uint kMaskType = VKATTN_MASK_NONE;
layout(constant_id = VKATTN_SPEC_ALIGN_BOTTOM_RIGHT) const bool kAlignBottomRight = false;
layout(constant_id = VKATTN_SPEC_HAS_QUERY_LENGTHS) const bool kHasQueryLengths = false;
layout(constant_id = VKATTN_SPEC_PACKED_QUERIES) const bool kPackedQueries = false;
layout(constant_id = VKATTN_SPEC_KEY_MAPPING) const uint kKeyMapping = VKATTN_KEYS_CONTIGUOUS;
layout(constant_id = VKATTN_SPEC_CACHE_ROWS) const uint kCacheRows = 1;
layout(constant_id = VKATTN_SPEC_BLOCK_ROWS) const uint kBlockMaskRows = 0;
layout(constant_id = VKATTN_SPEC_BLOCK_KEYS) const uint kBlockMaskKeys = 32;

#include "shared/feature_params.h"

layout(set = 0, binding = VKATTN_BINDING_FEATURE_PARAMS, std430) readonly buffer Features { FeatureParams features; };

#endif

#endif

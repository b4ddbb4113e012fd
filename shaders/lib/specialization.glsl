// Specialization constants and push constants of every attention kernel.
#ifndef VKATTN_LIB_SPECIALIZATION
#define VKATTN_LIB_SPECIALIZATION

#include "lib/forms.glsl"
#include "shared/attention_constants.h"
#include "shared/attention_params.h"

layout(constant_id = VKATTN_SPEC_HEAD_DIM) const uint kHeadDim = 64;
layout(constant_id = VKATTN_SPEC_VALUE_DIM) const uint kValueDim = 64;
layout(constant_id = VKATTN_SPEC_QUERY_TYPE) const uint kQueryType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_KEY_TYPE) const uint kKeyType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_VALUE_TYPE) const uint kValueType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_OUTPUT_TYPE) const uint kOutputType = VKATTN_TYPE_FLOAT32;
layout(constant_id = VKATTN_SPEC_QUERY_DIM_STRIDE) const uint kQueryDimStride = 1;
layout(constant_id = VKATTN_SPEC_KEY_DIM_STRIDE) const uint kKeyDimStride = 1;
layout(constant_id = VKATTN_SPEC_VALUE_DIM_STRIDE) const uint kValueDimStride = 1;
layout(constant_id = VKATTN_SPEC_OUTPUT_DIM_STRIDE) const uint kOutputDimStride = 1;
layout(constant_id = VKATTN_SPEC_QUERY_VECTOR_LOADS) const bool kQueryVectorLoads = false;
layout(constant_id = VKATTN_SPEC_KEY_VECTOR_LOADS) const bool kKeyVectorLoads = false;
layout(constant_id = VKATTN_SPEC_VALUE_VECTOR_LOADS) const bool kValueVectorLoads = false;
layout(constant_id = VKATTN_SPEC_CAUSAL_MODE) const uint kCausalMode = VKATTN_CAUSAL_NONE;
layout(constant_id = VKATTN_SPEC_HAS_KV_LENGTHS) const bool kHasKvLengths = false;
layout(constant_id = VKATTN_SPEC_HAS_LSE) const bool kHasLse = false;
layout(constant_id = VKATTN_SPEC_SPLIT_KV) const bool kSplitKv = false;
layout(constant_id = VKATTN_SPEC_COMBINES_PARTS) const bool kCombinesParts = false;
layout(constant_id = VKATTN_SPEC_SUMS_IN_WORKSPACE) const bool kSumsInWorkspace = false;
layout(constant_id = VKATTN_SPEC_TILES_IN_PAIRS) const bool kTilesInPairs = false;

// A shader that reaches buffers by addresses of its own defines their names before it includes this.
#ifndef VKATTN_ADDRESS_PARAMS
#define VKATTN_ADDRESS_PARAMS
#endif
layout(push_constant, std430) uniform PushConstants { AttentionParams params; VKATTN_ADDRESS_PARAMS };

#endif

// The push constants and constants of cache_append.comp.
#ifndef VKATTN_CACHE_PARAMS
#define VKATTN_CACHE_PARAMS

#include "shared/cache_constants.h"
#include "shared/cache_params.h"

layout(push_constant, std430) uniform PushConstants { AppendParams params; };

#endif

// The push constants of cache_append.comp, and what else it shares with the host.
#ifndef VKATTN_CACHE_PARAMS
#define VKATTN_CACHE_PARAMS

#include "shared/cache_constants.h"
#include "shared/cache_params.h"

layout(push_constant, std430) uniform PushConstants { AppendParams params; };

#endif

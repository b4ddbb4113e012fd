// The parameters that shaders and host share.
#pragma once

#include <cstdint>

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/attention_params.h"
#include "shared/feature_params.h"
}  // namespace shared
using shared::AttentionParams;
using shared::FeatureParams;

static_assert(sizeof(AttentionParams) <= 128, "push constants of 128 bytes are all that every device has");

}  // namespace vkattn::detail

// Attention's parameters, which shaders and host share.
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

}  // namespace vkattn::detail

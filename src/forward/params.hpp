// The shaders' parameters for a window, without the parts that depend on buffers.
#pragma once

#include "attention/params.hpp"
#include "forward/layout.hpp"

namespace vkattn::detail {

[[nodiscard]] AttentionParams window_params(const AttentionDesc& desc, const KvSplit& split,
                                            const Window& window);

[[nodiscard]] FeatureParams window_feature_params(const AttentionDesc& desc, const PlannedWindow& window);

}  // namespace vkattn::detail

// Parameters of the shaders for a window, without what depends on buffers.
#pragma once

#include "attention/params.hpp"
#include "forward/layout.hpp"

namespace vkattn::detail {

[[nodiscard]] AttentionParams window_params(const AttentionDesc& desc, const KvSplit& split,
                                            const Window& window);

[[nodiscard]] FeatureParams window_feature_params(const AttentionDesc& desc, const PlannedWindow& window);

}  // namespace vkattn::detail

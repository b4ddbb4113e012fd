// The rules for what a problem does to its scores and for where a cache keeps its keys.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <string>

#include "shared/attention_constants.h"

namespace vkattn::detail {

/// Those of validate() that concern masks, windows, softcap, ALiBi, dropout, lengths and caches. Sizes have
/// been checked.
[[nodiscard]] Status check_features(const AttentionDesc& desc);

/// That scores of single keys may turn out hidden: no step of a kernel can do without looking.
[[nodiscard]] inline bool scores_hide(const AttentionDesc& desc) {
  return desc.mask.type != MaskType::kNone || desc.score_function_hides;
}

/// The log-sum-exp of each row is needed by a later pass, asked for or not.
[[nodiscard]] inline bool needs_row_lse(const AttentionDesc& desc) {
  return desc.weights == WeightsStage::kProbabilities;
}

/// Keys of one head do not lie at a constant distance in elements of a whole number of bytes, or not in a
/// tensor that windows could cut.
[[nodiscard]] inline bool has_movable_keys(const AttentionDesc& desc) {
  return desc.has_cumulative_lengths || desc.cache.mapping != KeyMapping::kContiguous ||
         is_quantised(desc.key.type) || is_quantised(desc.value.type);
}

/// Those of where a cache keeps its keys.
[[nodiscard]] Status check_cache(const CacheLayout& cache);

/// Key positions that a cache has room for; `contiguous` is what it is without ring or pages. A ring has no
/// end but that of int32.
[[nodiscard]] std::int64_t cache_capacity(const CacheLayout& cache, std::int64_t contiguous);

/// The first feature of the problem beyond causality, key lengths and lse, in words; empty where there is
/// none.
[[nodiscard]] std::string first_feature(const AttentionDesc& desc);
[[nodiscard]] bool has_features(const AttentionDesc& desc);

/// Storage buffers of the shaders that the problem takes.
[[nodiscard]] inline std::uint32_t binding_count(const AttentionDesc& desc) {
  return has_features(desc) ? VKATTN_FEATURE_BINDING_COUNT : VKATTN_BINDING_COUNT;
}

}  // namespace vkattn::detail

// The table of features: what a problem does to its scores, which rows and keys a batch entry has, and where
// its keys lie. Rules, refusals, specialization constants and parameters of each are in its row.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <span>
#include <string_view>

#include "attention/params.hpp"
#include "attention/window.hpp"
#include "shared/attention_constants.h"
#include "spirv/specialization.hpp"

namespace vkattn::detail {

/// A feature beyond causality, key lengths and lse. A problem without features takes shaders that know none.
/// A null function has nothing to do.
struct FeatureRow {
  std::string_view name;  ///< as in "cannot do softcap"
  bool (*is_used)(const AttentionDesc& desc);
  /// Its rules. Sizes have been checked. Called whether it is used or not.
  Result<void> (*check)(const AttentionDesc& desc);
  /// Its specialization constants, for every shader with features.
  void (*specialize)(const AttentionDesc& desc, SpecializationValues& values);
  /// Its parameters for a window.
  void (*set_params)(const AttentionDesc& desc, const Window& window, FeatureParams& params);
  /// Which of several kinds it is, if kinds differ in speed: a measurement of one kind counts less for
  /// another.
  std::uint32_t (*kind)(const AttentionDesc& desc) = nullptr;
};

[[nodiscard]] std::span<const FeatureRow> feature_table();

/// The rules of all features.
[[nodiscard]] Result<void> check_features(const AttentionDesc& desc);

/// The name of the first feature of the problem; empty where it has none.
[[nodiscard]] std::string_view first_feature(const AttentionDesc& desc);
[[nodiscard]] inline bool has_features(const AttentionDesc& desc) {
  return !first_feature(desc).empty();
}

[[nodiscard]] inline bool score_function_hides(const AttentionDesc& desc) {
  return desc.score_function && desc.score_function->hides_keys();
}

/// Buffers of the score function.
[[nodiscard]] inline std::uint32_t score_buffers(const AttentionDesc& desc) {
  return desc.score_function ? static_cast<std::uint32_t>(desc.score_function->buffers().size()) : 0;
}

/// Whether scores of single keys may turn out hidden, so that every step of a kernel must look.
[[nodiscard]] inline bool scores_hide(const AttentionDesc& desc) {
  return desc.mask.type != MaskType::kNone || score_function_hides(desc);
}

/// Whether the mask has several heads but fewer than the query heads, which take them in turn.
[[nodiscard]] inline bool mask_heads_repeat(const AttentionDesc& desc) {
  return desc.mask.type != MaskType::kNone && desc.mask.heads != kUnset && desc.mask.strides->head != 0;
}

/// Whether a later pass needs the log-sum-exp of each row, asked for or not.
[[nodiscard]] inline bool needs_row_lse(const AttentionDesc& desc) {
  return desc.weights == WeightsStage::kProbabilities;
}

/// Whether windows cannot cut the keys of one head: their distance is not constant, or no whole number of
/// bytes.
[[nodiscard]] inline bool has_movable_keys(const AttentionDesc& desc) {
  return desc.has_packed_keys() || desc.cache.mapping != KeyMapping::kContiguous ||
         is_quantised(desc.key.type) || is_quantised(desc.value.type);
}

/// The rules of where a cache keeps its keys.
[[nodiscard]] Result<void> check_cache(const CacheLayout& cache);

/// Key positions that a cache has room for. `contiguous` is the answer without ring and pages. A ring ends
/// where int32 does.
[[nodiscard]] std::int64_t cache_capacity(const CacheLayout& cache, std::int64_t contiguous);

/// Storage buffers that the shaders of the problem name; storage_buffers() of tensor_table.hpp are in use.
[[nodiscard]] inline std::uint32_t binding_count(const AttentionDesc& desc) {
  return has_features(desc) ? VKATTN_FEATURE_BINDING_COUNT : VKATTN_BINDING_COUNT;
}

}  // namespace vkattn::detail

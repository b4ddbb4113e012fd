// The first and the last key of a row, as the shaders are told.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>

#include "attention/window.hpp"

namespace vkattn::detail {

/// log2(e): scores are kept in log2 units.
inline constexpr double kLog2E = 1.4426950408889634;

/// The key position of query 0. For Align::kBottomRight it is relative to the key length; if entries have
/// query lengths of their own, the shader adds the difference.
[[nodiscard]] std::int64_t position_offset(const AttentionDesc& desc);

/// The key position at which a row's keys end, relative to the row and the window: for AttentionParams.
/// Clamped so that adding a row and a key length cannot overflow; what lies beyond hides all keys or none.
[[nodiscard]] std::int32_t right_offset(const AttentionDesc& desc, const Window& window);

/// The key position at which a row's keys begin, relative and clamped as right_offset(): for FeatureParams.
[[nodiscard]] std::int32_t left_offset(const AttentionDesc& desc, const Window& window);

}  // namespace vkattn::detail

// Where lanes keep the rows of accumulators: what a probe found becomes numbers that shaders take as
// constants (shaders/lib/matrix_lane_rows.glsl). Plain data, no Vulkan calls.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/tuning.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace vkattn::detail {

/// The most rows of a lane that the constants tell of: five bits.
inline constexpr std::uint32_t kMostLaneRows = 32;

/// Words that the probe of these sizes writes, of all subgroups (shaders/shared/row_probe_constants.h).
[[nodiscard]] std::size_t probe_words(const RowLayout& sizes);
/// Numbers that the probe reads: 0, 1, 2 and so on.
[[nodiscard]] std::size_t probe_numbers(const RowLayout& sizes);

/// The layout of the sizes by the words that the probe wrote. It has lane_rows 0 if the constants cannot tell
/// it: elements are missing or doubled, lanes differ in which components share a row, rows do not follow from
/// bits of a component's number, scores and sums put different rows into a lane, or subgroups differ.
[[nodiscard]] RowLayout decode_row_layout(const RowLayout& sizes, std::span<const std::uint32_t> words);

/// Whether the sizes, rows and lanes of the layout fit each other: a caller's may be anything. Its bits of
/// components are not checked.
[[nodiscard]] bool is_usable(const RowLayout& layout);

/// How many lanes share a row.
[[nodiscard]] std::uint32_t lanes_of_row(const RowLayout& layout);

/// Whether two layouts are of the same matrices.
[[nodiscard]] bool has_sizes_of(const RowLayout& a, const RowLayout& b);

/// The probed layout of these sizes; null if there is none.
[[nodiscard]] const RowLayout* find_row_layout(const Capabilities& capabilities, const RowLayout& sizes);

/// The sizes of the matrices whose layout a kernel needs to know for this tile; none if it needs none.
[[nodiscard]] std::optional<RowLayout> needed_row_layout(const AttentionDesc& desc,
                                                         const Capabilities& capabilities,
                                                         std::string_view kernel, const TileSizes& tile);

}  // namespace vkattn::detail

// What the append kernel must do, computed on the host: rotation in double, and the place of each row.
// harness/quantise.hpp quantises. It shares no code with the shader.
#pragma once

#include <vkattn/cache.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace vkattn::tests {

/// The elements of a block of kQ8_0 or kQ4_0. harness/quantise.hpp makes such blocks.
[[nodiscard]] std::array<float, 32> block_elements_of(DataType type, std::span<const std::byte> block);

/// The float32 value of an element's bits, for types that are not stored in blocks.
[[nodiscard]] float decoded(DataType type, std::uint32_t bits);
/// The bits of a float32 value, rounded to nearest even.
[[nodiscard]] std::uint32_t encoded(DataType type, float value);

/// Turns a row of head_dim elements at a position. `frequencies` is read only if rotary.has_frequencies.
[[nodiscard]] std::vector<double> rotated(std::span<const float> row, const RotaryDesc& rotary,
                                          std::span<const float> frequencies, std::int64_t position);

/// A row of a cache: its batch entry or page, and its row in that.
struct CacheRow {
  std::int64_t batch = 0;
  std::int64_t row = 0;
};

/// The new rows of a batch entry: the place of the first one in their tensors, and their number.
struct NewRows {
  CacheRow first;
  std::int64_t count = 0;
};

/// Whether a packed row lies after the last cumulative length, so that it is not written.
[[nodiscard]] bool is_behind_the_last(const AppendDesc& desc,
                                      std::span<const std::int32_t> cumulative_new_lengths, std::int64_t row);

/// Lengths that the descriptor does not ask for are not read.
[[nodiscard]] NewRows new_rows(const AppendDesc& desc, std::span<const std::int32_t> new_lengths,
                               std::span<const std::int32_t> cumulative_new_lengths, std::int64_t batch);

/// The place of a key position's row. Nothing if the cache has no such position or page.
[[nodiscard]] std::optional<CacheRow> cache_row(const AppendDesc& desc,
                                                std::span<const std::int32_t> page_table, std::int64_t batch,
                                                std::int64_t position);

}  // namespace vkattn::tests

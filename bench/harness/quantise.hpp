// Quantised storage made on the host, from float32, as docs/semantics.md ("Writing a cache") defines it: bit
// by bit what the append kernel writes.
#pragma once

#include <vkattn/data_type.hpp>

#include <cstddef>
#include <span>

namespace vkattn::harness {

/// The least magnitude of a block's scale that no device flushes: the smallest float16 that is no subnormal.
inline constexpr float kLeastNormalScale = 0x1p-14F;

/// Stores block_elements(type) values as one block of block_bytes(type), kQ8_0 or kQ4_0. A scale below
/// `least_scale` in magnitude becomes that: for data made up to test with, not for a user's.
void quantise_block(DataType type, std::span<const float> values, std::span<std::byte> block,
                    float least_scale = 0);

/// The scale of a head of kFloat8E4m3 whose largest magnitude is given, so that it becomes 448.
[[nodiscard]] float e4m3_scale(float largest);

/// One element of a head of that scale as kFloat8E4m3; magnitudes beyond 448 become 448.
[[nodiscard]] std::uint8_t quantise_e4m3(float value, float scale);

}  // namespace vkattn::harness

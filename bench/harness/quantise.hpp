// Quantises float32 numbers on the host as docs/semantics.md ("Writing a cache") defines it. The bits equal
// those that the append kernel writes.
#pragma once

#include <vkattn/data_type.hpp>

#include <cstddef>
#include <span>

namespace vkattn::harness {

/// The least magnitude of a block's scale that no device flushes to zero: the smallest normal float16.
inline constexpr float kLeastNormalScale = 0x1p-14F;

/// Stores block_elements(type) values as one block of block_bytes(type), kQ8_0 or kQ4_0. A scale whose
/// magnitude is below `least_scale` becomes `least_scale`. Only made-up test data sets it; a user's data must
/// not be changed.
void quantise_block(DataType type, std::span<const float> values, std::span<std::byte> block,
                    float least_scale = 0);

/// The scale of a head of kFloat8E4m3 with which `largest`, its largest magnitude, becomes 448.
[[nodiscard]] float e4m3_scale(float largest);

/// Converts one element of a head with that scale to kFloat8E4m3. Magnitudes beyond 448 become 448.
[[nodiscard]] std::uint8_t quantise_e4m3(float value, float scale);

}  // namespace vkattn::harness

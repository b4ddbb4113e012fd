// Quantised storage made on the host, from float32.
#pragma once

#include <vkattn/data_type.hpp>

#include <cstddef>
#include <span>

namespace vkattn::harness {

/// The least magnitude of a block's scale: a float16 that is no subnormal, for devices may flush those.
inline constexpr float kLeastBlockScale = 0x1p-14F;

/// Stores block_elements(type) values as one block of block_bytes(type): of kQ8_0 the scale is the largest
/// magnitude / 127, of kQ4_0 the value of largest magnitude / -8, both rounded to float16.
void quantise_block(DataType type, std::span<const float> values, std::span<std::byte> block);

/// The scale of a head of kFloat8E4m3 whose largest magnitude is given, so that it becomes 448.
[[nodiscard]] float e4m3_scale(float largest);

/// Values divided by the head's scale, as kFloat8E4m3.
[[nodiscard]] std::uint8_t quantise_e4m3(float value, float scale);

}  // namespace vkattn::harness

// Quantisation: see quantise.hpp.
#include "harness/quantise.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace vkattn::harness {
namespace {

/// Writes the scale rounded to float16 and returns its reciprocal: values are divided by what a kernel
/// multiplies them with.
float store_scale(float scale, std::byte* block) {
  const float stored = std::copysign(std::max(std::abs(scale), kLeastBlockScale), scale);
  const std::uint16_t bits = float_to_half(stored);
  std::memcpy(block, &bits, sizeof(bits));
  return 1.0F / half_to_float(bits);
}

/// A block with a number that is not finite becomes all NaN, by its scale.
bool store_nan(std::span<const float> values, std::span<std::byte> block) {
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }))
    return false;
  constexpr std::uint16_t kNan = 0x7e00U;
  std::fill(block.begin(), block.end(), std::byte{1});
  std::memcpy(block.data(), &kNan, sizeof(kNan));
  return true;
}

void quantise_q8_0(std::span<const float> values, std::byte* block) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  const float factor = store_scale(largest / 127.0F, block);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float rounded = std::clamp(std::round(values[i] * factor), -127.0F, 127.0F);
    block[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(rounded));
  }
}

void quantise_q4_0(std::span<const float> values, std::byte* block) {
  float extreme = 0;
  for (const float value : values) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  const float factor = store_scale(extreme / -8.0F, block);
  const auto nibble = [&](float value) {
    return static_cast<unsigned>(std::clamp(std::round(value * factor) + 8.0F, 0.0F, 15.0F));
  };
  for (std::size_t i = 0; i < values.size() / 2; ++i) {
    block[2 + i] = static_cast<std::byte>(nibble(values[i]) | nibble(values[i + values.size() / 2]) << 4U);
  }
}

}  // namespace

void quantise_block(DataType type, std::span<const float> values, std::span<std::byte> block) {
  assert(values.size() == block_elements(type) && block.size() == block_bytes(type));
  if (store_nan(values, block)) return;
  if (type == DataType::kQ8_0) return quantise_q8_0(values, block.data());
  quantise_q4_0(values, block.data());
}

float e4m3_scale(float largest) {
  constexpr float kLargestE4m3 = 448.0F;
  return largest > 0 ? largest / kLargestE4m3 : 1.0F;
}

std::uint8_t quantise_e4m3(float value, float scale) {
  return float_to_e4m3(value / scale);
}

}  // namespace vkattn::harness

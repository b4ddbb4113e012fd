// Quantisation: see quantise.hpp.
#include "harness/quantise.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace vkattn::harness {
namespace {

/// The factor for all elements of a block. It is 0 if all elements must become 0.
float inverse_of(float scale) {
  constexpr float kLeastWithReciprocal = 0x1p-126F;
  return std::abs(scale) >= kLeastWithReciprocal ? 1.0F / scale : 0.0F;  // 0 if `scale` is NaN
}

void store_q8_0_codes(std::span<const float> values, float inverse, std::byte* codes) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float rounded = inverse == 0 ? 0.0F : std::clamp(std::round(values[i] * inverse), -127.0F, 127.0F);
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(rounded));
  }
}

void store_q4_0_codes(std::span<const float> values, float inverse, std::byte* codes) {
  const auto code = [&](std::size_t i) {
    // NaN times 0 is NaN, which must not be converted to an integer.
    const float scaled = inverse == 0 ? 0.0F : values[i] * inverse;
    return static_cast<unsigned>(std::clamp(scaled + 8.5F, 0.0F, 15.0F));
  };
  const std::size_t half = values.size() / 2;
  for (std::size_t i = 0; i < half; ++i) codes[i] = static_cast<std::byte>(code(i) | code(i + half) << 4U);
}

}  // namespace

void quantise_block(DataType type, std::span<const float> values, std::span<std::byte> block,
                    float least_scale) {
  assert(is_quantised(type) && values.size() == block_elements(type) && block.size() == block_bytes(type));
  float extreme = 0;  // the first element of the largest magnitude
  bool finite = true;
  for (const float value : values) {
    finite = finite && std::isfinite(value);
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  float scale = type == DataType::kQ8_0 ? std::abs(extreme) / 127.0F : extreme / -8.0F;
  scale = std::copysign(std::max(std::abs(scale), least_scale), scale);
  if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
  const std::uint16_t bits = float_to_half(scale);
  std::memcpy(block.data(), &bits, sizeof(bits));
  const auto store_codes = type == DataType::kQ8_0 ? store_q8_0_codes : store_q4_0_codes;
  store_codes(values, inverse_of(scale), block.data() + sizeof(bits));
}

float e4m3_scale(float largest) {
  constexpr float kLargestE4m3 = 448.0F;
  constexpr float kLeastWithReciprocal = 0x1p-126F;
  return largest > 0 ? std::max(largest / kLargestE4m3, kLeastWithReciprocal) : 1.0F;
}

std::uint8_t quantise_e4m3(float value, float scale) {
  return float_to_e4m3(value * (1.0F / scale));
}

}  // namespace vkattn::harness

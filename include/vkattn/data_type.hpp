// Storage types of tensor elements and their conversions on the host.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace vkattn {

/// How an element is stored. Arithmetic is float32 whatever the storage type; bfloat16 is the upper half of
/// a float32 (8 exponent bits, 7 mantissa bits) kept in a 16-bit integer.
enum class DataType : std::uint32_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2 };

/// Size of one element in bytes.
[[nodiscard]] constexpr std::uint32_t element_bytes(DataType type) {
  return type == DataType::kFloat32 ? 4U : 2U;
}

/// The name used in problem strings and on the command line: f32, f16 or bf16.
[[nodiscard]] constexpr std::string_view name(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "f16";
    case DataType::kBfloat16:
      return "bf16";
    case DataType::kFloat32:
      break;
  }
  return "f32";
}

/// IEEE 754 binary16 to binary32, exact, subnormals included.
[[nodiscard]] constexpr float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13U));
  if (magnitude < 0x0400U) {  // zero or subnormal: an integer number of 2^-24
    const float value = static_cast<float>(magnitude) * 0x1p-24F;
    return sign != 0U ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13U) + 0x38000000U));
}

/// binary32 to binary16, to nearest even; overflow gives infinity, NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {  // subnormal result: let the float adder round at bit 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
  }
  const std::uint32_t odd = (magnitude >> 13U) & 1U;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13U));
}

/// bfloat16 to binary32, exact.
[[nodiscard]] constexpr float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// binary32 to bfloat16, to nearest even; NaN stays NaN.
[[nodiscard]] constexpr std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x0040U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

}  // namespace vkattn

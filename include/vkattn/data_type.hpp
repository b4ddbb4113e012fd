/// @file
/// Storage types of tensor elements and their conversions on the host.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

namespace vkattn {

/// How an element is stored. Arithmetic is float32 whatever the storage type, unless
/// PlanOptions::arithmetic_type asks for another; bfloat16 is the upper half of a float32 (8 exponent bits, 7
/// mantissa bits) kept in a 16-bit integer.
///
/// The last three are for K and V only. kQ8_0 and kQ4_0 are the public block formats of llama.cpp: 32
/// neighbouring elements are a float16 scale and 32 signed bytes (34 bytes), or a float16 scale and 16 bytes
/// (18 bytes) whose low nibbles are elements 0 to 15 and whose high ones are 16 to 31, each 8 more than the
/// element. kFloat8E4m3 is the OCP 8-bit float without infinities (bias 7, NaN 0x7f and 0xff, largest 448),
/// times a float32 scale of its KV head.
enum class DataType : std::uint32_t {
  kFloat32 = 0,     ///< IEEE 754 binary32
  kFloat16 = 1,     ///< IEEE 754 binary16
  kBfloat16 = 2,    ///< the upper half of a binary32
  kQ8_0 = 3,        ///< blocks of 32: 8 bits an element, 34 bytes
  kQ4_0 = 4,        ///< blocks of 32: 4 bits an element, 18 bytes
  kFloat8E4m3 = 5,  ///< 8 bits an element, with a scale for each KV head
};

/// Elements that are stored together: 32 for the block formats, else 1.
[[nodiscard]] constexpr std::uint32_t block_elements(DataType type) {
  return type == DataType::kQ8_0 || type == DataType::kQ4_0 ? 32U : 1U;
}

/// Bytes of a block.
[[nodiscard]] constexpr std::uint32_t block_bytes(DataType type) {
  switch (type) {
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return 2;
    case DataType::kQ8_0:
      return 34;
    case DataType::kQ4_0:
      return 18;
    case DataType::kFloat8E4m3:
      return 1;
    case DataType::kFloat32:
      break;
  }
  return 4;
}

/// Smaller than 16 bits an element: K and V only.
[[nodiscard]] constexpr bool is_quantised(DataType type) {
  return type == DataType::kQ8_0 || type == DataType::kQ4_0 || type == DataType::kFloat8E4m3;
}

/// What a tensor's first byte must be a multiple of: an element's size, 2 for the block formats.
[[nodiscard]] constexpr std::uint32_t element_bytes(DataType type) {
  return block_elements(type) > 1 ? 2U : block_bytes(type);
}

/// The name used in problem strings and on the command line: f32, f16, bf16, q8_0, q4_0 or e4m3.
[[nodiscard]] constexpr std::string_view name(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return "f16";
    case DataType::kBfloat16:
      return "bf16";
    case DataType::kQ8_0:
      return "q8_0";
    case DataType::kQ4_0:
      return "q4_0";
    case DataType::kFloat8E4m3:
      return "e4m3";
    case DataType::kFloat32:
      break;
  }
  return "f32";
}

/// An OCP float8 e4m3 to binary32, exact.
[[nodiscard]] constexpr float e4m3_to_float(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80U) << 24U;
  const std::uint32_t magnitude = bits & 0x7fU;
  if (magnitude == 0x7fU) return std::bit_cast<float>(sign | 0x7fc00000U);
  if (magnitude < 0x08U) {  // zero or subnormal: an integer number of 2^-9
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return sign != 0U ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 20U) + 0x3c000000U));
}

/// binary32 to e4m3, to nearest even; beyond the largest number, 448, that number; NaN stays NaN.
[[nodiscard]] constexpr std::uint8_t float_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 24U) & 0x80U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);
  if (magnitude >= 0x43e00000U) return static_cast<std::uint8_t>(sign | 0x7eU);  // 448 and above
  if (magnitude < 0x3c800000U) {  // subnormal result: let the float adder round at bit 2^-9
    const float shifted = std::bit_cast<float>(magnitude) + 0x1p14F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x46800000U));
  }
  const std::uint32_t odd = (magnitude >> 20U) & 1U;
  return static_cast<std::uint8_t>(sign | ((magnitude - 0x3c000000U + 0x7ffffU + odd) >> 20U));
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

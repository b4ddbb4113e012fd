// Numbers of self-tests: see small_numbers.hpp.
#include "self_test/small_numbers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

// Further elements repeat the first ones, so that large tensors take little time. Heads of small problems
// have fewer.
constexpr std::int64_t kDistinctElements = std::int64_t{1} << 18U;

void repeat(std::vector<std::byte>& bytes, std::size_t size) {
  const std::size_t period = bytes.size();
  bytes.resize(size);
  for (std::size_t at = period; at < size; at += period) {
    std::memcpy(&bytes[at], bytes.data(), std::min(period, size - at));
  }
}

}  // namespace

void append(std::vector<std::byte>& bytes, float value, DataType type) {
  std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (type == DataType::kFloat16) bits = float_to_half(value);
  if (type == DataType::kBfloat16) bits = float_to_bfloat16(value);
  for (std::uint32_t i = 0; i < element_bytes(type); ++i)
    bytes.push_back(static_cast<std::byte>(bits >> 8U * i));
}

float element(std::span<const std::byte> bytes, std::size_t index, DataType type) {
  if (type == DataType::kFloat32) {
    float value = 0;
    std::memcpy(&value, &bytes[index * 4], 4);
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, &bytes[index * 2], 2);
  return type == DataType::kFloat16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

std::vector<std::byte> random_tensor(std::int64_t elements, DataType type, std::uint64_t seed) {
  std::vector<std::byte> bytes;
  Random random(seed);
  for (std::int64_t i = 0; i < std::min(elements, kDistinctElements); ++i) append(bytes, random.next(), type);
  repeat(bytes, static_cast<std::size_t>(elements) * element_bytes(type));
  return bytes;
}

std::vector<std::byte> random_rows(std::int64_t rows, std::int64_t dims, DataType type, std::uint64_t seed) {
  if (!is_quantised(type)) return random_tensor(rows * dims, type, seed);
  std::vector<std::byte> bytes;
  Random random(seed);
  const std::int64_t blocks = rows * dims / block_elements(type);
  const std::int64_t distinct = std::min(blocks, kDistinctElements / block_elements(type));
  for (std::int64_t block = 0; block < distinct; ++block) {
    std::uint32_t elements = block_bytes(type);
    if (block_elements(type) > 1) {
      append(bytes, random.next() / 127.0F, DataType::kFloat16);
      elements -= 2;
    }
    for (std::uint32_t i = 0; i < elements; ++i) {
      const auto bits = static_cast<unsigned>((random.next() + 2) * 64);
      const bool is_nan = type == DataType::kFloat8E4m3 && (bits & 0x7fU) == 0x7fU;
      bytes.push_back(static_cast<std::byte>(is_nan ? 0U : bits));
    }
  }
  const std::size_t whole = static_cast<std::size_t>(blocks) * block_bytes(type);
  repeat(bytes, whole);
  bytes.resize(round_up(whole, std::size_t{4}));
  return bytes;
}

std::vector<std::byte> unwritten(std::int64_t bytes) {
  return {static_cast<std::size_t>(bytes), std::byte{0xff}};
}

}  // namespace vkattn::detail

// The append kernel's reference: see cache_reference.hpp.
#include "support/cache_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace vkattn::tests {

std::array<float, 32> block_elements_of(DataType type, std::span<const std::byte> block) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, block.data(), sizeof(bits));
  const float scale = half_to_float(bits);
  std::array<float, 32> elements{};
  for (std::size_t i = 0; i < 32; ++i) {
    if (type == DataType::kQ8_0) {
      elements[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
    } else {
      const int codes = static_cast<int>(block[2 + i % 16]);
      elements[i] = scale * static_cast<float>((i < 16 ? codes & 15 : codes >> 4) - 8);
    }
  }
  return elements;
}

float decoded(DataType type, std::uint32_t bits) {
  switch (type) {
    case DataType::kFloat16:
      return half_to_float(static_cast<std::uint16_t>(bits));
    case DataType::kBfloat16:
      return bfloat16_to_float(static_cast<std::uint16_t>(bits));
    case DataType::kFloat8E4m3:
      return e4m3_to_float(static_cast<std::uint8_t>(bits));
    default:
      return std::bit_cast<float>(bits);
  }
}

std::uint32_t encoded(DataType type, float value) {
  switch (type) {
    case DataType::kFloat16:
      return float_to_half(value);
    case DataType::kBfloat16:
      return float_to_bfloat16(value);
    case DataType::kFloat8E4m3:
      return float_to_e4m3(value);
    default:
      return std::bit_cast<std::uint32_t>(value);
  }
}

std::vector<double> rotated(std::span<const float> row, const RotaryDesc& rotary,
                            std::span<const float> frequencies, std::int64_t position) {
  std::vector<double> result(row.begin(), row.end());
  if (rotary.style == RotaryStyle::kNone) return result;
  const auto pairs = static_cast<std::size_t>(rotary.dims / 2);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(rotary.dims);
    const double frequency = rotary.has_frequencies ? static_cast<double>(frequencies[i])
                                                    : rotary.position_scale * std::pow(rotary.base, exponent);
    const double angle = static_cast<double>(rotary.inverse ? -position : position) * frequency;
    const double cosine = std::cos(angle) * static_cast<double>(rotary.magnitude);
    const double sine = std::sin(angle) * static_cast<double>(rotary.magnitude);
    const bool interleaved = rotary.style == RotaryStyle::kInterleaved;
    const std::size_t first = interleaved ? 2 * i : i;
    const std::size_t second = interleaved ? 2 * i + 1 : i + pairs;
    const auto x = static_cast<double>(row[first]);
    const auto y = static_cast<double>(row[second]);
    result[first] = x * cosine - y * sine;
    result[second] = y * cosine + x * sine;
  }
  return result;
}

bool is_behind_the_last(const AppendDesc& desc, std::span<const std::int32_t> cumulative_new_lengths,
                        std::int64_t row) {
  return desc.new_lengths == Lengths::kPacked && row >= cumulative_new_lengths.back();
}

NewRows new_rows(const AppendDesc& desc, std::span<const std::int32_t> new_lengths,
                 std::span<const std::int32_t> cumulative_new_lengths, std::int64_t batch) {
  const auto b = static_cast<std::size_t>(batch);
  if (desc.new_lengths != Lengths::kPacked) {
    std::int64_t count = desc.new_length;
    if (desc.new_lengths == Lengths::kPerEntry) count = std::clamp<std::int64_t>(new_lengths[b], 0, count);
    return {{batch, 0}, count};
  }
  const std::int64_t total = desc.total_new_length;
  const std::int64_t first = std::clamp<std::int64_t>(cumulative_new_lengths[b], 0, total);
  const std::int64_t length = cumulative_new_lengths[b + 1] - first;
  return {{0, first}, std::clamp<std::int64_t>(length, 0, std::min(desc.new_length, total - first))};
}

std::optional<CacheRow> cache_row(const AppendDesc& desc, std::span<const std::int32_t> page_table,
                                  std::int64_t batch, std::int64_t position) {
  const CacheLayout& cache = desc.cache;
  if (position < 0) return std::nullopt;
  switch (cache.mapping) {
    case KeyMapping::kContiguous:
      if (position >= desc.cache_length) return std::nullopt;
      return CacheRow{batch, position};
    case KeyMapping::kRing:
      if (position >= std::numeric_limits<std::int32_t>::max()) return std::nullopt;
      return CacheRow{batch, position % cache.ring_length};
    case KeyMapping::kPaged:
      break;
  }
  const std::int64_t entry = position / cache.page_size;
  if (entry >= cache.page_table_stride) return std::nullopt;
  const std::int64_t page = page_table[static_cast<std::size_t>(batch * cache.page_table_stride + entry)];
  if (page < 0 || page >= cache.page_count) return std::nullopt;
  return CacheRow{page, position % cache.page_size};
}

}  // namespace vkattn::tests

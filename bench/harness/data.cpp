// Counter-based random numbers, and the data made from them.
#include "harness/data.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "common/mix.hpp"

namespace vkattn::harness {
namespace {

using bench::DataKind;
using detail::kGolden;
using detail::mix;

}  // namespace

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t number) {
  return mix(seed * kGolden + number);
}

std::uint64_t random_bits(std::uint64_t stream, std::uint64_t counter) {
  return mix(stream + mix((counter + 1) * kGolden));
}

double random_uniform(std::uint64_t stream, std::uint64_t counter) {
  return static_cast<double>(random_bits(stream, counter) >> 11U) * 0x1p-53;
}

/// The Box-Muller transform: two uniform numbers give two normal numbers.
double NormalNumbers::at(std::uint64_t counter) {
  const std::uint64_t pair = counter / 2;
  if (pair != pair_) {
    const std::uint64_t bits = random_bits(stream_, pair);
    const double u = (static_cast<double>(bits >> 32U) + 1.0) * 0x1p-32;  // in (0, 1], for the logarithm
    const double angle = static_cast<double>(bits & 0xffffffffU) * 0x1p-32 * 2.0 * std::numbers::pi;
    const double radius = std::sqrt(-2.0 * std::log(u));
    pair_ = pair;
    pair_values_[0] = radius * std::cos(angle);
    pair_values_[1] = radius * std::sin(angle);
  }
  return pair_values_[counter % 2];
}

std::uint16_t normal_half(float value) {
  const std::uint32_t bits = float_to_half(value);
  const std::uint32_t magnitude = bits & 0x7fffU;
  return static_cast<std::uint16_t>((bits & 0x8000U) | std::max(magnitude, 0x0400U));
}

std::uint32_t stored_bits(float value, DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return normal_half(value);
    case DataType::kBfloat16:
      return float_to_bfloat16(value);
    default:
      break;
  }
  return std::bit_cast<std::uint32_t>(value);
}

TensorData::TensorData(const Problem& problem, TensorRole role)
    : problem_(problem),
      role_(role),
      stream_(stream_of(problem.seed, static_cast<std::uint64_t>(role))),
      normal_(stream_) {
  const AttentionDesc& desc = problem.desc;
  const bool is_query = role == TensorRole::kQuery;
  const TensorDesc& tensor = is_query ? desc.query : role == TensorRole::kKey ? desc.key : desc.value;
  type_ = tensor.type;
  magnitude_ = is_query ? std::min(problem.magnitude, kLargestQueryMagnitude) : problem.magnitude;
  heads_ = is_query ? desc.query_heads : desc.kv_heads;
  rows_ = is_query ? desc.query_length : desc.kv_length;
  dims_ = role == TensorRole::kValue ? desc.value_dim : desc.head_dim;
}

/// A direction that all queries of a KV head share: +1 or -1 along each dim.
double TensorData::direction(const Position& position, std::int64_t kv_head) const {
  const std::int64_t group = position.batch * problem_.desc.kv_heads + kv_head;
  const auto counter = static_cast<std::uint64_t>(group * problem_.desc.head_dim + position.dim);
  return (random_bits(stream_of(problem_.seed, kDirectionStream), counter) & 1U) != 0 ? 1.0 : -1.0;
}

/// Gives queries a common direction. One key of each head lies along it and is eight times as long as the
/// spread of the others. At magnitude 1 its score is far above all others.
double TensorData::dominant(const Position& position, double random) const {
  const AttentionDesc& desc = problem_.desc;
  if (role_ == TensorRole::kValue) return random;
  if (role_ == TensorRole::kQuery) {
    return random + 2.0 * direction(position, position.head / (desc.query_heads / desc.kv_heads));
  }
  const auto group = static_cast<std::uint64_t>(position.batch * desc.kv_heads + position.head);
  const std::uint64_t bits = random_bits(stream_of(problem_.seed, kDominantKeyStream), group);
  if (static_cast<std::uint64_t>(position.row) != bits % static_cast<std::uint64_t>(desc.kv_length))
    return random;
  return std::copysign(8.0, static_cast<double>(desc.effective_scale())) * direction(position, position.head);
}

double TensorData::element(const Position& position) {
  // Unsigned, because a tensor with strides of 0 may have more positions than 63 bits can count.
  const auto unsigned_of = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t vector =
      (unsigned_of(position.batch) * unsigned_of(heads_) + unsigned_of(position.head)) * unsigned_of(rows_) +
      unsigned_of(position.row);
  const std::uint64_t counter = vector * unsigned_of(dims_) + unsigned_of(position.dim);
  switch (problem_.data) {
    case DataKind::kUniform:
      return magnitude_ * random_uniform(stream_, counter);
    case DataKind::kEqual:
      return magnitude_ * (role_ == TensorRole::kValue ? normal_.at(counter) : 1.0);
    case DataKind::kDominant:
      return magnitude_ * dominant(position, normal_.at(counter));
    case DataKind::kNormal:
      break;
  }
  return magnitude_ * normal_.at(counter);
}

std::uint32_t TensorData::stored(const Position& position) {
  return stored_bits(static_cast<float>(element(position)), type_);
}

}  // namespace vkattn::harness

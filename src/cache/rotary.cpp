// Rotary frequencies: see rotary.hpp.
#include "cache/rotary.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "shared/cache_constants.h"

namespace vkattn::detail {

namespace {

// A number from 0 to below 1, in units of 2^-64.
std::uint64_t fraction(double value) {
  constexpr double kLargest = 1.0 - 0x1p-53;
  return static_cast<std::uint64_t>(std::ldexp(std::min(value, kLargest), 64));
}

void add_fraction(SpecializationValues& values, std::uint32_t id, double value) {
  const std::uint64_t bits = fraction(value);
  values.push_back({id, static_cast<std::uint32_t>(bits >> 32U)});
  values.push_back({id + 1, static_cast<std::uint32_t>(bits)});
}

}  // namespace

SpecializationValues rotary_specialization(const RotaryDesc& rotary) {
  if (rotary.style == RotaryStyle::kNone) return {};
  SpecializationValues values{
      {VKATTN_APPEND_SPEC_ROTARY_STYLE, static_cast<std::uint32_t>(rotary.style)},
      {VKATTN_APPEND_SPEC_ROTARY_DIMS, static_cast<std::uint32_t>(rotary.dims)},
      {VKATTN_APPEND_SPEC_ROTARY_MAGNITUDE, std::bit_cast<std::uint32_t>(rotary.magnitude)},
      {VKATTN_APPEND_SPEC_ROTARY_INVERSE, rotary.inverse ? 1U : 0U},
      {VKATTN_APPEND_SPEC_HAS_FREQUENCIES, rotary.has_frequencies ? 1U : 0U}};
  if (rotary.has_frequencies) return values;
  add_fraction(values, VKATTN_APPEND_SPEC_FIRST_FREQUENCY, rotary.position_scale / (2 * std::numbers::pi));
  for (std::uint32_t k = 0; k < VKATTN_ROTARY_RATIOS; ++k) {
    const double exponent = -2.0 * static_cast<double>(1U << k) / static_cast<double>(rotary.dims);
    add_fraction(values, VKATTN_APPEND_SPEC_RATIOS + 2 * k, std::pow(rotary.base, exponent));
  }
  return values;
}

}  // namespace vkattn::detail

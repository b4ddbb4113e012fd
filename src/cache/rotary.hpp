// Rotary frequencies as shaders/cache/rotary.glsl takes them: 64-bit fractions of a turn for each position.
#pragma once

#include <vkattn/cache.hpp>

#include <vector>

#include "spirv/specialization.hpp"

namespace vkattn::detail {

/// The specialization values of a rotation; empty if the style is kNone.
[[nodiscard]] SpecializationValues rotary_specialization(const RotaryDesc& rotary);

}  // namespace vkattn::detail

// Shaders without what their specialization values switch off.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spirv/specialization.hpp"

namespace vkattn::detail {

/// The module without blocks that no path reaches under these values, and without functions of which
/// only such blocks speak. It computes the same: branches that remain, constants and their
/// decorations are as they were, so a pipeline is made of it with the same values. Drivers would come to the
/// same code, but Mesa's inline all functions and go through all blocks first: nine tenths of lavapipe 22.3's
/// time for a kernel that has every feature. Where words are no SPIR-V, or of a form that the project's
/// compilers do not make, all of them are returned.
[[nodiscard]] std::vector<std::uint32_t> live_code(std::span<const std::uint32_t> spirv,
                                                   std::span<const SpecializationValue> specialization);

}  // namespace vkattn::detail

// Execution modes that SPIR-V asks of a device, and that GLSL has no words for.
#pragma once

#include <cstdint>
#include <vector>

namespace vkattn::detail {

/// The execution modes to run a shader with, if the shader uses them.
struct ExecutionModes {
  bool maximal_reconvergence = false;
  bool subgroup_uniform_control_flow = false;
  bool float16_to_nearest = false;  ///< float16 results are rounded to the nearest, ties to even

  friend bool operator==(const ExecutionModes&, const ExecutionModes&) = default;
};

/// Declares the modes in a shader with one entry point. Reconvergence is of use to shaders with operations of
/// a subgroup or matrices, rounding to those that compute in float16: others stay as they are.
void declare_execution_modes(std::vector<std::uint32_t>& spirv, const ExecutionModes& modes);

}  // namespace vkattn::detail

// Accesses of shared memory in SPIR-V.
#pragma once

#include <cstdint>
#include <vector>

namespace vkattn::detail {

/// Leaves it to barriers to make shared memory available and visible (SPIR-V 1.6, 3.26, Memory Operands).
/// Under the Vulkan memory model GLSL makes every single access of it do so, and has no word for less; RADV
/// then waits around each of them. The shader's barriers must do it: workgroup_barrier() and
/// subgroup_barrier() of shaders/lib/matrix_barriers.glsl. Other memory models have no such operands, and
/// their shaders stay as they are.
void leave_shared_memory_to_barriers(std::vector<std::uint32_t>& spirv);

}  // namespace vkattn::detail

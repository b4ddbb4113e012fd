// Barriers of shared memory under the Vulkan memory model. They alone make earlier writes available and visible:
// src/spirv/shared_accesses.hpp takes that away from single accesses.
#ifndef VKATTN_LIB_MATRIX_BARRIERS
#define VKATTN_LIB_MATRIX_BARRIERS

#include "lib/matrix_forms.glsl"

const int kOrdersShared = gl_SemanticsAcquireRelease | gl_SemanticsMakeAvailable | gl_SemanticsMakeVisible;
void workgroup_barrier() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup, gl_StorageSemanticsShared, kOrdersShared);
}
void subgroup_barrier() {
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, kOrdersShared);
}

#endif

// Parts of a split over the keys that are combined by the workgroup that finishes a tile's last part. Each workgroup stores
// its part, passes parts_barrier(), counts the part in one invocation and passes the barrier again.
#ifndef VKATTN_LIB_FINISHED_PARTS
#define VKATTN_LIB_FINISHED_PARTS

#include "lib/features.glsl"
#include "lib/workgroups.glsl"

#extension GL_KHR_memory_scope_semantics : require

// The number of finished parts of each tile, behind the parameters of features if there are such. Between dispatches all
// are 0.
#if VKATTN_FEATURES
layout(set = 0, binding = VKATTN_BINDING_FEATURE_PARAMS, std430) coherent buffer FinishedParts {
  FeatureParams params_of_features;
  uint finished_parts[];
};
#else
layout(set = 0, binding = VKATTN_BINDING_FEATURE_PARAMS, std430) coherent buffer FinishedParts { uint finished_parts[]; };
#endif

// All that the workgroup's invocations did before the barrier, in coherent buffers or shared memory, comes before all that
// they do after it. The counts carry this order from one workgroup to another.
void parts_barrier() {
  controlBarrier(gl_ScopeWorkgroup, gl_ScopeDevice, gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                 gl_SemanticsAcquireRelease);
}

// Counts the workgroup's part. True if it is the last of its tile; then the count is 0 again, for the next execution.
bool count_finished_part() {
  const uint tile = (params.first_tile + workgroup_number()) / params.kv_splits;
  const bool is_last = atomicAdd(finished_parts[tile], 1u) + 1u == params.kv_splits;
  if (is_last) atomicExchange(finished_parts[tile], 0u);
  return is_last;
}

#endif

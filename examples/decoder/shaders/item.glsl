// The number of an invocation's item. The grid has two dimensions, as x alone may be too small for all items.
layout(local_size_x = 64) in;

uint item() {
  return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// What an invocation works on, of any number of items: a grid's x alone may be too small for them.
layout(local_size_x = 64) in;

uint item() {
  return (gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
}

// The sum of `part` over the invocations of a workgroup. It stays in values[0] until values are written again.
shared float values[gl_WorkGroupSize.x];

float sum_of_all(float part) {
  const uint lane = gl_LocalInvocationID.x;
  barrier();  // values of an earlier sum were read
  values[lane] = part;
  barrier();
  for (uint apart = gl_WorkGroupSize.x / 2; apart > 0; apart /= 2) {
    if (lane < apart) values[lane] += values[lane + apart];
    barrier();
  }
  return values[0];
}

// What kernels do that read tensors by their buffers' addresses, at one place for all lanes, on a CPU.
#ifndef VKATTN_LIB_BY_ADDRESS
#define VKATTN_LIB_BY_ADDRESS

#include "shared/attention_constants.h"

layout(constant_id = VKATTN_SPEC_LANE_BY_ADDRESS) const bool kByAddress = false;

// LLVM schedules from the last instructions up, one after the other: it would compute each sum over all keys before the
// next, and load V and the probabilities anew for each. Bits of all sums that go into what is stored keep the sums together.
// They are 0, which the compiler does not know: `length` is below 2^31.
uint bits_of(vec4 sum) {
  const uvec4 bits = floatBitsToUint(sum);
  return (bits.x | bits.y) | (bits.z | bits.w);
}

vec4 with_bits(vec4 sum, uint bits, uint length) {
  if (!kByAddress) return sum;
  return uintBitsToFloat(floatBitsToUint(sum) | (length < 0x80000000u ? 0 : bits));
}

#endif

// Shares the units of a stage, such as vectors of 8 elements, among threads: thread i % threads moves unit i.
#ifndef VKATTN_LIB_SHARES
#define VKATTN_LIB_SHARES

// The n-th of this thread's units. A thread without an n-th unit gets the last unit, so that no load needs a branch.
uint unit_of_share(uint n, uint units, uint threads) {
  const uint unit = gl_LocalInvocationIndex + n * threads;
  return units % threads == 0 ? unit : min(unit, units - 1u);
}

// True if the n-th unit is this thread's own, so that it writes it.
bool is_own_unit(uint n, uint units, uint threads) {
  return units % threads == 0 || gl_LocalInvocationIndex + n * threads < units;
}

#endif

// How threads share the units of a stage, such as vectors of 8 elements: unit i is that of thread i % threads.
#ifndef VKATTN_LIB_SHARES
#define VKATTN_LIB_SHARES

// The n-th of this thread's units. Where it has none this is the last one, so that a load need not be branched around.
uint unit_of_share(uint n, uint units, uint threads) {
  const uint unit = gl_LocalInvocationIndex + n * threads;
  return units % threads == 0 ? unit : min(unit, units - 1u);
}

// That it is this thread which writes it.
bool is_own_unit(uint n, uint units, uint threads) {
  return units % threads == 0 || gl_LocalInvocationIndex + n * threads < units;
}

#endif

// Loops that are written out step by step, for bodies that use arrays in registers. An array stays in registers only if all
// of its indices are constant; otherwise it lies in memory for the whole kernel. NVIDIA's compiler (580.159) ignores
// [[unroll]] for loops with barriers and for loops that count in powers of two. Other compilers unroll most loops, and some
// get worse with steps written out (docs/performance.md), so the host chooses.
//
// STEP is a function of the step, or a macro like one. Each step is a call behind a constant condition. Only the called
// function indexes arrays: glslang checks a literal index against the default sizes of specialization constants. These
// are macros, as a function cannot take a function.
#ifndef VKATTN_LIB_UNROLLED
#define VKATTN_LIB_UNROLLED

#include "shared/attention_constants.h"

layout(constant_id = VKATTN_SPEC_WRITES_OUT_STEPS) const bool kWritesOutSteps = false;

#define VKATTN_STEP(N, COUNT, STEP) \
  if ((N) < (COUNT)) { STEP(N); }

#define VKATTN_FOUR_STEPS(N, COUNT, STEP)                                  \
  VKATTN_STEP((N), COUNT, STEP) VKATTN_STEP((N) + 1u, COUNT, STEP)         \
  VKATTN_STEP((N) + 2u, COUNT, STEP) VKATTN_STEP((N) + 3u, COUNT, STEP)

// The condition stands around the loop: a loop that never runs has cost registers on Mali (Mesa 25.0).
#define VKATTN_STEPS_FROM(N, COUNT, STEP)                                        \
  if ((N) < (COUNT)) {                                                           \
    [[unroll]] for (uint step_ = (N); step_ < (COUNT); ++step_) { STEP(step_); } \
  }

// STEP(0) .. STEP(COUNT - 1).
#define VKATTN_STEPS(COUNT, STEP)                                                                                    \
  if (kWritesOutSteps) {                                                                                             \
    VKATTN_FOUR_STEPS(0u, COUNT, STEP) VKATTN_FOUR_STEPS(4u, COUNT, STEP) VKATTN_STEPS_FROM(8u, COUNT, STEP)         \
  } else {                                                                                                           \
    [[unroll]] for (uint step_ = 0; step_ < (COUNT); ++step_) { STEP(step_); }                                       \
  }
// STEP(0) .. STEP(COUNT - 1), always written out.
#define VKATTN_WRITTEN_STEPS(COUNT, STEP)                                                                            \
  VKATTN_FOUR_STEPS(0u, COUNT, STEP) VKATTN_FOUR_STEPS(4u, COUNT, STEP) VKATTN_FOUR_STEPS(8u, COUNT, STEP)           \
  VKATTN_FOUR_STEPS(12u, COUNT, STEP) VKATTN_STEPS_FROM(16u, COUNT, STEP)

// STEP(FIRST), STEP(FIRST * 2) .. below END, for exchanges within subgroups of up to 128 invocations.
#define VKATTN_LANE_STEP(LANES, FIRST, END, STEP) \
  if ((LANES) >= (FIRST) && (LANES) < (END)) { STEP(LANES); }
#define VKATTN_LANE_STEPS(FIRST, END, STEP)                                                         \
  if (kWritesOutSteps) {                                                                            \
    VKATTN_LANE_STEP(1u, FIRST, END, STEP) VKATTN_LANE_STEP(2u, FIRST, END, STEP)                   \
    VKATTN_LANE_STEP(4u, FIRST, END, STEP) VKATTN_LANE_STEP(8u, FIRST, END, STEP)                   \
    VKATTN_LANE_STEP(16u, FIRST, END, STEP) VKATTN_LANE_STEP(32u, FIRST, END, STEP)                 \
    VKATTN_LANE_STEP(64u, FIRST, END, STEP)                                                         \
  } else if ((FIRST) < (END)) {                                                                     \
    [[unroll]] for (uint lanes_ = (FIRST); lanes_ < (END); lanes_ *= 2) { STEP(lanes_); }           \
  }

#endif

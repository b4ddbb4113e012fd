// Steps over rows or keys. A pass has a loop without tests for full steps, which come first, then a loop for the masked steps
// before and after them.
//
//   begin      full_begin              full_end          end
//     | masked   | full | full | full | full | masked ...  |
#ifndef VKATTN_BACKWARD_STEP_RANGES
#define VKATTN_BACKWARD_STEP_RANGES

struct StepRange {
  int begin;
  int end;
  int full_begin;  // a whole number of masked steps from begin
  int full_end;    // a whole number of full steps from full_begin; not before it
};

// The steps over begin .. end - 1. In full_begin .. full_end - 1 every pair is visible.
StepRange step_range(int begin, int end, int full_begin, int full_end, int masked_step, int full_step) {
  StepRange steps;
  steps.begin = begin;
  steps.end = end;
  steps.full_begin = begin + (full_begin - begin + masked_step - 1) / masked_step * masked_step;
  steps.full_end = steps.full_begin + max(full_end - steps.full_begin, 0) / full_step * full_step;
  return steps;
}

int first_masked(StepRange steps) { return steps.begin == steps.full_begin ? steps.full_end : steps.begin; }

// The first step, and the step after a full one. Masked steps come last.
int first_of_steps(StepRange steps) { return steps.full_begin < steps.full_end ? steps.full_begin : first_masked(steps); }

int next_of_full(StepRange steps, int at, int full_step) {
  const int next = at + full_step;
  return next < steps.full_end ? next : first_masked(steps);
}

int next_masked(StepRange steps, int at, int masked_step) {
  const int next = at + masked_step;
  return next == steps.full_begin ? steps.full_end : next;
}

#endif

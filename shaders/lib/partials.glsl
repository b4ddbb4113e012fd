// Where a kernel writes its rows: to the output, or, if the keys are split, to the workspace as partial results. A partial
// result is a row's normalized output over its part of the keys, and after it the part's log-sum-exp in log2 units.
#ifndef VKATTN_LIB_PARTIALS
#define VKATTN_LIB_PARTIALS

#include "lib/online_softmax.glsl"
#include "lib/tensors.glsl"

layout(set = 0, binding = VKATTN_BINDING_PARTIALS, std430) buffer Partials { float partials[]; };
// The partial results again, for dispatches in which other workgroups read them.
layout(set = 0, binding = VKATTN_BINDING_PARTIALS, std430) coherent buffer CoherentPartials { float coherent_partials[]; };

void store_partial(uint index, float value) {
  if (kCombinesParts) {
    coherent_partials[index] = value;
  } else {
    partials[index] = value;
  }
}

#if VKATTN_FEATURES
layout(constant_id = VKATTN_SPEC_FIRST_PARTIAL) const uint kFirstPartial = 0;
#else
const uint kFirstPartial = 0;
#endif

uint partial_row(uint batch, uint head, uint query, uint split) {
  return kFirstPartial + (workspace_row(batch, head, query) * params.kv_splits + split) * (kValueDim + 1u);
}

uint result_row(uint batch, uint head, uint query, uint split) {
  return kSplitKv ? partial_row(batch, head, query, split) : output_row(batch, head, query);
}

void store_result(uint result_index, uint dim, float value) {
  if (kSplitKv) {
    store_partial(result_index + dim, value);
  } else {
    store_output(result_index, dim, value);
  }
}

// Stores the row's log-sum-exp, from its maximum and sum in log2 units.
void store_result_lse(uint result_index, uint batch, uint head, uint query, float maximum_log2, float sum) {
  if (kSplitKv) {
    store_partial(result_index + kValueDim, log_sum_exp2(maximum_log2, sum));
  } else {
    store_lse(batch, head, query, maximum_log2, sum);
  }
}

// The weight of a part, relative to the largest log-sum-exp of the row's parts. kHiddenProbability stands for a part that
// saw no key: its log-sum-exp is not a number to calculate with.
float part_weight(float lse, float maximum) { return lse == kHiddenScore ? kHiddenProbability : exp2(lse - maximum); }

// Adds an element of a part to the row's. The combine pass and a kernel that combines the parts itself add them in the
// same order. `precise` keeps compilers from contracting one of the two sums only, so that both give the same bits.
void add_part(float weight, float element, inout float sum, inout float result) {
  if (weight < 0.0) return;
  precise const float next_sum = sum + weight;
  precise const float next_result = result + weight * element;
  sum = next_sum;
  result = next_result;
}

float combined(float sum, float result) { return sum == 0.0 ? 0.0 : result / sum; }

#endif

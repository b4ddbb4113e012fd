// The stage of a step's visited rows in shared memory, for passes whose subgroups own rows apart. One copy serves both products:
// it is read by columns (load_transposed_NAME) and by rows (load_visited_NAME). The next step's rows are fetched into registers
// while a step is computed.
//   void begin_steps(first)   the first step's rows, from `first` on, into the stage
//   void fetch_step(first)    rows from `first` on into registers, if there are any
//   void end_step()           from registers to the stage; a step has these two barriers
//   void stage_owned_values(), load_staged_values(values, b)   owned rows that stay in shared memory (kValuesStaged)
// Rows from visited_end on are not read: the last row stands for them, and pairs with them have no factors.
// The staged form's pairs include it, behind the types and loads that it needs.
#ifndef VKATTN_BACKWARD_VISITED_STAGE
#define VKATTN_BACKWARD_VISITED_STAGE

#include "lib/forms.glsl"

#if VKATTN_STAGED

layout(constant_id = VKATTN_SPEC_GRAD_OUTPUT_LOADS8) const bool kGradOutputLoads8 = false;
VKATTN_INPUT_BITS(grad_output, kValueDim, kGradOutputDimStride, kGradOutputLoads8, kGradOutputVectorLoads)
layout(constant_id = VKATTN_SPEC_MATRIX_VALUE_LOADS8) const bool kValueLoads8 = false;
VKATTN_INPUT_BITS(value, kValueDim, kValueDimStride, kValueLoads8, kValueVectorLoads)
#if VKATTN_OWNS_KEYS
layout(constant_id = VKATTN_SPEC_MATRIX_QUERY_LOADS8) const bool kQueryLoads8 = false;
VKATTN_INPUT_BITS(query, kHeadDim, kQueryDimStride, kQueryLoads8, kQueryVectorLoads)
#else
layout(constant_id = VKATTN_SPEC_MATRIX_KEY_LOADS8) const bool kKeyLoads8 = false;
VKATTN_INPUT_BITS(key, kHeadDim, kKeyDimStride, kKeyLoads8, kKeyVectorLoads)
#endif

// Vectors of 8 elements: of a row, between rows of the stage, and that a thread moves.
const uint kHeadVectors = kHeadBlocks * kHeadBlock / 8;
const uint kValueVectors = kValueBlocks * kValueBlock / 8;
const uint kHeadStride8 = VKATTN_MATRIX_STRIDE(kHeadBlocks * kHeadBlock);
const uint kValueStride8 = VKATTN_MATRIX_STRIDE(kValueBlocks * kValueBlock);
const uint kHeadFetches = (kVisited * kHeadVectors + kThreads - 1) / kThreads;
const uint kValueFetches = (kVisited * kValueVectors + kThreads - 1) / kThreads;
const uint kFirstValue = kVisited * kHeadStride8;  // in the stage: Q or K, and dO or V behind it
// The product of kept gradients visits K alone.
const bool kVisitsValues = VKATTN_OWNS_KEYS != 0 || !kKeepsGradients;

shared uvec4 visited_stage[VKATTN_PAIR_VISITED_STAGE4(kVisited, kHeadBlocks * kHeadBlock, kValueBlocks * kValueBlock)];
shared uvec4 owned_stage[VKATTN_PAIR_OWNED_STAGE4(kBlockOwned, kValueBlocks * kValueBlock, kValuesStaged)];

uvec4 head_fetch[kHeadFetches];
uvec4 value_fetch[kValueFetches];

// Elements dim .. dim + 7 of a row of NAME, whose dims a block pads.
#define VKATTN_STAGED_BITS8(NAME, HEAD, DIMS, BLOCK, ROW, DIM)                       \
  (DIMS % BLOCK == 0 ? NAME##_full_bits8(NAME##_row(batch, HEAD, ROW), DIM)          \
                     : NAME##_bits8(NAME##_row(batch, HEAD, ROW), DIM))

uvec4 visited_head_bits8(uint row, uint dim) {
#if VKATTN_OWNS_KEYS
  return VKATTN_STAGED_BITS8(query, head, kHeadDim, kHeadBlock, row, dim);
#else
  return VKATTN_STAGED_BITS8(key, kv_head, kHeadDim, kHeadBlock, row, dim);
#endif
}

// V of a KV head, or dO of a query head.
uvec4 value_bits8_of(bool of_values, uint row, uint dim) {
  if (of_values) return VKATTN_STAGED_BITS8(value, kv_head, kValueDim, kValueBlock, row, dim);
  return VKATTN_STAGED_BITS8(grad_output, head, kValueDim, kValueBlock, row, dim);
}

// Returns at once if there is no step: lavapipe 26.1 runs the body of a loop that is never entered once.
void fetch_step(uint first) {
  if (first >= visited_end) return;
  [[unroll]] for (uint f = 0; f < kHeadFetches; ++f) {
    const uint i = unit_of_share(f, kVisited * kHeadVectors, kThreads);
    const uint row = min(first + i / kHeadVectors, visited_end - 1u);
    head_fetch[f] = visited_head_bits8(row, i % kHeadVectors * 8u);
  }
  if (!kVisitsValues) return;
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    const uint i = unit_of_share(f, kVisited * kValueVectors, kThreads);
    const uint row = min(first + i / kValueVectors, visited_end - 1u);
    value_fetch[f] = value_bits8_of(VKATTN_OWNS_KEYS == 0, row, i % kValueVectors * 8u);
  }
}

void place_step() {
  [[unroll]] for (uint f = 0; f < kHeadFetches; ++f) {
    const uint i = unit_of_share(f, kVisited * kHeadVectors, kThreads);
    if (!is_own_unit(f, kVisited * kHeadVectors, kThreads)) continue;
    visited_stage[i / kHeadVectors * kHeadStride8 + i % kHeadVectors] = head_fetch[f];
  }
  if (!kVisitsValues) return;
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    const uint i = unit_of_share(f, kVisited * kValueVectors, kThreads);
    if (!is_own_unit(f, kVisited * kValueVectors, kThreads)) continue;
    visited_stage[kFirstValue + i / kValueVectors * kValueStride8 + i % kValueVectors] = value_fetch[f];
  }
}

void end_step() {
  workgroup_barrier();  // the step's rows were read
  place_step();
  workgroup_barrier();  // the next rows are complete
}

void begin_steps(uint first) {
  fetch_step(first);
  end_step();
}

#define VKATTN_STAGED_LOADS(NAME, BLOCK, FIRST, STRIDE8)                                                     \
  void load_visited_##NAME(out VisitedRows(BLOCK) rows, uint block, bool whole) {                            \
    coopMatLoad(rows, visited_stage, FIRST + block * (BLOCK / 8u), STRIDE8, gl_CooperativeMatrixLayoutRowMajor); \
  }                                                                                                          \
  void load_transposed_##NAME(out VisitedColumns(BLOCK) columns, uint block, bool whole) {                   \
    coopMatLoad(columns, visited_stage, FIRST + block * (BLOCK / 8u), STRIDE8,                               \
                gl_CooperativeMatrixLayoutColumnMajor);                                                      \
  }
#if VKATTN_OWNS_KEYS
VKATTN_STAGED_LOADS(query, kHeadBlock, 0u, kHeadStride8)
VKATTN_STAGED_LOADS(grad_output, kValueBlock, kFirstValue, kValueStride8)
#else
VKATTN_STAGED_LOADS(key, kHeadBlock, 0u, kHeadStride8)
VKATTN_STAGED_LOADS(value, kValueBlock, kFirstValue, kValueStride8)
#endif

// Stages the owned rows of V or dO before `end`, and zeros for others. The first barrier of the steps completes it.
void stage_owned_values(uint end) {
  if (!kValuesStaged) return;
  for (uint i = gl_LocalInvocationIndex; i < kBlockOwned * kValueVectors; i += kThreads) {
    const uint row = first_of_block + i / kValueVectors;
    uvec4 elements = uvec4(0u);
    if (row < end) elements = value_bits8_of(VKATTN_OWNS_KEYS != 0, row, i % kValueVectors * 8u);
    owned_stage[i / kValueVectors * kValueStride8 + i % kValueVectors] = elements;
  }
}

void load_staged_values(out OwnedRows(kValueBlock) values, uint block) {
  coopMatLoad(values, owned_stage, gl_SubgroupID * kOwned * kValueStride8 + block * (kValueBlock / 8u), kValueStride8,
              gl_CooperativeMatrixLayoutRowMajor);
}

#endif

#endif

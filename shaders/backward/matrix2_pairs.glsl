// The common part of the matrix2 form's passes. A workgroup owns kBlockOwned rows of a query head, or as many keys of a KV head
// (VKATTN_OWNS_KEYS), and visits keys or rows, kVisited at a time. Both passes compute scores and <dO, v>, so that no number of a
// pair goes through memory, or with kKeepsGradients the keys' pass alone, which leaves gradients of scores to the rows' pass, for
// one chunk of the keys after another:
//   scores    = owned Q or K times visited K or Q, transposed
//   products  = owned dO or V times visited V or dO, transposed
//   sums     += factors of pairs times visited rows
// In workgroup scope one matrix holds all pairs of a step. The driver spreads matrices over the workgroup and moves them through
// shared memory as it chooses; it loads each visited operand twice from memory, once transposed. In the staged form each subgroup
// owns kOwned rows or keys, and the workgroup stages one copy of the visited rows, which is read by columns and by rows.
//
// As float16 operands, gradients of scores are multiples of their owner's unit, see backward/units.glsl. bfloat16 has the
// range of float32 and needs no units.
#ifndef VKATTN_BACKWARD_MATRIX2_PAIRS
#define VKATTN_BACKWARD_MATRIX2_PAIRS

#include "lib/forms.glsl"

#if VKATTN_FEATURES

#include "backward/gradients.glsl"
#include "backward/row_ranges.glsl"
#include "backward/scores.glsl"
#include "backward/units.glsl"
#include "lib/grid.glsl"
#include "lib/key_ranges.glsl"
#include "lib/matrix_forms.glsl"
#include "lib/matrix2_loads.glsl"
#include "lib/matrix2_rows.glsl"

#extension GL_NV_cooperative_matrix2 : require

#ifndef VKATTN_OWNS_KEYS
#define VKATTN_OWNS_KEYS 0
#endif

// The staged form. It needs neither tensor addressing nor workgroup scope.
#if VKATTN_STAGED
#extension GL_KHR_shader_subgroup_vote : require
#include "lib/matrix_barriers.glsl"
#include "lib/shares.glsl"
#include "lib/tensor_bits.glsl"
#include "shared/shared_memory.h"
#define VKATTN_PAIR_SCOPE gl_ScopeSubgroup
#else
#define VKATTN_PAIR_SCOPE gl_ScopeWorkgroup
#endif

// The defaults are sizes that devices list, as validation layer 1.4.309 checks them in place of the values in force.
layout(local_size_x = 128, local_size_x_id = VKATTN_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_SPEC_STEP_OWNED) const uint kOwned = 32;
layout(constant_id = VKATTN_SPEC_STEP_VISITED) const uint kVisited = 32;
layout(constant_id = VKATTN_SPEC_PAIR_HEAD_BLOCK) const uint kHeadBlock = 32;    // dims of a matrix; in workgroup scope all
layout(constant_id = VKATTN_SPEC_PAIR_VALUE_BLOCK) const uint kValueBlock = 32;  // likewise of V and dO
layout(constant_id = VKATTN_SPEC_PAIR_OWNER_COLUMNS) const uint kOwnerColumns = 32;

layout(constant_id = VKATTN_SPEC_KEEPS_GRADIENTS) const bool kKeepsGradients = false;

const uint kHeadBlocks = (kHeadDim + kHeadBlock - 1) / kHeadBlock;
const uint kValueBlocks = (kValueDim + kValueBlock - 1) / kValueBlock;
#if VKATTN_STAGED
layout(constant_id = VKATTN_SPEC_WORKGROUP_SIZE) const uint kThreads = 128;
layout(constant_id = VKATTN_SPEC_MATRIX2_SUBGROUPS) const uint kSubgroups = 4;
// Whether the owned rows of V or dO stay in shared memory, for want of registers.
layout(constant_id = VKATTN_SPEC_PAIR_VALUES_STAGED) const bool kValuesStaged = false;
const uint kBlockOwned = kSubgroups * kOwned;
const uint kHeldValueBlocks = kValuesStaged ? 1 : kValueBlocks;
#define VKATTN_EACH_BLOCK(COUNT) [[unroll]] for (uint b = 0; b < COUNT; ++b)
#define VKATTN_BLOCKS(NAME, COUNT) NAME[COUNT]
#define VKATTN_BLOCK(NAME) NAME[b]
#else
// All dims are one block, b = 0: a matrix in place of an array of them, which a driver might keep in memory.
const uint kBlockOwned = kOwned;
const uint b = 0u;
#define VKATTN_EACH_BLOCK(COUNT)
#define VKATTN_BLOCKS(NAME, COUNT) NAME
#define VKATTN_BLOCK(NAME) NAME
#endif

#define VKATTN_PAIR_MATRIX(ELEMENT, ROWS, COLUMNS, USE) coopmat<ELEMENT, VKATTN_PAIR_SCOPE, ROWS, COLUMNS, USE>
#define OwnedRows(DIMS) VKATTN_PAIR_MATRIX(VKATTN_MATRIX_ELEMENT, kOwned, DIMS, gl_MatrixUseA)
#define VisitedRows(DIMS) VKATTN_PAIR_MATRIX(VKATTN_MATRIX_ELEMENT, kVisited, DIMS, gl_MatrixUseB)
#define VisitedColumns(DIMS) VKATTN_PAIR_MATRIX(VKATTN_MATRIX_ELEMENT, DIMS, kVisited, gl_MatrixUseB)
#define FactorMatrix VKATTN_PAIR_MATRIX(VKATTN_MATRIX_ELEMENT, kOwned, kVisited, gl_MatrixUseA)
#define PairMatrix VKATTN_PAIR_MATRIX(float, kOwned, kVisited, gl_MatrixUseAccumulator)
#define SumMatrix(DIMS) VKATTN_PAIR_MATRIX(float, kOwned, DIMS, gl_MatrixUseAccumulator)
// A number of each owner, equal in all columns.
#define OwnerMatrix VKATTN_PAIR_MATRIX(float, kOwned, kOwnerColumns, gl_MatrixUseAccumulator)

layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) readonly buffer RowNumbers { vec2 row_numbers[]; };

layout(set = 0, binding = VKATTN_BINDING_PAIRS, std430) buffer KeptGradients { float kept_gradients[]; };

// Functions of an element read these globals: the driver would copy an argument for every element.
uint chunk;         // of the keys
uint batch, head, kv_head;
uint first_number;  // of the head's rows, in row_numbers
int kv_length;      // of the batch entry
uint first_of_block;  // of the owned rows or keys of the workgroup
uint first_owned;     // of those of the matrices
uint first_visited;
uint visited_end;     // rows or keys from here on are never read, as they may hold NaN

// Places the workgroup, and the subgroups within its block.
void begin_block(uint first) {
  first_of_block = first;
#if VKATTN_STAGED
  first_owned = first + gl_SubgroupID * kOwned;
#else
  first_owned = first;
#endif
}

// --- Loads ---

// For each input NAME, whose head begins at element BASE and has END rows, a block of dims of
//   load_owned_NAME       kOwned rows from first_owned on
//   load_visited_NAME     kVisited rows from first_visited on
//   load_transposed_NAME  these visited rows, transposed
// Zeros stand for rows that do not exist, for dims beyond the last, and in workgroup scope for visited rows from visited_end
// on. If `whole` says that there are no such rows, and if there are no such dims, nothing is tested. These are macros, as a
// function cannot take a buffer.
#if VKATTN_STAGED
// A function fetches owned rows by element, once for all steps.
#define VKATTN_PAIR_LOADS(NAME, DIMS, BLOCK, BASE, STRIDE, END)                                                        \
  float fetch_##NAME(const in uint row, const in uint column, const in float element, const in uint first,             \
                     const in uint end, const in uint first_dim) {                                                     \
    const uint dim = first_dim + column;                                                                               \
    return first + row < end && dim < DIMS ? NAME##_at((BASE) + (first + row) * (STRIDE), dim) : 0.0;                  \
  }                                                                                                                    \
  void load_owned_##NAME(out OwnedRows(BLOCK) rows, uint block) {                                                      \
    SumMatrix(BLOCK) fetched = SumMatrix(BLOCK)(0.0);                                                                  \
    coopMatPerElementNV(fetched, fetched, fetch_##NAME, first_owned, END, block * BLOCK);                              \
    rows = OwnedRows(BLOCK)(fetched);                                                                                  \
  }
#else
#define VKATTN_PAIR_LOAD(MATRIX, CLAMP, NAME, DIMS, BLOCK, BASE, STRIDE, END, FIRST, ROWS, FIRST_DIM, VIEW)            \
  VKATTN_LOAD_TENSOR(MATRIX, CLAMP, NAME##_quads, BASE, tensor_row_stride(STRIDE, DIMS, true), DIMS, END, FIRST, ROWS, \
                     FIRST_DIM, BLOCK, VIEW)
#define VKATTN_PAIR_LOAD_VISITED(MATRIX, WHOLE, NAME, DIMS, BLOCK, BASE, STRIDE, FIRST_DIM, VIEW)                      \
  if (WHOLE && DIMS % BLOCK == 0) {                                                                                    \
    VKATTN_PAIR_LOAD(MATRIX, gl_CooperativeMatrixClampModeUndefinedNV, NAME, DIMS, BLOCK, BASE, STRIDE, visited_end,   \
                     first_visited, kVisited, FIRST_DIM, VIEW)                                                         \
  } else {                                                                                                             \
    VKATTN_PAIR_LOAD(MATRIX, gl_CooperativeMatrixClampModeConstantNV, NAME, DIMS, BLOCK, BASE, STRIDE, visited_end,    \
                     first_visited, kVisited, FIRST_DIM, VIEW)                                                         \
  }
#define VKATTN_PAIR_LOADS(NAME, DIMS, BLOCK, BASE, STRIDE, END)                                                        \
  void load_owned_##NAME(out OwnedRows(BLOCK) rows, uint block) {                                                      \
    VKATTN_PAIR_LOAD(rows, gl_CooperativeMatrixClampModeConstantNV, NAME, DIMS, BLOCK, BASE, STRIDE, END, first_owned, \
                     kOwned, block * BLOCK, AS_IT_IS)                                                                  \
  }                                                                                                                    \
  void load_visited_##NAME(out VisitedRows(BLOCK) rows, uint block, bool whole) {                                      \
    VKATTN_PAIR_LOAD_VISITED(rows, whole, NAME, DIMS, BLOCK, BASE, STRIDE, block * BLOCK, AS_IT_IS)                    \
  }                                                                                                                    \
  void load_transposed_##NAME(out VisitedColumns(BLOCK) columns, uint block, bool whole) {                             \
    VKATTN_PAIR_LOAD_VISITED(columns, whole, NAME, DIMS, BLOCK, BASE, STRIDE, block * BLOCK, TRANSPOSED)               \
  }
#endif

VKATTN_PAIR_LOADS(query, kHeadDim, kHeadBlock, query_row(batch, head, 0u), params.query_row_stride,
                  visible_query_length())
VKATTN_PAIR_LOADS(grad_output, kValueDim, kValueBlock, grad_output_row(batch, head, 0u),
                  backward.grad_output_row_stride, visible_query_length())
VKATTN_PAIR_LOADS(key, kHeadDim, kHeadBlock, key_row(batch, kv_head, 0u), params.key_row_stride, uint(kv_length))
VKATTN_PAIR_LOADS(value, kValueDim, kValueBlock, value_row(batch, kv_head, 0u), params.value_row_stride,
                  uint(kv_length))

#if VKATTN_STAGED
#include "backward/visited_stage.glsl"
#else
void begin_steps(uint first) {}
void fetch_step(uint first) {}
void end_step() {}
#endif

// --- Operands that a workgroup owns, and sums ---

OwnedRows(kHeadBlock) VKATTN_BLOCKS(owned_heads, kHeadBlocks);         // K, or Q
OwnedRows(kValueBlock) VKATTN_BLOCKS(owned_values, kHeldValueBlocks);  // V, or dO
SumMatrix(kHeadBlock) VKATTN_BLOCKS(head_sums, kHeadBlocks);           // dK, or dQ

// products += owned values times block b of visited ones, transposed.
#if VKATTN_STAGED
void add_value_products(inout PairMatrix products, VisitedColumns(kValueBlock) columns, uint b) {
  if (kValuesStaged) {
    OwnedRows(kValueBlock) values;
    load_staged_values(values, b);
    products = coopMatMulAdd(values, columns, products);
  } else {
    products = coopMatMulAdd(owned_values[b], columns, products);
  }
}
#define VKATTN_ADD_VALUE_PRODUCTS(PRODUCTS, COLUMNS) add_value_products(PRODUCTS, COLUMNS, b)
#else
#define VKATTN_ADD_VALUE_PRODUCTS(PRODUCTS, COLUMNS) PRODUCTS = coopMatMulAdd(owned_values, COLUMNS, PRODUCTS)
#endif

void begin_head_sums() {
  VKATTN_EACH_BLOCK(kHeadBlocks) { VKATTN_BLOCK(head_sums) = SumMatrix(kHeadBlock)(0.0); }
}

// --- Functions of a pair: their arguments are its place in the matrix, its number there, and what the caller adds ---

uint query_of(uint owned, uint visited) { return VKATTN_OWNS_KEYS != 0 ? first_visited + visited : first_owned + owned; }
uint key_of(uint owned, uint visited) { return VKATTN_OWNS_KEYS != 0 ? first_owned + owned : first_visited + visited; }

// The last row stands for rows behind it; their results go nowhere.
vec2 numbers_of(uint query) { return row_numbers[first_number + min(query, visible_query_length() - 1u)]; }

// The probability, from <q, k>; 0 if the key is hidden from the row.
float pair_probability(const in uint owned, const in uint visited, const in float product, const in bool masked) {
  const uint query = query_of(owned, visited);
  const uint key = key_of(owned, visited);
  if (masked && !(query < visible_query_length() && sees_key(int(query), int(key), kv_length))) return 0.0;
  const float score = finish_score(product * params.scale_log2, score_row(batch, head, query), key, masked);
  if (kScoresHide && score == kHiddenScore) return 0.0;
  return exp2(score - numbers_of(query).x);
}

float pair_weight(const in uint owned, const in uint visited, const in float probability) {
  if (probability == 0.0) return 0.0;
  return kept_probability(probability, score_row(batch, head, query_of(owned, visited)), key_of(owned, visited));
}

// The gradient of the scaled score, times pair_scale, from <dO, v>. It is 0 for a hidden pair, whatever its rows hold.
float gradient_of_pair(const in uint owned, const in uint visited, const in float product, const in float probability,
                    const in float weight) {
  if (probability == 0.0) return 0.0;
  return scaled_pair(weight * drop_scale() * product - probability * numbers_of(query_of(owned, visited)).y);
}

// The gradient times the slope at the score.
float bent_gradient(const in uint owned, const in uint visited, const in float gradient, const in float product) {
  return gradient == 0.0 ? 0.0 : gradient * score_slope(product * params.scale_log2);
}

// The weights of a step, and the gradients of its scaled scores.
void finish_pairs(out PairMatrix weights, out PairMatrix gradients, PairMatrix scores, PairMatrix products, bool masked) {
  PairMatrix probabilities;
  coopMatPerElementNV(probabilities, scores, pair_probability, masked);
  weights = probabilities;
  if (kHasDropout) coopMatPerElementNV(weights, probabilities, pair_weight);
  coopMatPerElementNV(gradients, products, gradient_of_pair, probabilities, weights);
  if (kBendsScores) coopMatPerElementNV(gradients, gradients, bent_gradient, scores);
}

// --- Gradients that the keys' pass leaves to the rows' pass, behind the rows' numbers ---

uint kept_place(uint query, uint key) {
  const uint numbers = (2u * backward.pair_rows + 3u) / 4u * 4u;  // matrices lie at multiples of 16 bytes
  return numbers + (first_number + query) * params.split_keys + key - chunk * params.split_keys;
}

float keep_gradient(const in uint owned, const in uint visited, const in float gradient) {
  const uint query = query_of(owned, visited);
  if (query < visible_query_length()) kept_gradients[kept_place(query, key_of(owned, visited))] = gradient;
  return gradient;
}

// Keeps the gradients of the owned keys and the visited rows. `whole` says that all these rows exist. A chunk has room for keys
// behind the last one.
void keep_gradients(inout PairMatrix gradients, bool whole) {
  if (whole) {
    coopMatStore(gradients, kept_gradients, kept_place(first_visited, first_owned), params.split_keys,
                 gl_CooperativeMatrixLayoutColumnMajor);
  } else {
    coopMatPerElementNV(gradients, gradients, keep_gradient);
  }
}

// A pair that its position hides may not have been kept.
float kept_gradient(const in uint owned, const in uint visited, const in float number) {
  const uint query = query_of(owned, visited);
  const uint key = key_of(owned, visited);
  const bool is_kept = query < visible_query_length() && sees_key(int(query), int(key), kv_length);
  return is_kept ? kept_gradients[kept_place(query, key)] : 0.0;
}

// The gradients of the owned rows and the visited keys. `whole` says that all rows exist and see all keys.
void load_gradients(out PairMatrix gradients, bool whole) {
  if (whole) {
    coopMatLoad(gradients, kept_gradients, kept_place(first_owned, first_visited), params.split_keys,
                gl_CooperativeMatrixLayoutRowMajor);
  } else {
    gradients = PairMatrix(0.0);
    coopMatPerElementNV(gradients, gradients, kept_gradient);
  }
}

// --- Units ---

float larger_magnitude(const in float a, const in float b) {
  return uintBitsToFloat(max(floatBitsToUint(a) & 0x7fffffffu, floatBitsToUint(b) & 0x7fffffffu));
}

float raise_owner_unit(const in uint owned, const in uint column, const in float unit, const in float largest) {
  return power_of_two(int(raised_unit(floatBitsToUint(unit) >> 23, floatBitsToUint(largest) & 0x7fffffffu)));
}

float change_of_owner_unit(const in uint owned, const in uint column, const in float before, const in float unit) {
  return change_of_unit(floatBitsToUint(before) >> 23, floatBitsToUint(unit) >> 23);
}

float in_units(const in uint owned, const in uint visited, const in float gradient, const in float unit) {
  return gradient * units_of_one(floatBitsToUint(unit) >> 23);
}

// Weights share one unit. Rounding of large scores may take a weight beyond 1, even to 2.
#if VKATTN_MATRIX_BFLOAT16
const float kWeightUnits = 1.0;
#else
const float kWeightUnits = 32768.0;
#endif

float weight_in_units(const in uint owned, const in uint visited, const in float weight) {
  const float largest = 65504.0 / kWeightUnits;
  return (weight > largest ? largest : weight) * kWeightUnits;
}

OwnerMatrix units;  // of gradients

void begin_units() { units = OwnerMatrix(power_of_two(int(kLeastUnit))); }

#if VKATTN_STAGED
// Whether a sum of the subgroup has a factor.
bool is_changed(OwnerMatrix changes) {
  bool changed = false;
  [[unroll]] for (int i = 0; i < changes.length(); ++i) changed = changed || changes[i] != 1.0;
  return subgroupAny(changed);
}
#define VKATTN_IF_CHANGED(CHANGES) if (is_changed(CHANGES))
#else
#define VKATTN_IF_CHANGED(CHANGES)
#endif

// Turns a step's gradients into operands. It rescales the sums, which were in the old units, to the new ones.
void place_gradients(out FactorMatrix factors, PairMatrix gradients) {
#if !VKATTN_MATRIX_BFLOAT16
  OwnerMatrix largest, raised, changes;
  coopMatReduceNV(largest, gradients, gl_CooperativeMatrixReduceRowNV, larger_magnitude);
  coopMatPerElementNV(raised, units, raise_owner_unit, largest);
  coopMatPerElementNV(changes, units, change_of_owner_unit, raised);
  units = raised;
  VKATTN_IF_CHANGED(changes) {
    SumMatrix(kHeadBlock) sum_changes;
    VKATTN_SPREAD_ROWS(sum_changes, changes);
    VKATTN_EACH_BLOCK(kHeadBlocks) { VKATTN_BLOCK(head_sums) = VKATTN_BLOCK(head_sums) * sum_changes; }
  }
  PairMatrix pair_units;
  VKATTN_SPREAD_ROWS(pair_units, units);
  coopMatPerElementNV(gradients, gradients, in_units, pair_units);
#endif
  factors = FactorMatrix(gradients);
}

// Takes the units out of the sums of gradients, and multiplies them by the operands' scale, which the operands have not had.
void leave_units() {
#if !VKATTN_MATRIX_BFLOAT16
  SumMatrix(kHeadBlock) sum_units;
  VKATTN_SPREAD_ROWS(sum_units, units);
  if (kScaledFactors > 1u) sum_units = sum_units * backward.operand_scale;
  VKATTN_EACH_BLOCK(kHeadBlocks) { VKATTN_BLOCK(head_sums) = VKATTN_BLOCK(head_sums) * sum_units; }
#else
  if (kScaledFactors <= 1u) return;
  VKATTN_EACH_BLOCK(kHeadBlocks) { VKATTN_BLOCK(head_sums) = VKATTN_BLOCK(head_sums) * backward.operand_scale; }
#endif
}

#endif

#endif

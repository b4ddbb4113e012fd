// The rows' pass of the matrix2 form of the backward pass: a workgroup computes dQ of a block of rows of one query head, from
// all keys that they see, in matrices of workgroup scope or of its subgroups. See backward/matrix2_pairs.glsl.
//
//                  kVisited keys                       blocks of kHeadBlock dims
//                +---------------------------+       +----------------+
//   kOwned rows  | Q K^T and dO V^T -> p, dS |  x K  | dQ             |    nothing of a pair goes through memory
//                | one matrix each           |   =   |                |
//                +---------------------------+       +----------------+
//
// Budget of workgroup scope. Example: 128 invocations, 64 rows x 32 keys, kOwnerColumns = 16, as NVIDIA lists, 64 dims
// in Q, K, V and dO.
//   registers      of an invocation: (kOwned * (kHeadBlock + kValueBlock) / 2 of Q and dO + kOwned * kHeadBlock sums +
//                  3 * kOwned * kVisited pairs + kOwned * kOwnerColumns units + kVisited * the larger of the two blocks
//                  / 2 of K or V) / invocations = (4096 + 4096 + 6144 + 1024 + 1024) / 128 = 128
//   shared memory  the shader has none; the driver takes some
//   memory         each multiply-add reads 2 / kOwned bytes of V or K, which dS K reads again = 1/32; with kKeepsGradients
//                  2 / kOwned bytes of K + 4 / kHeadBlock of gradients = 1/32 + 1/16
//   barriers       the driver's; it moves three operands a step
//
// Staged. Example: 4 subgroups of 32 lanes, 16 rows each x 32 keys, kOwnerColumns = 8, as NVIDIA lists for subgroups, 64 dims
// in blocks of 16.
//   registers      of a lane: (kOwned * (head dims + Q and dO / 2 + 3 * kVisited + kOwnerColumns) + kVisited * the larger
//                  block / 2) / 32 + 4 * (kHeadFetches + kValueFetches) = (3712 + 256) / 32 + 16 = 140:
//                  PairPass::held_registers(). With 128 dims 220
//   shared memory  16 * (VKATTN_PAIR_VISITED_STAGE4 + VKATTN_PAIR_OWNED_STAGE4) bytes = 16 * (32 * 18 + 1) = 9,232
//   memory         each multiply-add reads 4 / (3 * kBlockOwned) bytes of K and V = 1/48
//   stages         each multiply-add reads 2 / kOwned bytes of K or V = 1/8
//   barriers       two a step, and two before the first
//
// Lost on an H100 (docs/trials/h100.md), in workgroup scope: 64 keys at 64 dims, 1030 us in place of 979; 128 rows, 1100; 64
// keys at 128 dims, 2.02 ms in place of 1.99.
//
// With kKeepsGradients there is one product instead of three: the keys' pass has left the gradients of a chunk's scores. Then
// the sums of a chunk go on from those of the chunks before it.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/matrix2_pairs.glsl"
#include "backward/step_ranges.glsl"
#include "lib/workgroups.glsl"

// The gradients of a step's scores, from scores and <dO, v>.
void make_gradients(out PairMatrix gradients, bool masked) {
  PairMatrix scores = PairMatrix(0.0);
  VKATTN_EACH_BLOCK(kHeadBlocks) {
    VisitedColumns(kHeadBlock) key_columns;
    load_transposed_key(key_columns, b, !masked);
    scores = coopMatMulAdd(VKATTN_BLOCK(owned_heads), key_columns, scores);
  }
  PairMatrix products = PairMatrix(0.0);
  VKATTN_EACH_BLOCK(kValueBlocks) {
    VisitedColumns(kValueBlock) value_columns;
    load_transposed_value(value_columns, b, !masked);
    VKATTN_ADD_VALUE_PRODUCTS(products, value_columns);
  }
  PairMatrix weights;
  finish_pairs(weights, gradients, scores, products, masked);
}

void visit(int first_key, int following, bool masked) {
  first_visited = uint(first_key);
  fetch_step(uint(following));
  PairMatrix gradients;
  if (kKeepsGradients) {
    load_gradients(gradients, !masked && first_owned + kOwned <= visible_query_length());
  } else {
    make_gradients(gradients, masked);
  }
  FactorMatrix factors;
  place_gradients(factors, gradients);
  VKATTN_EACH_BLOCK(kHeadBlocks) {
    VisitedRows(kHeadBlock) keys;
    load_visited_key(keys, b, !masked);
    VKATTN_BLOCK(head_sums) = coopMatMulAdd(factors, keys, VKATTN_BLOCK(head_sums));
  }
  end_step();
}

// Visits full steps, then the steps before and after them, which hide keys. Loops are tested at both ends, see
// lib/key_walk.glsl.
void visit_keys() {
  const uint last_row = min(first_of_block + kBlockOwned, visible_query_length()) - 1u;
  const KeyRange keys = visible_keys(int(first_of_block), int(last_row), kv_length,
                                     int(chunk * params.split_keys), int(kVisited));
  visited_end = uint(keys.end);
  const StepRange steps =
      step_range(keys.begin, keys.end, keys.full_begin, keys.full_end, int(kVisited), int(kVisited));
  begin_steps(uint(first_of_steps(steps)));
  int full = steps.full_begin;
  [[dont_unroll]] while (full < steps.full_end) {
    visit(full, next_of_full(steps, full, int(kVisited)), false);
    full += int(kVisited);
    if (full >= steps.full_end) break;
  }
  int key = first_masked(steps);
  [[dont_unroll]] while (key < steps.end) {
    const int next = next_masked(steps, key, int(kVisited));
    visit(key, next, true);
    key = next;
    if (key >= steps.end) break;
  }
}

void load_owned() {
  VKATTN_EACH_BLOCK(kHeadBlocks) { load_owned_query(VKATTN_BLOCK(owned_heads), b); }
#if VKATTN_STAGED
  stage_owned_values(visible_query_length());
  if (kValuesStaged) return;
#endif
  VKATTN_EACH_BLOCK(kHeldValueBlocks) { load_owned_grad_output(VKATTN_BLOCK(owned_values), b); }
}

float store_sum(const in uint row, const in uint column, const in float number, const in uint first_dim) {
  const uint query = first_owned + row;
  const uint dim = first_dim + column;
  if (query >= visible_query_length() || dim >= kHeadDim) return number;
  const uint row_index = grad_query_row(batch, head, query);
  const uint sum_index = backward.query_sums + (first_number + query) * kHeadDim;
  float result = number;
  if (kKeepsGradients && chunk != 0u) result += load_grad_query_sum(row_index, sum_index, dim);
  if (!kKeepsGradients || chunk + 1u == params.kv_splits) {
    store_grad_query(row_index, dim, result * backward.sum_scale);
  } else {
    store_grad_query_sum(row_index, sum_index, dim, result);
  }
  return number;
}

// Rows behind a batch entry's last row get gradients of 0. If rows are packed, they belong to other entries.
void clear_rows() {
  if (kPackedQueries) return;
  for (uint query = max(first_of_block, visible_query_length());
       query < min(first_of_block + kBlockOwned, params.query_length);
       ++query) {
    for (uint dim = gl_LocalInvocationIndex; dim < kHeadDim; dim += gl_WorkGroupSize.x) {
      store_grad_query(grad_query_row(batch, head, query), dim, 0.0);
    }
  }
}

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;  // uniform over the workgroup, as matrices and barriers ask for
  const uint blocks = (params.query_length + kBlockOwned - 1u) / kBlockOwned;
  const uint blocks_of_chunk = backward.batch * params.query_heads * blocks;
  chunk = (params.first_tile + group) / blocks_of_chunk;
  const uint unit = params.first_tile + group - chunk * blocks_of_chunk;
  const uint head_index = unit / blocks;
  const uint block = unit - head_index * blocks;
  // With a causal mask the heaviest blocks come first.
  begin_block((kCausalMode == VKATTN_CAUSAL_NONE ? block : blocks - 1u - block) * kBlockOwned);
  batch = head_index / params.query_heads;
  head = head_index - batch * params.query_heads;
  kv_head = head / params.heads_per_kv;
  begin_entry(batch, kv_head);
  clear_rows();
  if (first_of_block >= visible_query_length()) return;
  kv_length = visible_kv_length(batch);
  first_number = workspace_row(batch, head, 0u);
  if (!kKeepsGradients) load_owned();
  begin_head_sums();
  begin_units();
  visit_keys();
  leave_units();
  VKATTN_EACH_BLOCK(kHeadBlocks) {
    coopMatPerElementNV(VKATTN_BLOCK(head_sums), VKATTN_BLOCK(head_sums), store_sum, b * kHeadBlock);
  }
}

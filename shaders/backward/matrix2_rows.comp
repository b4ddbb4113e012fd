// The rows' pass of the matrix2 form of the backward pass: a workgroup computes dQ of a block of rows of one query head, from
// all keys that they see, in matrices that the driver spreads over the invocations. See backward/matrix2_pairs.glsl.
//
//                  kVisited keys                       kHeadBlock dims
//                +---------------------------+       +----------------+
//   kOwned rows  | Q K^T and dO V^T -> p, dS |  x K  | dQ: one matrix |    nothing of a pair goes through memory
//                | one matrix each           |   =   |                |
//                +---------------------------+       +----------------+
//
// Budget. Example: 128 invocations, 64 rows x 32 keys, kOwnerColumns = 16, 64 dims in Q, K, V and dO.
//   registers      of an invocation: (kOwned * (kHeadBlock + kValueBlock) / 2 of Q and dO + kOwned * kHeadBlock sums +
//                  3 * kOwned * kVisited pairs + kOwned * kOwnerColumns units + kVisited * the larger of the two blocks
//                  / 2 of K or V) / invocations = (4096 + 4096 + 6144 + 1024 + 1024) / 128 = 128
//   shared memory  the shader has none; the driver takes some
//   memory         each multiply-add reads 2 / kOwned bytes of V or K, which dS K reads again = 1/32; with kKeepsGradients
//                  2 / kOwned bytes of K + 4 / kHeadBlock of gradients = 1/32 + 1/16
//
// With kKeepsGradients there is one product instead of three: the keys' pass has left the gradients of a chunk's scores. Then
// the sums of a chunk go on from those of the chunks before it.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "backward/matrix2_pairs.glsl"
#include "backward/step_ranges.glsl"
#include "lib/workgroups.glsl"

OwnedRows(kHeadBlock) queries;
OwnedRows(kValueBlock) grad_outputs;
SumMatrix(kHeadBlock) sum;

// The gradients of a step's scores, from scores and <dO, v>.
void make_gradients(out PairMatrix gradients, bool masked) {
  VisitedColumns(kHeadBlock) key_columns;
  load_transposed_key(key_columns, !masked);
  PairMatrix scores = PairMatrix(0.0);
  scores = coopMatMulAdd(queries, key_columns, scores);
  VisitedColumns(kValueBlock) value_columns;
  load_transposed_value(value_columns, !masked);
  PairMatrix products = PairMatrix(0.0);
  products = coopMatMulAdd(grad_outputs, value_columns, products);
  PairMatrix weights;
  finish_pairs(weights, gradients, scores, products, masked);
}

void visit(int first_key, bool masked) {
  first_visited = uint(first_key);
  PairMatrix gradients;
  if (kKeepsGradients) {
    load_gradients(gradients, !masked && first_owned + kOwned <= visible_query_length());
  } else {
    make_gradients(gradients, masked);
  }
  FactorMatrix factors;
  place_gradients(factors, sum, gradients);
  VisitedRows(kHeadBlock) keys;
  load_visited_key(keys, !masked);
  sum = coopMatMulAdd(factors, keys, sum);
}

// Visits full steps, then the steps before and after them, which hide keys. Loops are tested at both ends, see
// lib/key_walk.glsl.
void visit_keys() {
  const uint last_row = min(first_owned + kOwned, visible_query_length()) - 1u;
  const KeyRange keys = visible_keys(int(first_owned), int(last_row), kv_length,
                                     int(chunk * params.split_keys), int(kVisited));
  visited_end = uint(keys.end);
  const StepRange steps =
      step_range(keys.begin, keys.end, keys.full_begin, keys.full_end, int(kVisited), int(kVisited));
  int full = steps.full_begin;
  [[dont_unroll]] while (full < steps.full_end) {
    visit(full, false);
    full += int(kVisited);
    if (full >= steps.full_end) break;
  }
  int key = first_masked(steps);
  [[dont_unroll]] while (key < steps.end) {
    visit(key, true);
    key = next_masked(steps, key, int(kVisited));
    if (key >= steps.end) break;
  }
}

float store_sum(const in uint row, const in uint dim, const in float number) {
  const uint query = first_owned + row;
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
  for (uint query = max(first_owned, visible_query_length()); query < min(first_owned + kOwned, params.query_length);
       ++query) {
    for (uint dim = gl_LocalInvocationIndex; dim < kHeadDim; dim += gl_WorkGroupSize.x) {
      store_grad_query(grad_query_row(batch, head, query), dim, 0.0);
    }
  }
}

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;  // uniform over the workgroup, as matrices ask for
  const uint blocks = (params.query_length + kOwned - 1u) / kOwned;
  const uint blocks_of_chunk = backward.batch * params.query_heads * blocks;
  chunk = (params.first_tile + group) / blocks_of_chunk;
  const uint unit = params.first_tile + group - chunk * blocks_of_chunk;
  const uint head_index = unit / blocks;
  const uint block = unit - head_index * blocks;
  // With a causal mask the heaviest blocks come first.
  first_owned = (kCausalMode == VKATTN_CAUSAL_NONE ? block : blocks - 1u - block) * kOwned;
  batch = head_index / params.query_heads;
  head = head_index - batch * params.query_heads;
  kv_head = head / params.heads_per_kv;
  begin_entry(batch, kv_head);
  clear_rows();
  if (first_owned >= visible_query_length()) return;
  kv_length = visible_kv_length(batch);
  first_number = workspace_row(batch, head, 0u);
  if (!kKeepsGradients) {
    load_owned_query(queries);
    load_owned_grad_output(grad_outputs);
  }
  sum = SumMatrix(kHeadBlock)(0.0);
  begin_units();
  visit_keys();
  leave_units(sum);
  coopMatPerElementNV(sum, sum, store_sum);
}

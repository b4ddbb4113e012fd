// The keys' pass of the matrix2 form of the backward pass: a workgroup computes dK and dV of a block of keys of one KV head,
// from all rows of the query heads that share it, in matrices that the driver spreads over the invocations. See
// backward/matrix2_pairs.glsl.
//
//                  kVisited rows                            kHeadBlock dims       kValueBlock dims
//                +---------------------------+            +----------------+    +----------------+
//   kOwned keys  | K Q^T and V dO^T -> p, dS |  dS x Q =  | dK: one matrix |    | dV: one matrix |  = p x dO
//                | one matrix each           |            |                |    |                |
//                +---------------------------+            +----------------+    +----------------+
//
// Budget. Example: 128 invocations, 64 keys x 64 rows, kOwnerColumns = 16, 64 dims in Q, K, V and dO.
//   registers      of an invocation: (kOwned * (kHeadBlock + kValueBlock) / 2 of K and V + kOwned * (kHeadBlock +
//                  kValueBlock) sums + 3 * kOwned * kVisited pairs + kOwned * kOwnerColumns units + kVisited * the
//                  larger of the two blocks / 2 of Q or dO) / invocations = (4096 + 8192 + 12288 + 1024 + 2048) / 128 =
//                  216
//   shared memory  the shader has none; the driver takes some
//   memory         each multiply-add reads 2 / kOwned bytes of Q or dO, each of which is read twice, transposed and by
//                  rows = 1/32; with kKeepsGradients it writes 1 / kHeadBlock of gradients
#version 460
#extension GL_GOOGLE_include_directive : require

#define VKATTN_OWNS_KEYS 1
#include "backward/matrix2_pairs.glsl"
#include "backward/step_ranges.glsl"
#include "lib/workgroups.glsl"

OwnedRows(kHeadBlock) keys;
OwnedRows(kValueBlock) values;
SumMatrix(kHeadBlock) key_sum;
SumMatrix(kValueBlock) value_sum;

void visit(uint first_query, bool masked) {
  first_visited = first_query;
  VisitedColumns(kHeadBlock) query_columns;
  load_transposed_query(query_columns, !masked);
  PairMatrix scores = PairMatrix(0.0);
  scores = coopMatMulAdd(keys, query_columns, scores);
  VisitedColumns(kValueBlock) grad_output_columns;
  load_transposed_grad_output(grad_output_columns, !masked);
  PairMatrix products = PairMatrix(0.0);
  products = coopMatMulAdd(values, grad_output_columns, products);
  PairMatrix weights, gradients;
  finish_pairs(weights, gradients, scores, products, masked);
  if (kKeepsGradients) keep_gradients(gradients, !masked);
  if (kHasGradValue) {
    VisitedRows(kValueBlock) grad_outputs;
    load_visited_grad_output(grad_outputs, !masked);
    coopMatPerElementNV(weights, weights, weight_in_units);
    value_sum = coopMatMulAdd(FactorMatrix(weights), grad_outputs, value_sum);
  }
  if (kHasGradKey) {
    FactorMatrix factors;
    place_gradients(factors, key_sum, gradients);
    VisitedRows(kHeadBlock) queries;
    load_visited_query(queries, !masked);
    key_sum = coopMatMulAdd(factors, queries, key_sum);
  }
}

// Visits the rows of one query head: full steps, then the steps before and after them. Loops are tested at both ends, see
// lib/key_walk.glsl.
void visit_rows(RowRange rows) {
  const StepRange steps = step_range(int(rows.begin), int(rows.end), int(rows.full_begin), int(rows.full_end),
                                     int(kVisited), int(kVisited));
  int full = steps.full_begin;
  [[dont_unroll]] while (full < steps.full_end) {
    visit(uint(full), false);
    full += int(kVisited);
    if (full >= steps.full_end) break;
  }
  int row = first_masked(steps);
  [[dont_unroll]] while (row < steps.end) {
    visit(uint(row), true);
    row = next_masked(steps, row, int(kVisited));
    if (row >= steps.end) break;
  }
}

void visit_heads() {
  const RowRange rows = queries_of_keys(int(first_owned), int(first_owned + kOwned), kv_length);
  if (rows.begin >= rows.end) return;
  visited_end = rows.end;
  load_owned_key(keys);
  load_owned_value(values);
  for (uint h = 0; h < params.heads_per_kv; ++h) {
    head = kv_head * params.heads_per_kv + h;
    first_number = workspace_row(batch, head, 0u);
    visit_rows(rows);
  }
}

float store_key_sum(const in uint row, const in uint dim, const in float number, const in uint key_count) {
  const uint key = first_owned + row;
  if (key < key_count && dim < kHeadDim) {
    store_grad_key(grad_key_row(batch, kv_head, key), dim, number * backward.sum_scale);
  }
  return number;
}

float store_value_sum(const in uint row, const in uint dim, const in float number, const in uint key_count) {
  const uint key = first_owned + row;
  if (key < key_count && dim < kValueDim) {
    store_grad_value(grad_value_row(batch, kv_head, key), dim, number * (drop_scale() / kWeightUnits));
  }
  return number;
}

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;  // uniform over the workgroup, as matrices ask for
  const uint blocks = (params.split_keys + kOwned - 1u) / kOwned;
  const uint kv_heads = params.query_heads / params.heads_per_kv;
  const uint blocks_of_chunk = backward.batch * kv_heads * blocks;
  chunk = (params.first_tile + group) / blocks_of_chunk;
  const uint unit = params.first_tile + group - chunk * blocks_of_chunk;
  const uint head_index = unit / blocks;
  first_owned = chunk * params.split_keys + (unit - head_index * blocks) * kOwned;
  batch = head_index / kv_heads;
  kv_head = head_index - batch * kv_heads;
  begin_entry(batch, kv_head);
  kv_length = visible_kv_length(batch);
  // Keys behind a batch entry's last key get gradients of 0. If keys are packed, they belong to other entries.
  const uint key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(kv_length) : params.kv_length;
  if (first_owned >= key_count) return;
  key_sum = SumMatrix(kHeadBlock)(0.0);
  value_sum = SumMatrix(kValueBlock)(0.0);
  begin_units();
  visit_heads();
  leave_units(key_sum);
  if (kHasGradKey) coopMatPerElementNV(key_sum, key_sum, store_key_sum, key_count);
  if (kHasGradValue) coopMatPerElementNV(value_sum, value_sum, store_value_sum, key_count);
}

// The keys' pass of the matrix2 form of the backward pass: a workgroup computes dK and dV of a block of keys of one KV head,
// from all rows of the query heads that share it, in matrices of workgroup scope or of its subgroups. See
// backward/matrix2_pairs.glsl.
//
//                  kVisited rows                            blocks of kHeadBlock dims   blocks of kValueBlock dims
//                +---------------------------+            +----------------+          +----------------+
//   kOwned keys  | K Q^T and V dO^T -> p, dS |  dS x Q =  | dK             |          | dV             |  = p x dO
//                | one matrix each           |            |                |          |                |
//                +---------------------------+            +----------------+          +----------------+
//
// Budget of workgroup scope. Example: 128 invocations, 64 keys x 64 rows, kOwnerColumns = 16, as NVIDIA lists, 64 dims
// in Q, K, V and dO.
//   registers      of an invocation: (kOwned * (kHeadBlock + kValueBlock) / 2 of K and V + kOwned * (kHeadBlock +
//                  kValueBlock) sums + 3 * kOwned * kVisited pairs + kOwned * kOwnerColumns units + kVisited * the
//                  larger of the two blocks / 2 of Q or dO) / invocations = (4096 + 8192 + 12288 + 1024 + 2048) / 128 =
//                  216
//   shared memory  the shader has none; the driver takes some
//   memory         each multiply-add reads 2 / kOwned bytes of Q or dO, each of which is read twice, transposed and by
//                  rows = 1/32; with kKeepsGradients it writes 1 / kHeadBlock of gradients
//   barriers       the driver's; it moves four operands a step
//
// Staged. Example: 4 subgroups of 32 lanes, 16 keys each x 32 rows, kOwnerColumns = 8, as NVIDIA lists for subgroups, 64 dims
// in blocks of 16.
//   registers      of a lane: (kOwned * (dims of both sums + K and V / 2 + 3 * kVisited + kOwnerColumns) + kVisited * the
//                  larger block / 2) / 32 + 4 * (kHeadFetches + kValueFetches) = (4736 + 256) / 32 + 16 = 172:
//                  PairPass::held_registers(). With 128 dims, 16 rows and kValuesStaged 212
//   shared memory  16 * (VKATTN_PAIR_VISITED_STAGE4 + VKATTN_PAIR_OWNED_STAGE4) bytes = 16 * (32 * 18 + 1) = 9,232; with
//                  128 dims, 16 rows and kValuesStaged 16 * (16 * 34 + 64 * 17) = 26,112
//   memory         each multiply-add reads 1 / kBlockOwned bytes of Q or dO = 1/64
//   stages         each multiply-add reads 2 / kOwned bytes of Q or dO = 1/8; with kValuesStaged those of V dO^T also
//                  2 / kVisited of V
//   barriers       two a step, and two a query head
//
// Lost on an H100 (docs/trials/h100.md), in workgroup scope: 32 rows at 64 dims, 1020 us in place of 979; 32 keys, 1190; 64
// rows at 128 dims, 2.20 ms in place of 1.99. Not taken, by these sums: staged with 128 dims and 32 rows, 256 registers.
#version 460
#extension GL_GOOGLE_include_directive : require

#define VKATTN_OWNS_KEYS 1
#include "backward/matrix2_pairs.glsl"
#include "backward/step_ranges.glsl"
#include "lib/workgroups.glsl"

SumMatrix(kValueBlock) VKATTN_BLOCKS(value_sums, kValueBlocks);

void visit(uint first_query, uint following, bool masked) {
  first_visited = first_query;
  fetch_step(following);
  PairMatrix scores = PairMatrix(0.0);
  VKATTN_EACH_BLOCK(kHeadBlocks) {
    VisitedColumns(kHeadBlock) query_columns;
    load_transposed_query(query_columns, b, !masked);
    scores = coopMatMulAdd(VKATTN_BLOCK(owned_heads), query_columns, scores);
  }
  PairMatrix products = PairMatrix(0.0);
  VKATTN_EACH_BLOCK(kValueBlocks) {
    VisitedColumns(kValueBlock) grad_output_columns;
    load_transposed_grad_output(grad_output_columns, b, !masked);
    VKATTN_ADD_VALUE_PRODUCTS(products, grad_output_columns);
  }
  PairMatrix weights, gradients;
  finish_pairs(weights, gradients, scores, products, masked);
  if (kKeepsGradients) keep_gradients(gradients, !masked);
  FactorMatrix factors;
  if (kHasGradValue) {
    VKATTN_EACH_BLOCK(kValueBlocks) {
      VisitedRows(kValueBlock) grad_outputs;
      load_visited_grad_output(grad_outputs, b, !masked);
      if (b == 0u) {  // while this load is on its way
        coopMatPerElementNV(weights, weights, weight_in_units);
        factors = FactorMatrix(weights);
      }
      VKATTN_BLOCK(value_sums) = coopMatMulAdd(factors, grad_outputs, VKATTN_BLOCK(value_sums));
    }
  }
  if (kHasGradKey) {
    place_gradients(factors, gradients);
    VKATTN_EACH_BLOCK(kHeadBlocks) {
      VisitedRows(kHeadBlock) queries;
      load_visited_query(queries, b, !masked);
      VKATTN_BLOCK(head_sums) = coopMatMulAdd(factors, queries, VKATTN_BLOCK(head_sums));
    }
  }
  end_step();
}

// Visits the rows of one query head: full steps, then the steps before and after them. Loops are tested at both ends, see
// lib/key_walk.glsl.
void visit_rows(RowRange rows) {
  const StepRange steps = step_range(int(rows.begin), int(rows.end), int(rows.full_begin), int(rows.full_end),
                                     int(kVisited), int(kVisited));
  begin_steps(uint(first_of_steps(steps)));
  int full = steps.full_begin;
  [[dont_unroll]] while (full < steps.full_end) {
    visit(uint(full), uint(next_of_full(steps, full, int(kVisited))), false);
    full += int(kVisited);
    if (full >= steps.full_end) break;
  }
  int row = first_masked(steps);
  [[dont_unroll]] while (row < steps.end) {
    const int next = next_masked(steps, row, int(kVisited));
    visit(uint(row), uint(next), true);
    row = next;
    if (row >= steps.end) break;
  }
}

void load_owned() {
  VKATTN_EACH_BLOCK(kHeadBlocks) { load_owned_key(VKATTN_BLOCK(owned_heads), b); }
#if VKATTN_STAGED
  stage_owned_values(uint(kv_length));
  if (kValuesStaged) return;
#endif
  VKATTN_EACH_BLOCK(kHeldValueBlocks) { load_owned_value(VKATTN_BLOCK(owned_values), b); }
}

void visit_heads() {
  const RowRange rows = queries_of_keys(int(first_of_block), int(first_of_block + kBlockOwned), kv_length);
  if (rows.begin >= rows.end) return;
  visited_end = rows.end;
  load_owned();
  for (uint h = 0; h < params.heads_per_kv; ++h) {
    head = kv_head * params.heads_per_kv + h;
    first_number = workspace_row(batch, head, 0u);
    visit_rows(rows);
  }
}

float store_key_sum(const in uint row, const in uint column, const in float number, const in uint key_count,
                    const in uint first_dim) {
  const uint key = first_owned + row;
  const uint dim = first_dim + column;
  if (key < key_count && dim < kHeadDim) {
    store_grad_key(grad_key_row(batch, kv_head, key), dim, number * backward.sum_scale);
  }
  return number;
}

float store_value_sum(const in uint row, const in uint column, const in float number, const in uint key_count,
                      const in uint first_dim) {
  const uint key = first_owned + row;
  const uint dim = first_dim + column;
  if (key < key_count && dim < kValueDim) {
    store_grad_value(grad_value_row(batch, kv_head, key), dim, number * (drop_scale() / kWeightUnits));
  }
  return number;
}

void store_sums(uint key_count) {
  if (kHasGradKey) {
    VKATTN_EACH_BLOCK(kHeadBlocks) {
      coopMatPerElementNV(VKATTN_BLOCK(head_sums), VKATTN_BLOCK(head_sums), store_key_sum, key_count, b * kHeadBlock);
    }
  }
  if (kHasGradValue) {
    VKATTN_EACH_BLOCK(kValueBlocks) {
      coopMatPerElementNV(VKATTN_BLOCK(value_sums), VKATTN_BLOCK(value_sums), store_value_sum, key_count, b * kValueBlock);
    }
  }
}

void main() {
  const uint group = workgroup_number();
  if (group >= params.tile_count) return;  // uniform over the workgroup, as matrices and barriers ask for
  const uint blocks = (params.split_keys + kBlockOwned - 1u) / kBlockOwned;
  const uint kv_heads = params.query_heads / params.heads_per_kv;
  const uint blocks_of_chunk = backward.batch * kv_heads * blocks;
  chunk = (params.first_tile + group) / blocks_of_chunk;
  const uint unit = params.first_tile + group - chunk * blocks_of_chunk;
  const uint head_index = unit / blocks;
  begin_block(chunk * params.split_keys + (unit - head_index * blocks) * kBlockOwned);
  batch = head_index / kv_heads;
  kv_head = head_index - batch * kv_heads;
  begin_entry(batch, kv_head);
  kv_length = visible_kv_length(batch);
  // Keys behind a batch entry's last key get gradients of 0. If keys are packed, they belong to other entries.
  const uint key_count = kKeyMapping == VKATTN_KEYS_PACKED ? uint(kv_length) : params.kv_length;
  if (first_of_block >= key_count) return;
  begin_head_sums();
  VKATTN_EACH_BLOCK(kValueBlocks) { VKATTN_BLOCK(value_sums) = SumMatrix(kValueBlock)(0.0); }
  begin_units();
  visit_heads();
  leave_units();
  store_sums(key_count);
}

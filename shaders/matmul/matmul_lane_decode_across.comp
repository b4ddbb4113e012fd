// Products of a few rows or columns (decode), for CPU implementations, whose larger matrix has neighbouring rows side by side in
// memory, as weights (inner, outputs): a workgroup is one vector of a CPU. It computes kRows rows of the output for each lane in
// all of its kColumns columns. matmul_lane_decode.comp is for matrices in lines of the inner dimension.
//
//                lane 0   lane 1  ...  lane 0   lane 1  ...
//              +--------+--------+----+--------+--------+----+
//   inner 0    | 4 rows | 4 rows | .. | 4 rows | 4 rows | .. |   lines of the larger matrix: kRows / 4 quads for each lane
//   inner 1    |        |        |    |        |        |    |
//   ...        +--------+--------+----+--------+--------+----+
//
// Budget. Example: 16 rows a lane, 1 column, 4 of inner a step; elements of e bytes.
//   registers      kRows * kColumns sums + kInner * kColumns of b + kInner * kRows of a = 16 + 4 + 64
//   shared memory  none
//   memory         each multiply-add reads e / kColumns bytes of a + e / (kRows * kWorkgroupSize) of b = e + e / 128
//
// A lane adds all products of its rows itself, so the lanes exchange nothing.
//
// Lost on lavapipe (docs/trials/lavapipe.md), 4096 x 4096 in float16, where 32 rows a lane and 8 of inner take 5.73 ms: 16 and 8,
// 8.07; 8 and 4, 12.9; 64 and 8, 3.70, but 0.71 in place of 0.38 to 0.51 for 1x3072x768.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"

const uint kQuads = kRows / 4;  // of a lane's rows

// Indices of the first elements of quads of rows, and of columns. The last quad or column stands for those beyond it, which are
// not stored.
uint a_index[kQuads], b_index[kColumns];
vec4 sums[kQuads * kColumns];

uint quad_row(Block block, uint quad) {
  return block.first_row + (quad * kWorkgroupSize + gl_LocalInvocationIndex) * 4u;
}

// Adds the products of kInner elements of the inner dimension to all sums.
void add_products_of_step(uint inner) {
  // All loads come before all products: the compiler branches around loads, and would spill sums over the branches.
  vec4 a[kInner * kQuads], b[kColumns * (kInner / 4)];
  [[unroll]] for (uint i = 0; i < kInner; ++i) {
    [[unroll]] for (uint q = 0; q < kQuads; ++q) a[i * kQuads + q] = a_outer4(a_index[q], inner + i);
  }
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    [[unroll]] for (uint i = 0; i < kInner; i += 4) b[c * (kInner / 4) + i / 4] = b_inner4(b_index[c], inner + i);
  }
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    [[unroll]] for (uint q = 0; q < kQuads; ++q) {
      vec4 sum = sums[c * kQuads + q];
      [[unroll]] for (uint i = 0; i < kInner; ++i) sum += a[i * kQuads + q] * b[c * (kInner / 4) + i / 4][i % 4];
      sums[c * kQuads + q] = sum;
    }
  }
}

// Adds the products of one element of the inner dimension to all sums.
void add_products(uint inner) {
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    const vec4 a = a_outer4(a_index[q], inner);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[c * kQuads + q] += a * b_element(b_index[c], inner);
  }
}

void store_sums(Block block) {
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    [[unroll]] for (uint d = 0; d < 4; ++d) {
      const uint row = quad_row(block, q) + d;
      if (row >= params.rows) continue;
      [[unroll]] for (uint c = 0; c < kColumns; ++c) {
        const uint column = block.first_column + c;
        if (column < params.columns) store_sum(block.part, block.batch, row, column, sums[c * kQuads + q][d]);
      }
    }
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;
  const Block block = block_of(unit, kWorkgroupSize * kRows, kColumns, 1);
  [[unroll]] for (uint q = 0; q < kQuads; ++q) a_index[q] = a_outer(block.batch, min(quad_row(block, q), params.rows - 4u));
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    b_index[c] = b_outer(block.batch, min(block.first_column + c, params.columns - 1u));
  }
  [[unroll]] for (uint i = 0; i < kQuads * kColumns; ++i) sums[i] = vec4(0.0);
  uint inner = block.inner_begin;
  const uint whole_end = block.inner_end - (block.inner_end - block.inner_begin) % kInner;
  if (inner < whole_end) {
    do {
      add_products_of_step(inner);
      inner += kInner;
    } while (inner < whole_end);
  }
  if (inner < block.inner_end) {
    do {
      add_products(inner);
      ++inner;
    } while (inner < block.inner_end);
  }
  store_sums(block);
}

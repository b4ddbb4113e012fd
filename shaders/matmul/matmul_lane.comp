// Matrix multiplication without barriers, shared memory or subgroup operations: an invocation computes kRows
// neighbouring rows and kColumns columns of the output, kInner elements of the inner dimension a step.
//
//                    kColumns columns of b, read at one address by all invocations
//                  +------------------------+
//   invocation 0   | kRows x kColumns sums  |
//   invocation 1   | other rows, the same   |
//   ...            | columns                |
//                  +------------------------+
//
// Budget. Example: 8 invocations of 8 rows x 32 columns, kInner = 8, e = 4 bytes an element.
//   registers      kRows * kColumns sums + kRows * kInner of a + kColumns * kInner of b = 256 + 64 + 256; a CPU keeps
//                  most of them in its cache
//   shared memory  none
//   memory         each multiply-add reads e / kColumns bytes of a + e / (kRows * kWorkgroupSize) of b = 1/8 + 1/16
//
// Made for CPU implementations: there a load at one address is a scalar load and a broadcast. attention_lane.comp says what
// lavapipe does with loops. Lost there (docs/trials/lavapipe.md): 64 columns, and reads of the next step ahead.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"

// Indices of the first elements of rows and columns. If loads take 4 rows or columns, only every fourth index is used. The
// last row or column stands for those beyond it, which are not stored.
uint a_index[kRows], b_index[kColumns];
float sums[kRows * kColumns];

void find_operands(Block block, uint first_row) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint last = kALoads == VKATTN_MATMUL_LOADS_OUTER ? params.rows - 4u + r % 4u : params.rows - 1u;
    a_index[r] = a_outer(block.batch, min(first_row + r, last));
  }
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    const uint last = kBLoads == VKATTN_MATMUL_LOADS_OUTER ? params.columns - 4u + c % 4u : params.columns - 1u;
    b_index[c] = b_outer(block.batch, min(block.first_column + c, last));
  }
}

const uint kQuads = kInner / 4;  // quads of a step

vec4 in_own_width(vec4 numbers) {
  const uint zero = params.bias_row_stride & params.bias_column_stride;
  return uintBitsToFloat(VKATTN_IN_OWN_WIDTH(floatBitsToUint(numbers), zero));
}

// Adds the products of kInner elements of the inner dimension to all sums.
void add_products_of_step(uint inner) {
  vec4 a[kRows * kQuads];
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    if (kALoads == VKATTN_MATMUL_LOADS_OUTER) {
      [[unroll]] for (uint r = 0; r < kRows; r += 4) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          const vec4 rows = in_own_width(a_outer4(a_index[r], inner + 4 * q + i));
          // Such loads require that kRows is a multiple of 4; min() only keeps the index in range.
          [[unroll]] for (uint d = 0; d < 4; ++d) a[min(r + d, kRows - 1) * kQuads + q][i] = rows[d];
        }
      }
    } else {
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        a[r * kQuads + q] = in_own_width(a_inner4(a_index[r], inner + 4 * q));
      }
    }
  }
  // All loads come before all products: the compiler branches around loads, and would spill sums over the branches.
  vec4 b[kColumns * kQuads];
  [[unroll]] for (uint q = 0; q < kQuads; ++q) {
    if (kBLoads == VKATTN_MATMUL_LOADS_OUTER) {
      [[unroll]] for (uint c = 0; c < kColumns; c += 4) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          const vec4 columns = b_outer4(b_index[c], inner + 4 * q + i);
          [[unroll]] for (uint d = 0; d < 4; ++d) b[(c + d) * kQuads + q][i] = columns[d];
        }
      }
    } else {
      [[unroll]] for (uint c = 0; c < kColumns; ++c) b[c * kQuads + q] = b_inner4(b_index[c], inner + 4 * q);
    }
  }
  // Two columns at a time, as kColumns is even. Registers hold the numbers of b and two sums; most of a lies in memory, and is
  // read once for both columns. The other sums lie there too: a step loads each once and stores it once, under a mask.
  [[unroll]] for (uint c = 0; c < kColumns; c += 2) {
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      vec2 sum = vec2(sums[c * kRows + r], sums[(c + 1) * kRows + r]);
      [[unroll]] for (uint q = 0; q < kQuads; ++q) {
        [[unroll]] for (uint i = 0; i < 4; ++i) {
          sum += a[r * kQuads + q][i] * vec2(b[c * kQuads + q][i], b[(c + 1) * kQuads + q][i]);
        }
      }
      sums[c * kRows + r] = sum[0];
      sums[(c + 1) * kRows + r] = sum[1];
    }
  }
}

// Adds the products of one element of the inner dimension to all sums.
void add_products(uint inner) {
  float a[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) a[r] = a_element(a_index[r], inner);
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    const float b = b_element(b_index[c], inner);
    [[unroll]] for (uint r = 0; r < kRows; ++r) sums[c * kRows + r] += a[r] * b;
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;
  const Block block = block_of(unit, kWorkgroupSize * kRows, kColumns, 1);
  const uint first_row = block.first_row + gl_LocalInvocationIndex * kRows;
  find_operands(block, first_row);
  [[unroll]] for (uint i = 0; i < kRows * kColumns; ++i) sums[i] = 0.0;
  uint inner = block.inner_begin;
  const uint whole_end = inner + (block.inner_end - inner) / kInner * kInner;
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
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    if (first_row + r >= params.rows) continue;
    [[unroll]] for (uint c = 0; c < kColumns; ++c) {
      if (block.first_column + c >= params.columns) continue;
      store_sum(block.part, block.batch, first_row + r, block.first_column + c, sums[c * kRows + r]);
    }
  }
}

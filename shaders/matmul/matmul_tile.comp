// Matrix multiplication tiled through shared memory, for GPUs without matrix units: a workgroup computes a block of
// rows and columns of the output, kInner elements of the inner dimension a step, and reads each from memory once for
// the block.
//
//   kWorkgroupSize threads are a grid of kGridColumns columns. Thread (r, c) owns kRows x kColumns sums:
//
//                   4 columns of c       4 columns of c
//                 +------+             +------+
//   4 rows of r   | sums | ........... | sums |    a thread has 4 neighbours of every 4 * kGridColumns columns, and of
//                 +------+             +------+    every 4 * (grid rows) rows; of fewer than 4 it has neighbours
//                 :                    :
//   4 rows of r   | sums | ........... | sums |
//                 +------+             +------+
//
// Budget. Example: 256 threads, 16 columns of them, 4 rows x 4 columns, kInner = 16, e = 4 bytes an element.
//   registers      kRows * kColumns sums + 4 * (a_fetches + b_fetches) of the next step + kRows + kColumns operands
//                  = 16 + 8 + 8
//   shared memory  4 * (VKATTN_MATMUL_TILE_STAGE of rows + of columns) bytes = 4 * 16 * (68 + 68) = 8,704
//   memory         each multiply-add reads e / kBlockColumns bytes of a + e / kBlockRows of b = 1/16 + 1/16
//   stages         each multiply-add reads 4 / kColumns + 4 / kRows bytes = 2
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "shared/shared_memory.h"

layout(constant_id = VKATTN_MATMUL_SPEC_GRID_COLUMNS) const uint kGridColumns = 4;

const uint kGridRows = kWorkgroupSize / kGridColumns;
const uint kBlockRows = kGridRows * kRows;
const uint kBlockColumns = kGridColumns * kColumns;

Block block;
float sums[kRows * kColumns];

// For each operand NAME, whose BLOCK outer elements are staged by rows of the inner dimension:
//   void find_NAME()                      where this thread's quads lie
//   void fetch_NAME(inner, whole)         to registers; all quads before the first is written, so that their latencies overlap
//   void stage_NAME()                     from there to shared memory
// Quads lie along the inner dimension, or with VKATTN_MATMUL_LOADS_OUTER along the other. Outer elements behind the last
// repeat it, as nothing of theirs is stored; inner ones are zeros (`whole`: there are none).
#define VKATTN_MATMUL_STAGE(NAME, LOADS, BLOCK, SIZE, FIRST)                                                                \
  const uint NAME##_stride = BLOCK + 4;                                                                                     \
  const uint NAME##_stage_quads = BLOCK * kInner / 4;                                                                       \
  const uint NAME##_fetches = (NAME##_stage_quads + kWorkgroupSize - 1) / kWorkgroupSize;                                   \
  shared float NAME##_stage[VKATTN_MATMUL_TILE_STAGE(BLOCK, kInner)];                                                       \
  vec4 NAME##_fetched[NAME##_fetches];                                                                                      \
  uint NAME##_source[NAME##_fetches];                                                                                       \
                                                                                                                            \
  uint NAME##_quad(uint n) { return min(gl_LocalInvocationIndex + n * kWorkgroupSize, NAME##_stage_quads - 1u); }           \
  uint NAME##_quad_outer(uint n) {                                                                                          \
    return LOADS == VKATTN_MATMUL_LOADS_OUTER ? NAME##_quad(n) % (BLOCK / 4u) * 4u : NAME##_quad(n) / (kInner / 4u);        \
  }                                                                                                                         \
  uint NAME##_quad_inner(uint n) {                                                                                          \
    return LOADS == VKATTN_MATMUL_LOADS_OUTER ? NAME##_quad(n) / (BLOCK / 4u) : NAME##_quad(n) % (kInner / 4u) * 4u;        \
  }                                                                                                                         \
                                                                                                                            \
  void find_##NAME() {                                                                                                      \
    const uint last = LOADS == VKATTN_MATMUL_LOADS_OUTER ? SIZE - 4u : SIZE - 1u;                                           \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) {                                                                  \
      NAME##_source[n] = NAME##_outer(block.batch, min(FIRST + NAME##_quad_outer(n), last));                                \
    }                                                                                                                       \
  }                                                                                                                         \
                                                                                                                            \
  vec4 NAME##_part(uint source, uint inner) {                                                                               \
    const uint last = block.inner_end - 1u;                                                                                 \
    if (LOADS == VKATTN_MATMUL_LOADS_OUTER) {                                                                               \
      return mix(vec4(0.0), NAME##_outer4(source, min(inner, last)), bvec4(inner <= last));                                 \
    }                                                                                                                       \
    vec4 elements;                                                                                                          \
    [[unroll]] for (uint i = 0; i < 4; ++i) {                                                                               \
      elements[i] = inner + i <= last ? NAME##_element(source, min(inner + i, last)) : 0.0;                                 \
    }                                                                                                                       \
    return elements;                                                                                                        \
  }                                                                                                                         \
                                                                                                                            \
  void fetch_##NAME(uint inner, bool whole) {                                                                               \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) {                                                                  \
      const uint at = inner + NAME##_quad_inner(n);                                                                         \
      if (!whole) {                                                                                                         \
        NAME##_fetched[n] = NAME##_part(NAME##_source[n], at);                                                              \
      } else if (LOADS == VKATTN_MATMUL_LOADS_OUTER) {                                                                      \
        NAME##_fetched[n] = NAME##_outer4(NAME##_source[n], at);                                                            \
      } else {                                                                                                              \
        NAME##_fetched[n] = NAME##_inner4(NAME##_source[n], at);                                                            \
      }                                                                                                                     \
    }                                                                                                                       \
  }                                                                                                                         \
                                                                                                                            \
  void stage_##NAME() {                                                                                                     \
    const uint step = LOADS == VKATTN_MATMUL_LOADS_OUTER ? 1u : NAME##_stride;                                              \
    [[unroll]] for (uint n = 0; n < NAME##_fetches; ++n) {                                                                  \
      if (NAME##_stage_quads % kWorkgroupSize != 0 && gl_LocalInvocationIndex + n * kWorkgroupSize >= NAME##_stage_quads) { \
        continue;                                                                                                           \
      }                                                                                                                     \
      const uint first = NAME##_quad_inner(n) * NAME##_stride + NAME##_quad_outer(n);                                       \
      [[unroll]] for (uint i = 0; i < 4; ++i) NAME##_stage[first + i * step] = NAME##_fetched[n][i];                        \
    }                                                                                                                       \
  }

VKATTN_MATMUL_STAGE(a, kALoads, kBlockRows, params.rows, block.first_row)
VKATTN_MATMUL_STAGE(b, kBLoads, kBlockColumns, params.columns, block.first_column)

// The i-th of a thread's rows or columns in the block, of which it has `count`, among `threads` threads.
uint own_outer(uint i, uint count, uint thread, uint threads) {
  return count < 4 ? thread * count + i : (i / 4 * threads + thread) * 4 + i % 4;
}
uint own_row(uint r) { return own_outer(r, kRows, gl_LocalInvocationIndex / kGridColumns, kGridRows); }
uint own_column(uint c) { return own_outer(c, kColumns, gl_LocalInvocationIndex % kGridColumns, kGridColumns); }

void add_products() {
  [[unroll]] for (uint k = 0; k < kInner; ++k) {
    float a[kRows], b[kColumns];
    [[unroll]] for (uint r = 0; r < kRows; ++r) a[r] = a_stage[k * a_stride + own_row(r)];
    [[unroll]] for (uint c = 0; c < kColumns; ++c) b[c] = b_stage[k * b_stride + own_column(c)];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[r * kColumns + c] += a[r] * b[c];
    }
  }
}

void fetch(uint inner) {
  const bool whole = inner + kInner <= block.inner_end;
  if (whole) {
    fetch_a(inner, true);
    fetch_b(inner, true);
  } else {
    fetch_a(inner, false);
    fetch_b(inner, false);
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;  // of all threads
  block = block_of(unit, kBlockRows, kBlockColumns);
  [[unroll]] for (uint i = 0; i < kRows * kColumns; ++i) sums[i] = 0.0;
  if (block.inner_begin < block.inner_end) {
    find_a();
    find_b();
    fetch(block.inner_begin);
    for (uint inner = block.inner_begin; inner < block.inner_end; inner += kInner) {
      stage_a();
      stage_b();
      barrier();  // what is staged is read by others
      if (inner + kInner < block.inner_end) fetch(inner + kInner);
      add_products();
      barrier();  // what was read is written over
    }
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = block.first_row + own_row(r);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) {
      const uint column = block.first_column + own_column(c);
      if (row < params.rows && column < params.columns) {
        store_sum(block.part, block.batch, row, column, sums[r * kColumns + c]);
      }
    }
  }
}

// Matrix multiplication tiled through shared memory, for GPUs without matrix units: a workgroup computes a block of rows and
// columns of the output, with kInner elements of the inner dimension in each step, and reads each element from memory once.
//
//   kWorkgroupSize threads are a grid of kGridColumns columns. Thread (r, c) owns kRows x kColumns sums:
//
//                   4 columns of c       4 columns of c
//                 +------+             +------+
//   4 rows of r   | sums | ........... | sums |    a thread has 4 neighbours in every 4 * kGridColumns columns, and in
//                 +------+             +------+    every 4 * (grid rows) rows; if it has fewer than 4, they are neighbours
//                 :                    :
//   4 rows of r   | sums | ........... | sums |
//                 +------+             +------+
//
// Budget. Example: 256 threads, 16 columns of them, 4 rows x 4 columns, kInner = 16, e = 4 bytes an element.
//   registers      kRows * kColumns sums + 4 * (kAFetches + kBFetches) of the next step + kRows + kColumns operands
//                  = 16 + 8 + 8
//   shared memory  4 * (VKATTN_MATMUL_TILE_STAGE of rows + of columns) bytes = 4 * 16 * (68 + 68) = 8,704
//   memory         each multiply-add reads e / kBlockColumns bytes of a + e / kBlockRows of b = 1/16 + 1/16
//   stages         each multiply-add reads 4 / kColumns + 4 / kRows bytes = 2
//
// Lost by compilers (docs/trials/gpu_compilers.md): steps written out on RDNA3's APUs, 1.22 times the inverse throughput.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "lib/shares.glsl"
#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "shared/shared_memory.h"

layout(constant_id = VKATTN_MATMUL_SPEC_GRID_COLUMNS) const uint kGridColumns = 4;

const uint kGridRows = kWorkgroupSize / kGridColumns;
const uint kBlockRows = kGridRows * kRows;
const uint kBlockColumns = kGridColumns * kColumns;

// A thread's array is a global, as GLSL passes arrays by copying them.
float sums[kRows * kColumns];

// Operands are staged in rows, one for each element of the inner dimension. A thread moves quads of elements along the inner
// dimension, or, with VKATTN_MATMUL_LOADS_OUTER, along the outer one.
const uint kAStride = kBlockRows + 4;
const uint kBStride = kBlockColumns + 4;
const uint kAStageQuads = kBlockRows * kInner / 4;
const uint kBStageQuads = kBlockColumns * kInner / 4;
const uint kAFetches = (kAStageQuads + kWorkgroupSize - 1) / kWorkgroupSize;
const uint kBFetches = (kBStageQuads + kWorkgroupSize - 1) / kWorkgroupSize;
shared float a_stage[VKATTN_MATMUL_TILE_STAGE(kBlockRows, kInner)];
shared float b_stage[VKATTN_MATMUL_TILE_STAGE(kBlockColumns, kInner)];
vec4 a_fetched[kAFetches], b_fetched[kBFetches];
uint a_source[kAFetches], b_source[kBFetches];

// Functions with `of_b` serve both operands; of_b is a constant once they are inlined.

bool is_by_outer(bool of_b) { return (of_b ? kBLoads : kALoads) == VKATTN_MATMUL_LOADS_OUTER; }
uint quad_of(bool of_b, uint n) { return unit_of_share(n, of_b ? kBStageQuads : kAStageQuads, kWorkgroupSize); }

uint outer_of(bool of_b, uint n) {
  const uint block_quads = (of_b ? kBlockColumns : kBlockRows) / 4u;
  return is_by_outer(of_b) ? quad_of(of_b, n) % block_quads * 4u : quad_of(of_b, n) / (kInner / 4u);
}

uint inner_of(bool of_b, uint n) {
  const uint block_quads = (of_b ? kBlockColumns : kBlockRows) / 4u;
  return is_by_outer(of_b) ? quad_of(of_b, n) / block_quads : quad_of(of_b, n) % (kInner / 4u) * 4u;
}

// The last outer elements stand for those behind them, whose results are not stored.
uint source_of(Block block, bool of_b, uint n) {
  const uint last = (of_b ? params.columns : params.rows) - (is_by_outer(of_b) ? 4u : 1u);
  const uint outer = min((of_b ? block.first_column : block.first_row) + outer_of(of_b, n), last);
  return of_b ? b_outer(block.batch, outer) : a_outer(block.batch, outer);
}

float element_at(bool of_b, uint source, uint inner) {
  return of_b ? b_element(source, inner) : a_element(source, inner);
}
vec4 inner4_at(bool of_b, uint source, uint inner) {
  return of_b ? b_inner4(source, inner) : a_inner4(source, inner);
}
vec4 outer4_at(bool of_b, uint source, uint inner) {
  return of_b ? b_outer4(source, inner) : a_outer4(source, inner);
}

// A quad with zeros for inner elements behind the last of the block.
vec4 part_at(bool of_b, uint source, uint inner, uint last) {
  if (is_by_outer(of_b)) {
    return mix(vec4(0.0), outer4_at(of_b, source, min(inner, last)), bvec4(inner <= last));
  }
  vec4 elements;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    elements[i] = inner + i <= last ? element_at(of_b, source, min(inner + i, last)) : 0.0;
  }
  return elements;
}

// The thread's n-th quad of a step; `whole` says that there are no inner elements behind the last.
vec4 quad_at(Block block, bool of_b, uint source, uint n, uint inner, bool whole) {
  const uint at = inner + inner_of(of_b, n);
  if (!whole) return part_at(of_b, source, at, block.inner_end - 1u);
  if (is_by_outer(of_b)) return outer4_at(of_b, source, at);
  return inner4_at(of_b, source, at);
}

void find_quads(Block block) {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) a_source[n] = source_of(block, false, n);
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) b_source[n] = source_of(block, true, n);
}

// Fetches all quads to registers before the first is written, so that their latencies overlap.
void fetch_quads(Block block, uint inner, bool whole) {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) a_fetched[n] = quad_at(block, false, a_source[n], n, inner, whole);
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) b_fetched[n] = quad_at(block, true, b_source[n], n, inner, whole);
}

void stage_quads() {
  [[unroll]] for (uint n = 0; n < kAFetches; ++n) {
    if (!is_own_unit(n, kAStageQuads, kWorkgroupSize)) continue;
    const uint first = inner_of(false, n) * kAStride + outer_of(false, n);
    [[unroll]] for (uint i = 0; i < 4; ++i) a_stage[first + i * (is_by_outer(false) ? 1u : kAStride)] = a_fetched[n][i];
  }
  [[unroll]] for (uint n = 0; n < kBFetches; ++n) {
    if (!is_own_unit(n, kBStageQuads, kWorkgroupSize)) continue;
    const uint first = inner_of(true, n) * kBStride + outer_of(true, n);
    [[unroll]] for (uint i = 0; i < 4; ++i) b_stage[first + i * (is_by_outer(true) ? 1u : kBStride)] = b_fetched[n][i];
  }
}

// The i-th row (or column) of a thread in the block: each of `threads` threads has `count` of them.
uint own_outer(uint i, uint count, uint thread, uint threads) {
  return count < 4 ? thread * count + i : (i / 4 * threads + thread) * 4 + i % 4;
}
uint own_row(uint r) { return own_outer(r, kRows, gl_LocalInvocationIndex / kGridColumns, kGridRows); }
uint own_column(uint c) { return own_outer(c, kColumns, gl_LocalInvocationIndex % kGridColumns, kGridColumns); }

void add_products() {
  [[unroll]] for (uint k = 0; k < kInner; ++k) {
    float a[kRows], b[kColumns];
    [[unroll]] for (uint r = 0; r < kRows; ++r) a[r] = a_stage[k * kAStride + own_row(r)];
    [[unroll]] for (uint c = 0; c < kColumns; ++c) b[c] = b_stage[k * kBStride + own_column(c)];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[r * kColumns + c] += a[r] * b[c];
    }
  }
}

void fetch(Block block, uint inner) {
  const bool whole = inner + kInner <= block.inner_end;
  if (whole) {
    fetch_quads(block, inner, true);
  } else {
    fetch_quads(block, inner, false);
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;  // uniform over the workgroup, so no barrier is missed
  const Block block = block_of(unit, kBlockRows, kBlockColumns, kGroupRows);
  [[unroll]] for (uint i = 0; i < kRows * kColumns; ++i) sums[i] = 0.0;
  if (block.inner_begin < block.inner_end) {
    find_quads(block);
    fetch(block, block.inner_begin);
    for (uint inner = block.inner_begin; inner < block.inner_end; inner += kInner) {
      stage_quads();
      barrier();  // the stages are complete before other threads read them
      if (inner + kInner < block.inner_end) fetch(block, inner + kInner);
      add_products();
      barrier();  // the stages were read before the next step overwrites them
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

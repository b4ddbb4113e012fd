// Products of a few rows or columns (decode), for CPU implementations: a workgroup is one vector of a CPU, a subgroup of
// kThreads lanes. It computes kRows rows of the output in all of its kColumns columns; lanes share the inner dimension.
//
//            a step: kInner neighbouring elements a lane             the end
//          +----------+----------+-----+--------------+            +---------------------------------+
//   row 0  | lane 0's | lane 1's | ... | kThreads - 1 |            | lane i adds the lanes' sums of  |
//   row 1  |          |          |     |              |  -> stage  | result i, of i + kThreads, ...  |
//   ...    +----------+----------+-----+--------------+            +---------------------------------+
//
// Budget. Example: 8 lanes, 8 rows, 1 column, 8 of inner a lane; elements of e bytes.
//   registers      kRows * kColumns sums + kInner * kColumns of b + kInner of a = 8 + 8 + 8
//   shared memory  4 * VKATTN_MATMUL_LANE_DECODE_STAGE(kRows, kColumns, kThreads) bytes = 288
//   memory         each multiply-add reads e / kColumns bytes of a + e / kRows of b = e + e / 8
//
// A step of a workgroup reads neighbouring cache lines of each row, as matmul_lane.comp does not: there each lane has rows of
// its own. The lanes exchange through shared memory without a barrier of the workgroup, which would turn the shader into
// coroutines. Lost on lavapipe (docs/trials/lavapipe.md): 16 of inner, 1.6 times the time; 4 rows, 1.2 times.
#version 460
#extension GL_GOOGLE_include_directive : require

#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "shared/shared_memory.h"

#extension GL_KHR_shader_subgroup_basic : require

layout(constant_id = VKATTN_MATMUL_SPEC_TOUCHES) const bool kTouches = false;

const uint kThreads = kWorkgroupSize;
const uint kQuads = kInner / 4;  // of a lane's elements in a step

// The lanes' sums. Behind them lie the words that lanes touched: nobody reads these, but a compiler must keep what is stored.
shared float stage[VKATTN_MATMUL_LANE_DECODE_STAGE(kRows, kColumns, kThreads)];

// Indices of the first elements of rows and columns. The last row stands for those beyond it, which are not stored.
uint a_index[kRows], b_index[kColumns];
float sums[kRows * kColumns];
vec4 a[kQuads];  // a lane's elements of one row, in blocks without their scale

uint lane() { return gl_SubgroupInvocationID; }

// The bytes of a quantised block lie in four or two words of 64 bits, beginning at any multiple of 2 bytes, and go on for 2
// to 8 bytes. These are read as words of 32 bits: a tensor's end is at such a word.
const uint kBlockHalves = kAType == VKATTN_TYPE_Q8_0 ? kQ8BlockHalves : kQ4BlockHalves;
const uint kBlockWides = kAType == VKATTN_TYPE_Q8_0 ? 4 : 2;

// Reads a block of row r to `a`, and gives its scale.
float read_block(uint r, uint inner) {
  const uint begin = a_block(a_index[r], inner);
  const uint first = begin >> 2;
  const uint skipped = (begin & 3u) * 16u;  // bits before the block
  const uint rest = (first + kBlockWides) * 2u;
  uint64_t wides[kBlockWides + 1];
  [[unroll]] for (uint i = 0; i < kBlockWides; ++i) wides[i] = a_wides[first + i];
  wides[kBlockWides] = packUint2x32(uvec2(a_words[rest], a_words[rest + (skipped >> 5)]));
  [[unroll]] for (uint i = 0; i < kBlockWides; ++i) {
    const uvec2 words = unpackUint2x32(wides[i] >> 16u >> skipped | wides[i + 1] << (48u - skipped));
    [[unroll]] for (uint w = 0; w < 2; ++w) {
      const uint word = words[w];
      if (kAType == VKATTN_TYPE_Q8_0) {
        a[(i * 2 + w) % kQuads] = decode_q8(word & 0xffffu, word >> 16);
      } else {
        a[(i * 2 + w) % kQuads] = decode_q4(word, word >> 16, 0u);
        a[(i * 2 + w + 4) % kQuads] = decode_q4(word, word >> 16, 4u);
      }
    }
  }
  return unpackHalf2x16(uint(wides[0] >> skipped)).x;
}

float read_row(uint r, uint inner) {
  if (is_blocks(kAType)) return read_block(r, inner);
  [[unroll]] for (uint q = 0; q < kQuads; ++q) a[q] = a_inner4(a_index[r], inner + 4 * q);
  return 1.0;
}

// Adds the products of the lane's next kInner elements to all sums.
void add_products_of_step(uint inner) {
  vec4 b[kColumns * kQuads];
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    [[unroll]] for (uint q = 0; q < kQuads; ++q) b[c * kQuads + q] = b_inner4(b_index[c], inner + 4 * q);
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const float scale = read_row(r, inner);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) {
      float sum = is_blocks(kAType) ? 0.0 : sums[r * kColumns + c];
      [[unroll]] for (uint q = 0; q < kQuads; ++q) {
        [[unroll]] for (uint i = 0; i < 4; ++i) sum += a[q][i] * b[c * kQuads + q][i];
      }
      sums[r * kColumns + c] = is_blocks(kAType) ? sums[r * kColumns + c] + sum * scale : sum;
    }
  }
}

// Adds the products of one element of the inner dimension to all sums.
void add_products(uint inner) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const float element = a_element(a_index[r], inner);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[r * kColumns + c] += element * b_element(b_index[c], inner);
  }
}

// Elements in about 64 bytes.
const uint kLine = kAType == VKATTN_TYPE_FLOAT32 ? 16 : kAType == VKATTN_TYPE_Q4_0 ? 96 : 32;

// Reads a word of each cache line of the rows' elements, row after row as they lie in memory. In a step each row is a stream of
// its own, and short rows end before a prefetcher follows them.
void touch(Block block) {
  uint bits = 0, row = 0;
  [[dont_unroll]] do {
    const uint index = a_outer(block.batch, min(block.first_row + row, params.rows - 1u));
    uint first = block.inner_begin;
    [[dont_unroll]] do {
      const uint element = min(first + lane() * kLine, block.inner_end - 1u);
      const uint word = kAType == VKATTN_TYPE_FLOAT32 ? index + element
                        : is_blocks(kAType)           ? a_block(index, element) >> 1
                                                      : (index + element) >> 1;
      bits |= a_words[word];
      first += kThreads * kLine;
    } while (first < block.inner_end);
    row += 1;
  } while (row < kRows);
  stage[kRows * kColumns * kThreads + lane()] = uintBitsToFloat(bits);
}

void store_sums(Block block) {
  [[unroll]] for (uint i = 0; i < kRows * kColumns; ++i) stage[i * kThreads + lane()] = sums[i];
  subgroupMemoryBarrierShared();
  subgroupBarrier();  // the sums are complete
  [[unroll]] for (uint first = 0; first < kRows * kColumns; first += kThreads) {
    const uint i = first + lane();
    const uint row = block.first_row + i / kColumns, column = block.first_column + i % kColumns;
    if (i >= kRows * kColumns || row >= params.rows || column >= params.columns) continue;
    float sum = 0.0;
    [[unroll]] for (uint t = 0; t < kThreads; ++t) sum += stage[i * kThreads + t];
    store_sum(block.part, block.batch, row, column, sum);
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;  // uniform over the workgroup, so no barrier is missed
  const Block block = block_of(unit, kRows, kColumns, 1);
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    a_index[r] = a_outer(block.batch, min(block.first_row + r, params.rows - 1u));
  }
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    b_index[c] = b_outer(block.batch, min(block.first_column + c, params.columns - 1u));
  }
  [[unroll]] for (uint i = 0; i < kRows * kColumns; ++i) sums[i] = 0.0;
  if (kTouches && block.inner_begin < block.inner_end) touch(block);
  // A lane that has no more elements waits for the others, which costs nothing.
  const uint whole_end = block.inner_end - (block.inner_end - block.inner_begin) % kInner;
  uint inner = block.inner_begin + lane() * kInner;
  if (inner < whole_end) {
    do {
      add_products_of_step(inner);
      inner += kThreads * kInner;
    } while (inner < whole_end);
  }
  uint left = whole_end + lane();
  if (left < block.inner_end) {
    do {
      add_products(left);
      left += kThreads;
    } while (left < block.inner_end);
  }
  store_sums(block);
}

// Products of a few rows or columns (decode) by vectors at addresses (lib/lane_vectors.glsl), for llvmpipe from Mesa 25 on with
// subgroups of 8 lanes. A workgroup is one vector of a CPU. It computes kBlockRows rows of the output in all of its kColumns columns;
// lanes share the inner dimension. Both operands lie in lines of it. matmul_lane_decode.comp is for other problems.
//
//            a step: kInner vectors of 8 neighbours          the end
//          +----------+----------+-----+                   +-----------------------------------+
//   row 0  | 8 of row | 8 of row | ... |                   | the lanes of 8 sums are added     |
//   row 1  |          |          |     |  -> vectors of    | crosswise (sum_of_eight()), and   |
//   ...    +----------+----------+-----+     partial sums  | each lane has a result of its own |
//                                                          +-----------------------------------+
//
// Rows one by one (kRows 1) are read in the order of memory, which prefetchers follow where rows are short: 8 rows of a workgroup,
// each in a few sums of its own. The smaller operand stays in a core's first cache, and is read again for each row.
//
// Budget. Example: 8 rows, 1 column, 8 vectors of inner a step; elements of e bytes. In brackets: rows one by one.
//   registers      kRows * kColumns sums + kInner * kColumns of b + 1 of a = 8 + 8 + 1   (kParts * kColumns + 2 = 10)
//   shared memory  none
//   memory         each multiply-add reads e / kColumns bytes of a + e / kRows of b = e + e / 8   (e + e)
//
// Addresses have no checks of bounds. Vectors are read where a whole step exists; what is left of inner, fewer than kStep
// elements, is read one by one through descriptors. Lost on lavapipe (docs/trials/lavapipe.md): 16 rows or 4, and a word of each
// cache line read first.
#version 460
#extension GL_GOOGLE_include_directive : require

#define VKATTN_ADDRESS_PARAMS uint64_t a_address, b_address;

#include "matmul/blocks.glsl"
#include "matmul/operands.glsl"
#include "matmul/results.glsl"
#include "lib/lane_vectors.glsl"

const uint kStep = kInner * kVector;           // elements
const bool kInOrder = kAType == VKATTN_TYPE_FLOAT32 || kAType == VKATTN_TYPE_FLOAT16;  // lanes have neighbours
const uint kFour = 4;                          // vectors of b that are read together, and of a quantised block
const bool kOneByOne = kRows == 1;             // rows
const uint kParts = kOneByOne ? 8 / kColumns : 1;  // sums of a row and a column
const uint kBlockRows = kOneByOne ? kVector : kRows;
const uint kSums = (kRows * kColumns * kParts + 7) / 8 * 8;

// Indices and addresses of the first elements of rows and columns that the part has. The last row or column stands for those
// beyond it, which are not stored.
uint a_index[kRows], b_index[kColumns];
uint64_t a_line[kRows], b_line[kColumns];
float sums[kSums];
uint pair_lane, half_word_lane;  // the lane's in second_of() and half_of()

// --- b, as 4 vectors of 32 elements in the order of a's vectors ---

// Every second one of the 16 elements of two vectors.
float second_of(float low, float high, uint odd) {
  const float p = subgroupShuffle(low, pair_lane + odd), q = subgroupShuffle(high, pair_lane + odd);
  return upper_4 ? q : p;
}

// Four of the 8 words, as elements of 16 bits.
float half_of(uint words, uint first_word) {
  const vec2 pair = decode_pair(subgroupShuffle(words, half_word_lane + first_word), kBType);
  return upper_1 ? pair.y : pair.x;
}

uint words_at(uint64_t at, uint i) {
  Elements line = Elements(at);
  return vector_of(line.quad[2 * i], line.quad[2 * i + 1]);
}

void read_b32(uint64_t at, uint four, out float b[kFour]) {
  [[unroll]] for (uint i = 0; i < kFour; ++i) b[i] = uintBitsToFloat(words_at(at, four * kFour + i));
  const float p = second_of(b[0], b[1], 0), q = second_of(b[0], b[1], 1);
  const float r = second_of(b[2], b[3], 0), s = second_of(b[2], b[3], 1);
  b = float[kFour](p, q, r, s);
  if (!is_blocks(kAType)) return;
  b = float[kFour](second_of(p, r, 0), second_of(q, s, 0), second_of(p, r, 1), second_of(q, s, 1));
}

void read_b16(uint64_t at, uint four, out float b[kFour]) {
  uint low = words_at(at, four * 2), high = words_at(at, four * 2 + 1);
  if (kInOrder) {
    b = float[kFour](half_of(low, 0), half_of(low, 4), half_of(high, 0), half_of(high, 4));
    return;
  }
  if (is_blocks(kAType)) {
    const float p = uintBitsToFloat(low), q = uintBitsToFloat(high);
    low = floatBitsToUint(second_of(p, q, 0));
    high = floatBitsToUint(second_of(p, q, 1));
  }
  const vec2 first = decode_pair(low, kBType), second = decode_pair(high, kBType);
  b = float[kFour](first.x, first.y, second.x, second.y);
}

// --- Sums ---

// Adds the products of kStep elements, so many bytes behind the first ones, to all sums.
void add_products_of_step(uint64_t a_skipped, uint64_t b_skipped) {
  float b[kColumns * kInner];
  [[unroll]] for (uint i = 0; i < kColumns * kInner; i += kFour) {
    const uint64_t line = b_line[i / kInner] + b_skipped;
    float four[kFour];
    if (kInOrder && kBType != VKATTN_TYPE_BFLOAT16) {
      [[unroll]] for (uint d = 0; d < kFour; ++d) four[d] = vector_at(line, 0, i % kInner + d, kBType);
    } else if (kBType == VKATTN_TYPE_FLOAT32) {
      read_b32(line, i % kInner / kFour, four);
    } else {
      read_b16(line, i % kInner / kFour, four);
    }
    [[unroll]] for (uint d = 0; d < kFour; ++d) b[i + d] = four[d];
  }
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    [[unroll]] for (uint i = 0; i < kInner; ++i) {
      const float a = vector_at(a_line[r] + a_skipped, 0, i, kAType);
      [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[(r * kColumns + c) * kParts + i % kParts] += a * b[c * kInner + i];
    }
  }
}

// Adds the products of one element of the inner dimension to all sums.
void add_products(uint inner) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const float element = a_element(a_index[r], inner);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) sums[(r * kColumns + c) * kParts] += element * b_element(b_index[c], inner);
  }
}

void store_sums(Block block) {
  [[unroll]] for (uint first = 0; first < kSums; first += 8) {
    const float sum = sum_of_eight(vec4(sums[first], sums[first + 1], sums[first + 2], sums[first + 3]),
                                   vec4(sums[first + 4], sums[first + 5], sums[first + 6], sums[first + 7]));
    const uint i = first + gl_SubgroupInvocationID;
    const uint row = block.first_row + i / kColumns, column = block.first_column + i % kColumns;
    if (i >= kRows * kColumns || row >= params.rows || column >= params.columns) continue;
    store_sum(block.part, block.batch, row, column, sum);
  }
}

void begin_columns(Block block) {
  begin_vectors();
  pair_lane = (gl_SubgroupInvocationID & 3u) * 2;
  half_word_lane = gl_SubgroupInvocationID / 2;
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    b_index[c] = b_outer(block.batch, min(block.first_column + c, params.columns - 1u));
    b_line[c] = b_address + uint64_t(bytes_of(b_index[c] + block.inner_begin, kBType));
  }
}

// Sums of kRows rows, from this one on.
void sum_rows(Block block, uint first_row) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    a_index[r] = a_outer(block.batch, min(first_row + r, params.rows - 1u));
    a_line[r] = a_address + (is_blocks(kAType) ? uint64_t(a_block(a_index[r], block.inner_begin)) * 2
                                               : uint64_t(bytes_of(a_index[r] + block.inner_begin, kAType)));
  }
  [[unroll]] for (uint i = 0; i < kSums; ++i) sums[i] = 0.0;
  const uint steps = (block.inner_end - block.inner_begin) / kStep;
  if (steps != 0) {
    uint step = 0;
    [[dont_unroll]] do {
      add_products_of_step(uint64_t(bytes_of(step * kStep, kAType)), uint64_t(bytes_of(step * kStep, kBType)));
      step += 1;
    } while (step < steps);
  }
  uint left = block.inner_begin + steps * kStep + gl_SubgroupInvocationID;
  if (left < block.inner_end) {
    [[dont_unroll]] do {
      add_products(left);
      left += kVector;
    } while (left < block.inner_end);
  }
}

// Over parts and lanes.
float sum_of_row(uint column) {
  float sum = sums[column * kParts];
  [[unroll]] for (uint i = 1; i < kParts; ++i) sum += sums[column * kParts + i];
  [[unroll]] for (uint bit = 1; bit < kVector; bit *= 2) sum += subgroupShuffleXor(sum, bit);
  return sum;
}

// Each lane gets the results of a row.
void store_rows_one_by_one(Block block) {
  float results[kColumns];
  [[unroll]] for (uint c = 0; c < kColumns; ++c) results[c] = 0.0;
  uint r = 0;
  [[dont_unroll]] do {
    sum_rows(block, block.first_row + r);
    [[unroll]] for (uint c = 0; c < kColumns; ++c) {
      const float sum = sum_of_row(c);
      results[c] = gl_SubgroupInvocationID == r ? sum : results[c];
    }
    r += 1;
  } while (r < kVector && block.first_row + r < params.rows);
  const uint row = block.first_row + gl_SubgroupInvocationID;
  if (row >= params.rows) return;
  [[unroll]] for (uint c = 0; c < kColumns; ++c) {
    if (block.first_column + c < params.columns) store_sum(block.part, block.batch, row, block.first_column + c, results[c]);
  }
}

void main() {
  const uint unit = first_unit_of_group(1);
  if (!has_unit(unit)) return;
  const Block block = block_of(unit, kBlockRows, kColumns, 1);
  begin_columns(block);
  if (kOneByOne) {
    store_rows_one_by_one(block);
  } else {
    sum_rows(block, block.first_row);
    store_sums(block);
  }
}

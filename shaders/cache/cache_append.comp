// Writes rows of keys or values into a cache of any layout and storage type, or rows of queries into another tensor. It can
// rotate them on the way (rotary embedding). The last dispatch writes the new lengths.
//
//   a row, a unit for each invocation:   | unit 0: 8 dims | unit 1: 8 dims | ...
//   half-split rotation:                 | unit 0: 4 dims of the first half, their 4 partners | ... | 8 unrotated dims | ...
//   a block format:                      | unit 0: a block of 32 elements | unit 1: the next block | ...
//
// Budget: 16 registers of elements and their bits, and 16 of angles (block formats: 4 elements at a time, and each word is
// stored as soon as it is full); no shared memory. Each element is read once; for a block format it is read twice, first for
// the scale, and so is its partner in half-split rotation.
//
// Both dims of a rotated pair are in one unit, so that queries can be rotated in place. Only units of block formats read
// partners of other units, and these are never rotated in place. Invocations share nothing but words of which several write
// a part (store_part()).
#version 460
#extension GL_GOOGLE_include_directive : require

#include "cache/quantise.glsl"
#include "cache/rotary.glsl"
#include "cache/rows.glsl"
#include "lib/packed.glsl"
#include "lib/workgroups.glsl"

layout(local_size_x_id = VKATTN_APPEND_SPEC_WORKGROUP_SIZE) in;
layout(constant_id = VKATTN_APPEND_SPEC_WORKGROUP_SIZE) const uint kWorkgroupSize = 64;
layout(constant_id = VKATTN_APPEND_SPEC_TASK) const uint kTask = VKATTN_APPEND_ROWS;
layout(constant_id = VKATTN_APPEND_SPEC_MAPPING) const uint kMapping = VKATTN_APPEND_CONTIGUOUS;
layout(constant_id = VKATTN_APPEND_SPEC_MAPPED_ROWS) const uint kMappedRows = 1;
layout(constant_id = VKATTN_APPEND_SPEC_HAS_POSITIONS) const bool kHasPositions = false;
layout(constant_id = VKATTN_APPEND_SPEC_HAS_NEW_LENGTHS) const bool kHasNewLengths = false;
layout(constant_id = VKATTN_APPEND_SPEC_PACKED_ROWS) const bool kPackedRows = false;

layout(set = 0, binding = VKATTN_APPEND_BINDING_POSITIONS, std430) readonly buffer Positions { int positions[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_NEW_LENGTHS, std430) readonly buffer NewLengths { int new_lengths[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_PAGE_TABLE, std430) readonly buffer PageTable { int page_table[]; };
layout(set = 0, binding = VKATTN_APPEND_BINDING_SCALES, std430) readonly buffer Scales { float scales[]; };

const uint kBlock = 32;  // elements of a block format

int first_position(uint batch) {
  return kHasPositions ? positions[params.positions_offset + batch] : params.position;
}

// A batch entry's first row among the packed new rows, and its number of rows.
ivec2 packed_rows(uint batch) {
  const uint lengths = params.new_lengths_offset + batch;
  return packed_extent(new_lengths[lengths], new_lengths[lengths + 1u], params.total_new_length, params.new_length);
}

uint new_rows(uint batch) {
  if (kPackedRows) return uint(packed_rows(batch).y);
  if (!kHasNewLengths) return params.new_length;
  return uint(clamp(new_lengths[params.new_lengths_offset + batch], 0, int(params.new_length)));
}

void write_length(uint batch) {
  const int position = first_position(batch);
  const int rows = int(new_rows(batch));
  // Two numbers that are not negative have a sum that fits 32 bits without a sign.
  const uint end = position < 0 ? uint(max(position + rows, 0)) : uint(position) + uint(rows);
  target_words[params.target_offset + batch] = min(end, params.capacity);
}

// Finds the batch entry's row that is this packed row. Returns false if it is none of them.
bool entry_has(uint batch, uint packed_row, out uint row) {
  const ivec2 rows = packed_rows(batch);
  row = packed_row - uint(rows.x);  // wraps above every length if it lies before the first row
  return row < uint(rows.y);
}

// Finds the batch entry and the row of a packed row. Returns false if the row belongs to no entry. Rows behind the last
// cumulative length return at once, as a plan for many rows may run with few. Halving finds the entry if lengths do not fall;
// if it finds none, all entries are searched.
bool find_entry(uint packed_row, out uint batch, out uint row) {
  const uint lengths = params.new_lengths_offset;
  if (int(packed_row) >= new_lengths[lengths + params.batch]) return false;
  batch = 0u;
  uint beyond = params.batch;
  while (beyond - batch > 1u) {
    const uint middle = (batch + beyond) / 2u;
    if (new_lengths[lengths + middle] <= int(packed_row)) {
      batch = middle;
    } else {
      beyond = middle;
    }
  }
  if (entry_has(batch, packed_row, row)) return true;
  // All invocations visit all entries in the same order, so that they share each load.
  bool found = false;
  int first = new_lengths[lengths];
  for (uint entry = 0; entry < params.batch; ++entry) {
    const int end = new_lengths[lengths + entry + 1u];
    uint entry_row;
    if (first <= int(packed_row) && int(packed_row) < end && entry_has(entry, packed_row, entry_row)) {
      found = true;
      batch = entry;
      row = entry_row;
    }
    first = end;
  }
  return found;
}

// Finds the place of a row that is row `stored_row` of the source. Returns false if it is stored nowhere. Without their sign,
// negative positions are above every capacity.
bool find_row(uint batch, uint row, uint stored_row, uint position, out uint target_batch, out uint target_row) {
  target_batch = batch;
  target_row = stored_row;
  if (kMapping == VKATTN_APPEND_SAME_ROW) return true;
  if (position >= params.capacity) return false;
  target_row = position;
  if (kMapping == VKATTN_APPEND_CONTIGUOUS) return true;
  target_row = position % kMappedRows;
  // A later new row may take the same place of a ring; then this one is not stored.
  if (kMapping == VKATTN_APPEND_RING) return row + kMappedRows >= new_rows(batch);
  const uint entry = params.page_table_offset + batch * params.page_table_stride + position / kMappedRows;
  const int page = page_table[entry];
  target_batch = uint(page);
  return page >= 0 && target_batch < params.page_count;
}

uvec4 encode4(vec4 elements, float inverse_scale) {
  if (kTargetType == VKATTN_TYPE_FLOAT32) return floatBitsToUint(elements);
  uvec4 bits;
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    bits[i] = kTargetType == VKATTN_TYPE_FLOAT8_E4M3 ? encode_e4m3(elements[i] * inverse_scale)
                                                     : encode_16bit(elements[i], kTargetType);
  }
  return bits;
}

// Elements keep their bits if they are not rotated and keep their type.
uvec4 convert4(uvec4 bits, vec4 elements, bvec4 rotated, float inverse_scale) {
  const uvec4 encoded = encode4(elements, inverse_scale);
  return kSourceType == kTargetType ? mix(bits, encoded, rotated) : encoded;
}

// The numbers that are multiplied by the sines of interleaved pairs.
vec4 interleaved_partners(vec4 x) { return vec4(-x.y, x.x, -x.w, x.z); }

// The number of a row's units with half-split pairs: each has four dims of the first half and four of the second.
uint pair_units() { return kRotaryStyle == VKATTN_ROTARY_HALF_SPLIT ? (rotary_pairs() + 3u) / 4u : 0u; }

// Converts eight dims of a row: four pairs, or dims that are not rotated.
void convert_dims(uint source, uint target, uint unit, uint head, int position) {
  const bool halves = unit < pair_units();
  const uint passed = kRotaryStyle == VKATTN_ROTARY_HALF_SPLIT ? kRotaryDims : 0u;
  const uint first = halves ? unit * 4u : passed + (unit - pair_units()) * 8u;
  const uint second = halves ? rotary_pairs() + first : first + 4u;
  const uint first_end = halves ? rotary_pairs() : kDims;
  const uint second_end = halves ? kRotaryDims : kDims;
  const uvec4 first_bits = source_bits4(source, first, first_end);
  const uvec4 second_bits = source_bits4(source, second, second_end);
  vec4 x = decode4(first_bits);
  vec4 y = decode4(second_bits);
  bvec4 x_rotated = bvec4(false);
  bvec4 y_rotated = bvec4(false);
  if (kRotaryStyle != VKATTN_ROTARY_NONE && first < kRotaryDims) {
    const uvec4 lanes = uvec4(0, 1, 2, 3);
    vec4 cosine, sine;
    rotary_cos_sin(unit * 4u, position, cosine, sine);
    vec4 new_x = x * cosine - y * sine;
    vec4 new_y = y * cosine + x * sine;
    if (kRotaryStyle == VKATTN_ROTARY_INTERLEAVED) {
      new_x = x * cosine.xxyy + interleaved_partners(x) * sine.xxyy;
      new_y = y * cosine.zzww + interleaved_partners(y) * sine.zzww;
    }
    x_rotated = lessThan(first + lanes, uvec4(kRotaryDims));
    y_rotated = lessThan(second + lanes, uvec4(kRotaryDims));
    x = mix(x, new_x, x_rotated);
    y = mix(y, new_y, y_rotated);
  }
  float inverse_scale = 1.0;
  if (kTargetType == VKATTN_TYPE_FLOAT8_E4M3) inverse_scale = reciprocal(scales[params.scales_offset + head]);
  store_bits4(target, first, first_end, convert4(first_bits, x, x_rotated, inverse_scale));
  store_bits4(target, second, second_end, convert4(second_bits, y, y_rotated, inverse_scale));
}

// Four rotated dims of a row, for block formats, where each half of pairs begins at a multiple of four dims.
vec4 rotated4(uint source, uint dim, int position) {
  const vec4 x = decode4(source_bits4(source, dim, kDims));
  if (kRotaryStyle == VKATTN_ROTARY_NONE || dim >= kRotaryDims) return x;
  const bool interleaved = kRotaryStyle == VKATTN_ROTARY_INTERLEAVED;
  const bool in_second = !interleaved && dim >= rotary_pairs();
  const uint pair = interleaved ? dim / 2u : in_second ? dim - rotary_pairs() : dim;
  vec4 cosine, sine;
  rotary_cos_sin(pair, position, cosine, sine);
  if (interleaved) {
    const bvec4 rotates = lessThan(dim + uvec4(0, 1, 2, 3), uvec4(kRotaryDims));
    return mix(x, x * cosine.xxyy + interleaved_partners(x) * sine.xxyy, rotates);
  }
  const vec4 partner = decode4(source_bits4(source, in_second ? pair : dim + rotary_pairs(), kDims));
  return x * cosine + (in_second ? partner : -partner) * sine;
}

#if VKATTN_QUANTISED

// Quantises one block. It computes the elements twice, for the scale and for the codes, rather than keep them. The block
// begins at an even or an odd half of the buffer, so that a half is left over: the first one or the last.
void quantise_block(uint source, uint target, uint first_dim, int position) {
  const bool is_q4 = kTargetType == VKATTN_TYPE_Q4_0;
  const bool odd = (target & 1u) != 0u;
  uint word = (target >> 1) + (odd ? 1u : 0u);
  uint largest = 0u;
  uint left_over = 0u;
  uint codes = 0u;
  BlockScale scale = BlockScale(0u, 0.0);
  [[dont_unroll]] for (uint i = 0; i < 16; ++i) {
    // A byte of q4_0 has elements 16 apart.
    const uint quad = is_q4 && i >= 8u ? (i - 8u) / 2u + (i & 1u) * 4u : i & 7u;
    const vec4 elements = rotated4(source, first_dim + quad * 4u, position);
    if (i < 8u) {
      const uvec4 bits = floatBitsToUint(elements);
      [[unroll]] for (uint e = 0; e < 4; ++e) {
        if ((bits[e] & 0x7fffffffu) > (largest & 0x7fffffffu)) largest = bits[e];
      }
      continue;
    }
    if (i == 8u) {
      scale = block_scale(largest, kTargetType);
      left_over = scale.bits;
    }
    if (is_q4) {
      const uint nibbles = q4_0_codes(elements, scale.inverse);
      codes = (i & 1u) == 0u ? nibbles : codes | nibbles << 4;
      if ((i & 1u) == 0u) continue;
    } else {
      codes = q8_0_codes(elements, scale.inverse);
    }
    target_words[word] = odd ? codes : left_over | codes << 16;
    if (!odd) left_over = codes >> 16;
    ++word;
  }
  store_half(odd ? target : word * 2u, left_over);
}

bool has_blocks() { return kTargetType == VKATTN_TYPE_Q8_0 || kTargetType == VKATTN_TYPE_Q4_0; }

#else

void quantise_block(uint source, uint target, uint first_dim, int position) {}
bool has_blocks() { return false; }

#endif

uint units_per_row() {
  if (has_blocks()) return kDims / kBlock;
  const uint passed = kRotaryStyle == VKATTN_ROTARY_HALF_SPLIT ? kRotaryDims : 0u;
  return pair_units() + (kDims - passed + 7u) / 8u;
}

void convert_unit(uint index) {
  const uint row_index = index / units_per_row();
  const uint unit = index - row_index * units_per_row();
  const uint position_index = row_index / params.heads;
  const uint head = row_index - position_index * params.heads;
  uint batch, row;
  if (kPackedRows) {
    if (!find_entry(position_index, batch, row)) return;
  } else {
    batch = position_index / params.new_length;
    row = position_index - batch * params.new_length;
    if (row >= new_rows(batch)) return;
  }
  const uint stored_row = kPackedRows ? position_index : row;
  const uint position = uint(first_position(batch)) + row;
  uint target_batch, target_row;
  if (!find_row(batch, row, stored_row, position, target_batch, target_row)) return;
  const uint source = params.source_offset + batch * params.source_batch_stride + head * params.source_head_stride +
                      stored_row * params.source_row_stride;
  const uint target = target_batch * params.target_batch_stride + head * params.target_head_stride +
                      target_row * params.target_row_stride;
  if (has_blocks()) {
    const uint halves = kTargetType == VKATTN_TYPE_Q8_0 ? 17u : 9u;
    quantise_block(source, params.target_offset + (target + unit) * halves, unit * kBlock, int(position));
  } else {
    convert_dims(source, params.target_offset + target, unit, head, int(position));
  }
}

void main() {
  const uint group = workgroup_number();
  const uint index = group * kWorkgroupSize + gl_LocalInvocationIndex;
  if (index >= params.unit_count) return;
  if (kTask == VKATTN_APPEND_LENGTHS) {
    write_length(params.first_unit + index);
  } else {
    convert_unit(params.first_unit + index);
  }
}

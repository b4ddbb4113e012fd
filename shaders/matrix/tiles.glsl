// Moves tiles of keys and values from memory to shared memory, directly or through registers.
//   void load_tile(tile, first_key, key_end, slice)    in one step, with a few loads in flight, or in two steps:
//   void fetch_tile(tile, first_key, key_end, slice)   from memory to registers
//   void place_tile(first_key, key_end)                from registers to shared memory
#ifndef VKATTN_MATRIX_TILES
#define VKATTN_MATRIX_TILES

#include "matrix/quantised.glsl"
#include "matrix/stages.glsl"

// Vectors of a tile are numbered, and a thread takes every kThreads-th. A number of values stands for two vectors, of
// neighbouring keys, whose elements share a word in a transposed stage. There neighbouring threads have neighbouring keys,
// otherwise neighbouring dims.
uint key_of(uint i) { return i / (kKeyStride8 - 1); }
uint key_dim8(uint i) { return i % (kKeyStride8 - 1); }
uint value_pair(uint i) { return kValuesTransposed ? i % (kBlockKeys / 2) : i / (kSliceDims / 8); }
uint value_dim8(uint i) { return kValuesTransposed ? i / (kBlockKeys / 2) : i % (kSliceDims / 8); }
bool has_key_vector(uint i) { return kKeyVectors % (kThreads * kKeyBatch) == 0 || i < kKeyVectors; }
bool has_value_vector(uint i) { return kValueVectors % (kThreads * kValueBatch) == 0 || i < kValueVectors; }

// No load has a branch around it: compilers would wait for each load before the next. The last key stands for keys from
// key_end on, and the last vector for vectors beyond it, so that these are never read. first_key is below key_end.
uint existing_key(uint key, int first_key, int key_end) { return uint(min(first_key + int(key), key_end - 1)); }
uint existing_key_vector(uint i) {
  return kKeyVectors % (kThreads * kKeyBatch) == 0 ? i : min(i, kKeyVectors - 1u);
}
uint existing_value_vector(uint i) {
  return kValueVectors % (kThreads * kValueBatch) == 0 ? i : min(i, kValueVectors - 1u);
}

// Zeros beyond the row meet zeros of the queries.
uvec4 fetch_key(TilePosition tile, uint number, int first_key, int key_end) {
  const uint i = existing_key_vector(number);
  const uint row = key_row(tile.batch, tile.kv_head, existing_key(key_of(i), first_key, key_end));
  const uint dim = key_dim8(i) * 8u;
  if (kKeysQuantised) return key_operands8(row, dim);
  if (kHeadDim % kK == 0) return key_full_bits8(row, dim);
  if (kHeadDim % 8 != 0) return key_bits8(row, dim);
  const bool exists = dim < kHeadDim;
  return mix(uvec4(0u), key_full_bits8(row, exists ? dim : 0u), bvec4(exists));
}

uvec4 fetch_value(TilePosition tile, uint number, uint odd, int first_key, int key_end, uint slice) {
  const uint i = existing_value_vector(number);
  const uint key = value_pair(i) * 2u + odd;
  const uint row = value_row(tile.batch, tile.kv_head, existing_key(key, first_key, key_end));
  const uint dim = slice * kSliceDims + value_dim8(i) * 8u;
  if (kValuesQuantised) return value_operands8(row, dim);
  if (kValueDim % 8 != 0) return value_bits8(row, dim);
  if (kValueDim % kSliceDims == 0) return value_full_bits8(row, dim);
  const bool exists = dim < kValueDim;
  return mix(uvec4(0u), value_full_bits8(row, exists ? dim : 0u), bvec4(exists));
}

// Only the last tile has keys from key_end on. Their vectors become zeros when they are placed, behind a branch that is the
// same for the whole workgroup: so no fetch waits for what it has asked for.
bool is_ragged(int first_key, int key_end) { return first_key + int(kBlockKeys) > key_end; }
uvec4 zeros_beyond(uvec4 elements, uint key, int first_key, int key_end) {
  return mix(uvec4(0u), elements, bvec4(first_key + int(key) < key_end));
}

// Values must be zeros there: an infinity times a probability of 0 would be NaN.
uvec4 existing_values(uvec4 elements, uint i, uint odd, int first_key, int key_end) {
  return zeros_beyond(elements, value_pair(i) * 2u + odd, first_key, key_end);
}

void place_key(uint i, uvec4 elements) {
  if (has_key_vector(i)) key_stage[key_of(i) * kKeyStride8 + key_dim8(i)] = elements;
}

void place_values(uint i, uvec4 even, uvec4 odd) {
  if (!has_value_vector(i)) return;
  const uint pair = value_pair(i);
  if (!kValuesTransposed) {
    value_stage[pair * 2u * kValueStride8 + value_dim8(i)] = even;
    value_stage[(pair * 2u + 1u) * kValueStride8 + value_dim8(i)] = odd;
    return;
  }
  // Halves of words as float16, which RADV packs in one instruction; the bits may be of another type.
  [[unroll]] for (uint d = 0; d < 8; ++d) {
    const f16vec2 low = unpackFloat2x16(even[d / 2]);
    const f16vec2 high = unpackFloat2x16(odd[d / 2]);
    value_stage[(value_dim8(i) * 8u + d) * kValueStride8 + pair / 4][pair % 4] =
        packFloat2x16(f16vec2(low[d % 2], high[d % 2]));
  }
}

// Reads this thread's part of a tile into registers. Without a tile it does nothing.
void fetch_tile(TilePosition tile, int first_key, int key_end, uint slice) {
  if (first_key >= key_end) return;
  [[unroll]] for (uint f = 0; f < kKeyFetches; ++f) {
    key_fetch[f] = fetch_key(tile, gl_LocalInvocationIndex + f * kThreads, first_key, key_end);
  }
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    const uint i = gl_LocalInvocationIndex + f * kThreads;
    value_fetch[f * 2] = fetch_value(tile, i, 0u, first_key, key_end, slice);
    value_fetch[f * 2 + 1] = fetch_value(tile, i, 1u, first_key, key_end, slice);
  }
}

void place_tile(int first_key, int key_end) {
  [[unroll]] for (uint f = 0; f < kKeyFetches; ++f) {
    place_key(gl_LocalInvocationIndex + f * kThreads, key_fetch[f]);
  }
  if (is_ragged(first_key, key_end)) {
    [[unroll]] for (uint f = 0; f < kValueFetches * 2; ++f) {
      const uint i = gl_LocalInvocationIndex + f / 2 * kThreads;
      value_fetch[f] = existing_values(value_fetch[f], i, f % 2u, first_key, key_end);
    }
  }
  [[unroll]] for (uint f = 0; f < kValueFetches; ++f) {
    place_values(gl_LocalInvocationIndex + f * kThreads, value_fetch[f * 2], value_fetch[f * 2 + 1]);
  }
}

// Part `first` of the keys of a tile. Scores of keys from key_end on are hidden, whatever they are. But if not every thread
// places each vector, RADV (Mesa 25.0) moves loads to the branches in which they are placed, and waits for one after the
// other there, unless something is done with them before.
void load_keys(TilePosition tile, uint first, int first_key, int key_end) {
  uvec4 keys[kKeyBatch];
  [[unroll]] for (uint f = 0; f < kKeyBatch; ++f) {
    keys[f] = fetch_key(tile, gl_LocalInvocationIndex + (first + f) * kThreads, first_key, key_end);
  }
  if (kKeyVectors % (kThreads * kKeyBatch) != 0 && is_ragged(first_key, key_end)) {
    [[unroll]] for (uint f = 0; f < kKeyBatch; ++f) {
      const uint key = key_of(gl_LocalInvocationIndex + (first + f) * kThreads);
      keys[f] = zeros_beyond(keys[f], key, first_key, key_end);
    }
  }
  [[unroll]] for (uint f = 0; f < kKeyBatch; ++f) {
    place_key(gl_LocalInvocationIndex + (first + f) * kThreads, keys[f]);
  }
}

void load_values(TilePosition tile, uint first, int first_key, int key_end, uint slice) {
  uvec4 values[kValueBatch * 2];
  [[unroll]] for (uint f = 0; f < kValueBatch * 2; ++f) {
    const uint i = gl_LocalInvocationIndex + (first + f / 2) * kThreads;
    values[f] = fetch_value(tile, i, f % 2u, first_key, key_end, slice);
  }
  if (is_ragged(first_key, key_end)) {
    [[unroll]] for (uint f = 0; f < kValueBatch * 2; ++f) {
      const uint i = gl_LocalInvocationIndex + (first + f / 2) * kThreads;
      values[f] = existing_values(values[f], i, f % 2u, first_key, key_end);
    }
  }
  [[unroll]] for (uint f = 0; f < kValueBatch; ++f) {
    place_values(gl_LocalInvocationIndex + (first + f) * kThreads, values[f * 2], values[f * 2 + 1]);
  }
}

// Fetches and places a tile, with a few loads in flight. lavapipe 26.1 runs the body of a loop that is never entered once,
// under an empty mask, and crashes if it looks up pages then. One branch around all loads costs nothing.
void load_tile(TilePosition tile, int first_key, int key_end, uint slice) {
  if (first_key >= key_end) return;
  [[unroll]] for (uint first = 0; first < kKeyFetches; first += kKeyBatch) {
    load_keys(tile, first, first_key, key_end);
  }
  [[unroll]] for (uint first = 0; first < kValueFetches; first += kValueBatch) {
    load_values(tile, first, first_key, key_end, slice);
  }
}

#endif

// Which rows and keys a batch entry has, and where they lie: lengths, packed tensors, rings and pages.
//
// begin_entry(batch, kv_head) sets the globals below from a batch entry, the same for all invocations of a workgroup.
#ifndef VKATTN_LIB_ENTRIES
#define VKATTN_LIB_ENTRIES

#include "lib/features.glsl"
#include "lib/packed.glsl"

layout(set = 0, binding = VKATTN_BINDING_KV_LENGTHS, std430) readonly buffer KvLengths { int kv_lengths[]; };

#if VKATTN_FEATURES

layout(set = 0, binding = VKATTN_BINDING_QUERY_LENGTHS, std430) readonly buffer QueryLengths { int query_lengths[]; };
layout(set = 0, binding = VKATTN_BINDING_PAGE_TABLE, std430) readonly buffer PageTable { int page_table[]; };
layout(set = 0, binding = VKATTN_BINDING_KEY_SCALES, std430) readonly buffer KeyScales { float key_scales[]; };
layout(set = 0, binding = VKATTN_BINDING_VALUE_SCALES, std430) readonly buffer ValueScales { float value_scales[]; };

// True if a key's place must be looked up, not only calculated.
const bool kLooksUpKeys = kKeyMapping == VKATTN_KEYS_PAGED || kKeyMapping == VKATTN_KEYS_RING;

uint query_first_row = 0;  // of the batch entry, in packed tensors
uint key_first_row = 0;
int entry_kv_length = 0;       // keys of the batch entry
uint entry_query_length = 0;   // rows of the batch entry in this window
int entry_position_shift = 0;  // what bottom-right alignment adds to offsets
float key_scale = 1.0;         // scales of float8
float value_scale = 1.0;

void begin_entry(uint batch, uint kv_head) {
  const uint lengths = params.kv_lengths_offset + batch;
  int query_length = int(features.problem_query_length);
  entry_kv_length = int(params.kv_length);
  if (kKeyMapping == VKATTN_KEYS_PACKED) {
    const ivec2 keys =
        packed_extent(kv_lengths[lengths], kv_lengths[lengths + 1u], features.total_kv_length, params.kv_length);
    key_first_row = uint(keys.x);
    entry_kv_length = keys.y;
  } else if (kHasKvLengths) {
    entry_kv_length = clamp(kv_lengths[lengths], 0, int(params.kv_length));
  }
  if (kPackedQueries) {
    const uint first = features.query_lengths_offset + batch;
    const ivec2 queries = packed_extent(query_lengths[first], query_lengths[first + 1u], features.total_query_length,
                                        features.problem_query_length);
    query_first_row = uint(queries.x);
    query_length = queries.y;
  } else if (kHasQueryLengths) {
    query_length = clamp(query_lengths[features.query_lengths_offset + batch], 0, query_length);
  }
  entry_query_length = uint(clamp(query_length - int(features.first_row), 0, int(params.query_length)));
  entry_position_shift = entry_kv_length + int(features.problem_query_length) - query_length;
  if (kKeyType == VKATTN_TYPE_FLOAT8_E4M3) key_scale = key_scales[features.key_scales_offset + kv_head];
  if (kValueType == VKATTN_TYPE_FLOAT8_E4M3) value_scale = value_scales[features.value_scales_offset + kv_head];
}

int visible_kv_length(uint batch) { return entry_kv_length; }

// The row's number among the rows that the workspace has room for.
uint workspace_row(uint batch, uint head, uint query) {
  if (kPackedQueries) return head * features.total_query_length + query_first_row + query;
  return (batch * params.query_heads + head) * params.query_length + query;
}

int readable_kv_length() { return entry_kv_length; }  // keys below it have memory
uint visible_query_length() { return entry_query_length; }

// The batch entry (or page) and the row of K and V that hold a key.
uvec2 key_slot(uint batch, uint key) {
  if (kKeyMapping == VKATTN_KEYS_PACKED) return uvec2(0u, key_first_row + key);
  if (kKeyMapping == VKATTN_KEYS_RING) return uvec2(batch, key % kCacheRows);
  if (kKeyMapping == VKATTN_KEYS_PAGED) {
    const int page = page_table[features.page_table_offset + batch * features.page_table_stride + key / kCacheRows];
    return uvec2(clamp(page, 0, int(features.page_count) - 1), key % kCacheRows);
  }
  return uvec2(batch, key);
}

#else

const bool kLooksUpKeys = false;
const uint query_first_row = 0;

void begin_entry(uint batch, uint kv_head) {}

int visible_kv_length(uint batch) {
  const int kv_length = int(params.kv_length);
  return kHasKvLengths ? clamp(kv_lengths[params.kv_lengths_offset + batch], 0, kv_length) : kv_length;
}

uint workspace_row(uint batch, uint head, uint query) {
  return (batch * params.query_heads + head) * params.query_length + query;
}

int readable_kv_length() { return int(params.kv_length); }
uint visible_query_length() { return params.query_length; }
uvec2 key_slot(uint batch, uint key) { return uvec2(batch, key); }

#endif

#endif

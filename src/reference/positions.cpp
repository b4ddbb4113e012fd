// Positions: see positions.hpp. Whatever number a length or a page table holds, nothing outside the tensors
// is read.
#include "reference/positions.hpp"

#include <algorithm>

#include "reference/storage.hpp"

namespace vkattn::reference {
namespace {

std::int64_t at(const HostInput& numbers, std::int64_t index) {
  return number_at<std::int32_t>(numbers, index);
}

/// The part of a packed tensor that is one sequence.
struct Sequence {
  std::int64_t first = 0;
  std::int64_t length = 0;
};

/// Cumulative lengths that fall, or reach beyond the tensor, give what is left of the sequence in it.
Sequence sequence_of(const HostInput& cumulative, std::int64_t batch, std::int64_t total,
                     std::int64_t longest) {
  const std::int64_t first = std::clamp<std::int64_t>(at(cumulative, batch), 0, total);
  const std::int64_t length = at(cumulative, batch + 1) - first;
  return {first, std::clamp<std::int64_t>(length, 0, std::min(longest, total - first))};
}

Sequence query_sequence(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  return sequence_of(inputs.cumulative_query_lengths, batch, desc.total_query_length, desc.query_length);
}

Sequence key_sequence(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  return sequence_of(inputs.cumulative_kv_lengths, batch, desc.total_kv_length, desc.kv_length);
}

}  // namespace

std::int64_t query_length(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  if (desc.has_packed_queries()) return query_sequence(desc, inputs, batch).length;
  if (desc.query_lengths != Lengths::kPerEntry) return desc.query_length;
  return std::clamp<std::int64_t>(at(inputs.query_lengths, batch), 0, desc.query_length);
}

std::int64_t key_length(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  if (desc.has_packed_keys()) return key_sequence(desc, inputs, batch).length;
  if (desc.kv_lengths != Lengths::kPerEntry) return desc.kv_length;
  return std::clamp<std::int64_t>(at(inputs.kv_lengths, batch), 0, desc.kv_length);
}

bool is_written(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row) {
  return row.query < query_length(desc, inputs, row.batch);
}

RowIndex stored_row(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row) {
  if (!desc.has_packed_queries()) return row;
  return {0, row.head, query_sequence(desc, inputs, row.batch).first + row.query};
}

KeyRange existing_keys(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  const std::int64_t length = key_length(desc, inputs, batch);
  if (desc.cache.mapping != KeyMapping::kRing) return {0, length};
  return {std::max<std::int64_t>(0, length - desc.cache.ring_length), length};
}

std::int64_t position_offset(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch) {
  switch (desc.align) {
    case Align::kTopLeft:
      return 0;
    case Align::kBottomRight:
      return key_length(desc, inputs, batch) - query_length(desc, inputs, batch);
    case Align::kOffset:
      break;
  }
  return desc.offset;
}

KeyRange seen_keys(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row) {
  KeyRange range = existing_keys(desc, inputs, row.batch);
  const std::int64_t aligned = row.query + position_offset(desc, inputs, row.batch);
  const SlidingWindow& window = desc.window;
  if (window.left != kUnlimited) range.begin = std::max(range.begin, aligned - window.left);
  if (window.right != kUnlimited) range.end = std::min(range.end, aligned + window.right + 1);
  if (desc.causal) range.end = std::min(range.end, aligned + 1);
  range.end = std::max(range.end, range.begin);
  return range;
}

KeyPlace stored_key(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch, std::int64_t key) {
  if (desc.has_packed_keys()) return {0, key_sequence(desc, inputs, batch).first + key};
  const CacheLayout& cache = desc.cache;
  switch (cache.mapping) {
    case KeyMapping::kRing:
      return {batch, key % cache.ring_length};
    case KeyMapping::kPaged: {
      const std::int64_t entry = batch * cache.page_table_stride + key / cache.page_size;
      const std::int64_t page =
          std::clamp<std::int64_t>(at(inputs.page_table, entry), 0, cache.page_count - 1);
      return {page, key % cache.page_size};
    }
    case KeyMapping::kContiguous:
      break;
  }
  return {batch, key};
}

}  // namespace vkattn::reference

// The row map: see row_map.hpp. It does not use the reference's own mapping, because it checks that mapping.
#include "harness/row_map.hpp"

#include <algorithm>

namespace vkattn::harness {
namespace {

constexpr std::int64_t kNowhere = -1;

}  // namespace

std::int64_t key_length(const Problem& problem, std::int64_t batch) {
  const std::int64_t longest = problem.desc.kv_length;
  if (problem.desc.kv_lengths != Lengths::kPerEntry) return longest;
  return std::clamp<std::int64_t>(problem.kv_lengths[static_cast<std::size_t>(batch)], 0, longest);
}

std::int64_t new_rows(const Problem& problem, std::int64_t batch) {
  const AttentionDesc& desc = problem.desc;
  if (!desc.has_packed_queries()) return problem.appended;
  const std::int64_t queries = problem.query_lengths[static_cast<std::size_t>(batch)];
  return std::min({problem.appended, desc.query_length, queries});
}

bool is_appended(const Problem& problem, std::int64_t batch, std::int64_t key) {
  if (problem.appended == 0) return false;
  const std::int64_t length = key_length(problem, batch);
  return key >= length - new_rows(problem, batch) && key < length;
}

RowMap::RowMap(const Problem& problem, const SmallInputs& inputs, TensorRole role) {
  const AttentionDesc& desc = problem.desc;
  const bool of_queries = role == TensorRole::kQuery;
  const bool in_cache = !of_queries && desc.cache.mapping != KeyMapping::kContiguous;
  const bool packed = of_queries ? desc.has_packed_queries() : desc.has_packed_keys();
  is_identity_ = !in_cache && !packed;
  if (is_identity_) return;
  const TensorExtents extents = of_queries ? query_extents(desc, 1) : key_extents(desc, 1);
  rows_ = extents.rows;
  places_.assign(static_cast<std::size_t>(extents.batch * extents.rows), {0, kNowhere});
  if (packed) {
    add_sequences(desc, of_queries ? inputs.cumulative_query_lengths : inputs.cumulative_kv_lengths,
                  of_queries ? desc.query_length : desc.kv_length);
  } else if (desc.cache.mapping == KeyMapping::kRing) {
    add_ring(problem);
  } else {
    add_pages(desc, inputs.page_table);
  }
}

std::optional<RowMap::Place> RowMap::at(std::int64_t batch, std::int64_t row) const {
  if (is_identity_) return Place{batch, row};
  const Place& place = places_[static_cast<std::size_t>(batch * rows_ + row)];
  if (place.row == kNowhere) return std::nullopt;
  return place;
}

void RowMap::put(std::int64_t batch, std::int64_t row, Place place) {
  places_[static_cast<std::size_t>(batch * rows_ + row)] = place;
}

void RowMap::add_sequences(const AttentionDesc& desc, const std::vector<std::int32_t>& cumulative,
                           std::int64_t longest) {
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t first = cumulative[static_cast<std::size_t>(b)];
    const std::int64_t end = cumulative[static_cast<std::size_t>(b) + 1];
    for (std::int64_t i = 0; i < std::min(end - first, longest); ++i) put(0, first + i, {b, i});
  }
}

void RowMap::add_ring(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t length = key_length(problem, b);
    // Writes as the cache would: later keys take the place of earlier ones.
    for (std::int64_t j = std::max<std::int64_t>(0, length - rows_); j < length; ++j)
      put(b, j % rows_, {b, j});
  }
}

void RowMap::add_pages(const AttentionDesc& desc, const std::vector<std::int32_t>& page_table) {
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t j = 0; j < desc.kv_length; ++j) {
      const std::int64_t entry = b * desc.cache.page_table_stride + j / rows_;
      put(page_table[static_cast<std::size_t>(entry)], j % rows_, {b, j});
    }
  }
}

}  // namespace vkattn::harness

// Which rows of an output to compare where not all are wanted.
#include "harness/row_selection.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/data.hpp"

namespace vkattn::harness {
namespace {

/// Query positions where kernels are likely to go wrong: both ends, and the first and last edges of tiles.
std::vector<std::int64_t> edge_positions(std::int64_t length) {
  std::set<std::int64_t> edges{0, length - 1};
  for (const std::int64_t tile : {16, 32, 64}) {
    const std::int64_t last = (length - 1) / tile * tile;
    for (const std::int64_t edge : {tile, last}) {
      for (const std::int64_t position : {edge - 1, edge, edge + 1}) {
        if (position >= 0 && position < length) edges.insert(position);
      }
    }
  }
  return {edges.begin(), edges.end()};
}

struct Before {
  bool operator()(const reference::RowIndex& a, const reference::RowIndex& b) const {
    return std::tie(a.batch, a.head, a.query) < std::tie(b.batch, b.head, b.query);
  }
};

}  // namespace

std::vector<reference::RowIndex> select_rows(const AttentionDesc& desc, const RowSelection& selection) {
  std::vector<reference::RowIndex> rows;
  if (desc.is_empty()) return rows;
  // batch * query_heads fits 31 bits and query_length 30, by validate().
  const std::int64_t total = desc.batch * desc.query_heads * desc.query_length;
  if (selection.max_rows < 0 || selection.max_rows >= total) {
    rows.reserve(static_cast<std::size_t>(total));
    for (std::int64_t r = 0; r < total; ++r) {
      const std::int64_t group = r / desc.query_length;
      rows.push_back({group / desc.query_heads, group % desc.query_heads, r % desc.query_length});
    }
    return rows;
  }
  const auto wanted = static_cast<std::size_t>(selection.max_rows);
  std::uint64_t counter = 0;
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random_bits(selection.seed, counter++) %
                                     static_cast<std::uint64_t>(limit));
  };
  std::set<reference::RowIndex, Before> chosen;
  if (wanted > 0) chosen.insert({0, 0, 0});
  if (chosen.size() < wanted) chosen.insert({desc.batch - 1, desc.query_heads - 1, desc.query_length - 1});
  for (const std::int64_t position : edge_positions(desc.query_length)) {
    if (chosen.size() < wanted) chosen.insert({below(desc.batch), below(desc.query_heads), position});
  }
  while (chosen.size() < wanted) {  // ends, as there are more rows than are wanted
    chosen.insert({below(desc.batch), below(desc.query_heads), below(desc.query_length)});
  }
  rows.assign(chosen.begin(), chosen.end());
  return rows;
}

}  // namespace vkattn::harness

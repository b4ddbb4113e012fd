// Selects rows to compare: see row_selection.hpp.
#include "harness/row_selection.hpp"

#include <algorithm>
#include <set>
#include <tuple>

#include "harness/data.hpp"

namespace vkattn::harness {
namespace {

/// Query positions where kernels are likely to fail: both ends, and the first and last edges of tiles.
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

/// A batch entry that has rows, and the number of its queries.
struct Entry {
  std::int64_t batch = 0;
  std::int64_t length = 0;
};

std::vector<Entry> entries_with_rows(const AttentionDesc& desc, const reference::Inputs& inputs) {
  std::vector<Entry> entries;
  if (desc.is_empty()) return entries;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t length = reference::query_length(desc, inputs, b);
    if (length > 0) entries.push_back({b, length});
  }
  return entries;
}

/// Chooses rows one by one. The random rows depend on the seed alone.
class Chooser {
 public:
  Chooser(const AttentionDesc& desc, const std::vector<Entry>& entries, const RowSelection& selection)
      : heads_(desc.query_heads), entries_(entries), selection_(selection) {}

  std::vector<reference::RowIndex> choose() {
    const auto wanted = static_cast<std::size_t>(selection_.max_rows);
    const Entry& last = entries_.back();
    if (wanted > 0) chosen_.insert({entries_.front().batch, 0, 0});
    if (chosen_.size() < wanted) chosen_.insert({last.batch, heads_ - 1, last.length - 1});
    const auto longest = std::max_element(entries_.begin(), entries_.end(),
                                          [](const Entry& a, const Entry& b) { return a.length < b.length; });
    for (const std::int64_t position : edge_positions(longest->length)) {
      if (chosen_.size() >= wanted) break;
      const Entry& entry = random_entry();
      chosen_.insert({entry.batch, below(heads_), std::min(position, entry.length - 1)});
    }
    while (chosen_.size() < wanted) {  // this loop ends, because there are more rows than are wanted
      const Entry& entry = random_entry();
      chosen_.insert({entry.batch, below(heads_), below(entry.length)});
    }
    return {chosen_.begin(), chosen_.end()};
  }

 private:
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_bits(selection_.seed, counter_++) %
                                     static_cast<std::uint64_t>(limit));
  }
  const Entry& random_entry() {
    return entries_[static_cast<std::size_t>(below(static_cast<std::int64_t>(entries_.size())))];
  }

  std::int64_t heads_;
  const std::vector<Entry>& entries_;
  const RowSelection& selection_;
  std::uint64_t counter_ = 0;
  std::set<reference::RowIndex, Before> chosen_;
};

}  // namespace

std::vector<reference::RowIndex> select_rows(const AttentionDesc& desc, const reference::Inputs& inputs,
                                             const RowSelection& selection) {
  const std::vector<Entry> entries = entries_with_rows(desc, inputs);
  if (entries.empty()) return {};
  // batch * query_heads fits 31 bits and query_length fits 30 bits, by validate().
  std::int64_t total = 0;
  for (const Entry& entry : entries) total += entry.length * desc.query_heads;
  if (selection.max_rows >= 0 && selection.max_rows < total)
    return Chooser(desc, entries, selection).choose();
  std::vector<reference::RowIndex> rows;
  rows.reserve(static_cast<std::size_t>(total));
  for (const Entry& entry : entries) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < entry.length; ++i) rows.push_back({entry.batch, h, i});
    }
  }
  return rows;
}

}  // namespace vkattn::harness

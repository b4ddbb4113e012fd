// Decodes what a probe found of accumulators: see row_layout.hpp.
#include "kernels/row_layout.hpp"

#include <algorithm>
#include <bit>
#include <vector>

#include "shared/row_probe_constants.h"

namespace vkattn::detail {

namespace {

constexpr std::uint32_t kMostProbedLanes = 128;
constexpr std::uint32_t kMostRowBits = 5;
constexpr std::uint32_t kMostProbedSize = 1024;

/// One of the two matrices, as the probe found it.
struct FoundMatrix {
  std::uint32_t rows = 0, columns = 0, lanes = 0;
  std::span<const std::uint32_t> words;
  std::size_t first = 0, stride = 0;  ///< in words, of lane 0, and from lane to lane

  [[nodiscard]] std::uint32_t components() const { return rows * columns / lanes; }
  [[nodiscard]] std::uint32_t number(std::uint32_t lane, std::uint32_t component) const {
    return words[first + lane * stride + component];
  }
  [[nodiscard]] std::uint32_t row(std::uint32_t lane, std::uint32_t component) const {
    return number(lane, component) / columns;
  }
  /// Whether each element is there once.
  [[nodiscard]] bool is_whole() const {
    std::vector<bool> seen(std::size_t{rows} * columns);
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      for (std::uint32_t i = 0; i < components(); ++i) {
        if (number(lane, i) >= seen.size() || seen[number(lane, i)]) return false;
        seen[number(lane, i)] = true;
      }
    }
    return true;
  }
};

/// The rows of a lane by the bits of a component's number.
struct LaneRows {
  std::vector<std::uint32_t> bits;  ///< in the order of the rows of lane 0

  [[nodiscard]] std::uint32_t count() const { return 1U << bits.size(); }
  /// The first component of a row of a lane.
  [[nodiscard]] std::uint32_t component_of(std::uint32_t row) const {
    std::uint32_t component = 0;
    for (std::size_t b = 0; b < bits.size(); ++b) component |= (row >> b & 1U) << bits[b];
    return component;
  }
  [[nodiscard]] std::uint32_t row_of(std::uint32_t component) const {
    std::uint32_t row = 0;
    for (std::size_t b = 0; b < bits.size(); ++b) row |= (component >> bits[b] & 1U) << b;
    return row;
  }
  [[nodiscard]] std::uint32_t packed() const {
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < bits.size(); ++b) word |= bits[b] << (4 * b);
    return word;
  }
};

/// Whether a component's row follows from the bits, in each lane.
bool rows_follow(const FoundMatrix& matrix, const LaneRows& rows) {
  for (std::uint32_t lane = 0; lane < matrix.lanes; ++lane) {
    for (std::uint32_t i = 0; i < matrix.components(); ++i) {
      if (matrix.row(lane, i) != matrix.row(lane, rows.component_of(rows.row_of(i)))) return false;
    }
  }
  return true;
}

/// The bits that change a component's row. They are those of lane 0; others may not differ.
std::optional<LaneRows> rows_of(const FoundMatrix& matrix) {
  LaneRows rows;
  for (std::uint32_t bit = 0; 1U << bit < matrix.components(); ++bit) {
    if (matrix.row(0, 1U << bit) != matrix.row(0, 0)) rows.bits.push_back(bit);
  }
  std::ranges::sort(rows.bits, {}, [&](std::uint32_t bit) { return matrix.row(0, 1U << bit); });
  const bool is_told =
      rows.bits.size() <= kMostRowBits && rows.component_of(rows.count() - 1) < matrix.components();
  if (!is_told || !rows_follow(matrix, rows)) return std::nullopt;
  return rows;
}

/// The bits in which lanes with the same rows differ, if these lanes share them all.
std::optional<std::uint32_t> shared_bits(const FoundMatrix& matrix, const LaneRows& rows) {
  std::uint32_t bits = 0;
  for (std::uint32_t bit = 1; bit < matrix.lanes; bit *= 2) {
    if (matrix.row(bit, 0) == matrix.row(0, 0)) bits |= bit;
  }
  for (std::uint32_t lane = 0; lane < matrix.lanes; ++lane) {
    for (std::uint32_t row = 0; row < rows.count(); ++row) {
      const std::uint32_t component = rows.component_of(row);
      if (matrix.row(lane, component) != matrix.row(lane & ~bits, component)) return std::nullopt;
    }
  }
  // Each element is there once, so rows are in one place if there are as many places as rows.
  const std::uint32_t groups = matrix.lanes >> std::popcount(bits);
  return groups * rows.count() == matrix.rows ? std::optional(bits) : std::nullopt;
}

bool has_good_sizes(const RowLayout& sizes) {
  const auto is_size = [](std::uint32_t size) { return size > 0 && size <= kMostProbedSize; };
  return std::has_single_bit(sizes.lanes) && sizes.lanes <= kMostProbedLanes && is_size(sizes.rows) &&
         is_size(sizes.score_columns) && is_size(sizes.sum_columns) &&
         sizes.rows * sizes.score_columns % sizes.lanes == 0 &&
         sizes.rows * sizes.sum_columns % sizes.lanes == 0;
}

RowLayout only_sizes(const RowLayout& sizes) {
  return {.rows = sizes.rows,
          .score_columns = sizes.score_columns,
          .sum_columns = sizes.sum_columns,
          .lanes = sizes.lanes};
}

std::size_t words_of_subgroup(const RowLayout& sizes) {
  return VKATTN_PROBE_FIRST_NUMBER + std::size_t{sizes.rows} * (sizes.score_columns + sizes.sum_columns);
}

// The layout by the words of one subgroup; lane_rows is 0 if they do not tell it.
RowLayout layout_of_subgroup(const RowLayout& sizes, std::span<const std::uint32_t> words) {
  RowLayout layout = sizes;
  FoundMatrix scores{layout.rows, layout.score_columns, layout.lanes, words, VKATTN_PROBE_FIRST_NUMBER, 0};
  FoundMatrix sums{layout.rows, layout.sum_columns, layout.lanes, words, 0, 0};
  scores.stride = sums.stride = std::size_t{scores.components()} + sums.components();
  sums.first = scores.first + scores.components();
  const bool has_told_sizes = words[VKATTN_PROBE_SCORE_COMPONENTS] == scores.components() &&
                              words[VKATTN_PROBE_SUM_COMPONENTS] == sums.components() &&
                              words[VKATTN_PROBE_SUBGROUP_SIZE] == layout.lanes;
  if (!has_told_sizes || !scores.is_whole() || !sums.is_whole()) return layout;
  const auto score_rows = rows_of(scores), sum_rows = rows_of(sums);
  if (!score_rows || !sum_rows || score_rows->count() != sum_rows->count()) return layout;
  const auto score_bits = shared_bits(scores, *score_rows), sum_bits = shared_bits(sums, *sum_rows);
  if (!score_bits || score_bits != sum_bits) return layout;
  for (std::uint32_t lane = 0; lane < layout.lanes; ++lane) {
    for (std::uint32_t row = 0; row < score_rows->count(); ++row) {
      if (scores.row(lane, score_rows->component_of(row)) != sums.row(lane, sum_rows->component_of(row)))
        return layout;
    }
  }
  layout.lane_rows = score_rows->count();
  layout.lane_bits = *score_bits;
  layout.score_row_bits = score_rows->packed();
  layout.sum_row_bits = sum_rows->packed();
  return layout;
}

}  // namespace

std::size_t probe_words(const RowLayout& sizes) {
  return VKATTN_PROBE_SUBGROUPS * words_of_subgroup(sizes);
}

std::size_t probe_numbers(const RowLayout& sizes) {
  return std::size_t{sizes.rows} * std::max(sizes.score_columns, sizes.sum_columns);
}

RowLayout decode_row_layout(const RowLayout& sizes, std::span<const std::uint32_t> words) {
  const RowLayout unknown = only_sizes(sizes);
  if (!has_good_sizes(unknown) || words.size() != probe_words(unknown)) return unknown;
  const std::size_t count = words_of_subgroup(unknown);
  const RowLayout layout = layout_of_subgroup(unknown, words.first(count));
  for (std::size_t first = count; first < words.size(); first += count) {
    if (layout_of_subgroup(unknown, words.subspan(first, count)) != layout) return unknown;
  }
  return layout;
}

bool is_usable(const RowLayout& layout) {
  if (!has_good_sizes(layout) || !std::has_single_bit(layout.lane_rows) || layout.lane_rows > kMostLaneRows)
    return false;
  if (layout.lane_bits >= layout.lanes) return false;
  return layout.lanes / lanes_of_row(layout) * layout.lane_rows == layout.rows;
}

std::uint32_t lanes_of_row(const RowLayout& layout) {
  return 1U << std::popcount(layout.lane_bits);
}

bool has_sizes_of(const RowLayout& a, const RowLayout& b) {
  return only_sizes(a) == only_sizes(b);
}

const RowLayout* find_row_layout(const Capabilities& capabilities, const RowLayout& sizes) {
  const auto found = std::ranges::find_if(capabilities.row_layouts,
                                          [&](const RowLayout& each) { return has_sizes_of(each, sizes); });
  return found == capabilities.row_layouts.end() ? nullptr : &*found;
}

}  // namespace vkattn::detail

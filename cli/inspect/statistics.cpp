// See statistics.hpp.
#include "inspect/statistics.hpp"

#include <cmath>
#include <cstddef>

namespace vkattn::cli {
namespace {

/// The scores and weights of a row, at the keys that it sees.
struct Row {
  std::span<const float> scores, weights;
  std::int64_t first_key = 0;
};

Row row_at(const WeightRows& rows, std::size_t index) {
  const reference::KeyRange& range = rows.visible[index % rows.visible.size()];
  if (range.end <= range.begin) return {};
  const auto first = index * static_cast<std::size_t>(rows.keys) + static_cast<std::size_t>(range.begin);
  const auto count = static_cast<std::size_t>(range.end - range.begin);
  return {rows.scores.empty() ? rows.scores : rows.scores.subspan(first, count),
          rows.weights.subspan(first, count), range.begin};
}

std::size_t row_count(const WeightRows& rows) {
  return rows.keys == 0 ? 0 : rows.weights.size() / static_cast<std::size_t>(rows.keys);
}

double deviation(const WeightRows& rows) {
  double count = 0, mean = 0, squares = 0;  // Welford's algorithm
  for (std::size_t i = 0; i < row_count(rows); ++i) {
    for (const float score : row_at(rows, i).scores) {
      count += 1;
      const double off = static_cast<double>(score) - mean;
      mean += off / count;
      squares += off * (static_cast<double>(score) - mean);
    }
  }
  return count == 0 ? 0 : std::sqrt(squares / count);
}

}  // namespace

WeightStatistics weight_statistics(const WeightRows& rows) {
  WeightStatistics result;
  result.score_deviation = deviation(rows);
  double entropies = 0, most = 0, largest_sum = 0, seeing = 0;
  for (std::size_t i = 0; i < row_count(rows); ++i) {
    const Row row = row_at(rows, i);
    if (row.weights.size() < 2) continue;
    result.has_choice = true;
    double entropy = 0, largest = 0;
    for (std::size_t j = 0; j < row.weights.size(); ++j) {
      const auto p = static_cast<double>(row.weights[j]);
      if (p > 0) entropy -= p * std::log2(p);
      largest = std::max(largest, p);
      if (p <= result.largest) continue;
      result.largest = p;
      result.largest_row = static_cast<std::int64_t>(i);
      result.largest_key = row.first_key + static_cast<std::int64_t>(j);
    }
    seeing += 1;
    entropies += entropy;
    most += std::log2(static_cast<double>(row.weights.size()));
    largest_sum += largest;
  }
  if (seeing == 0) return result;
  result.entropy_bits = entropies / seeing;
  result.entropy_share = most == 0 ? 0 : entropies / most;
  result.mean_largest = largest_sum / seeing;
  return result;
}

std::vector<double> jacobian_norms(const WeightRows& rows) {
  std::vector<double> norms;
  for (std::size_t i = 0; i < row_count(rows); ++i) {
    const std::span<const float> p = row_at(rows, i).weights;
    double squares = 0;
    for (std::size_t a = 0; a < p.size(); ++a) {
      // 1 - p_a is computed as the sum of the others, which keeps its digits if p_a is nearly 1.
      double others = 0;
      for (std::size_t b = 0; b < p.size(); ++b) {
        if (b == a) continue;
        others += static_cast<double>(p[b]);
        const double element = static_cast<double>(p[a]) * static_cast<double>(p[b]);
        squares += element * element;
      }
      const double diagonal = static_cast<double>(p[a]) * others;
      squares += diagonal * diagonal;
    }
    norms.push_back(std::sqrt(squares));
  }
  return norms;
}

}  // namespace vkattn::cli

// Greedy construction of covering sets, with ties broken by a counter-based generator.
#include "support/pairwise.hpp"

#include <algorithm>
#include <numeric>

#include "harness/data.hpp"

namespace vkattn::tests {

PairCoverage::PairCoverage(std::vector<std::size_t> sizes) : sizes_(std::move(sizes)) {
  for (const std::size_t size : sizes_) {
    first_value_.push_back(values_);
    values_ += size;
  }
  covered_.resize(values_ * values_);
}

std::size_t PairCoverage::bit(std::size_t factor_a, std::size_t a, std::size_t factor_b,
                              std::size_t b) const {
  const std::size_t x = first_value_[factor_a] + a;
  const std::size_t y = first_value_[factor_b] + b;
  return std::min(x, y) * values_ + std::max(x, y);
}

bool PairCoverage::covered(std::size_t factor_a, std::size_t a, std::size_t factor_b, std::size_t b) const {
  return covered_[bit(factor_a, a, factor_b, b)];
}

void PairCoverage::cover(const FactorRow& row) {
  for (std::size_t i = 0; i < row.size(); ++i) {
    for (std::size_t j = i + 1; j < row.size(); ++j) covered_[bit(i, row[i], j, row[j])] = true;
  }
}

std::size_t PairCoverage::open_pairs(std::size_t factor_a, std::size_t factor_b) const {
  std::size_t open = 0;
  for (std::size_t a = 0; a < sizes_[factor_a]; ++a) {
    for (std::size_t b = 0; b < sizes_[factor_b]; ++b) open += covered(factor_a, a, factor_b, b) ? 0U : 1U;
  }
  return open;
}

std::size_t PairCoverage::open_pairs() const {
  std::size_t open = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    for (std::size_t j = i + 1; j < sizes_.size(); ++j) open += open_pairs(i, j);
  }
  return open;
}

std::optional<PartialRow> PairCoverage::first_open() const {
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    for (std::size_t j = i + 1; j < sizes_.size(); ++j) {
      for (std::size_t a = 0; a < sizes_[i]; ++a) {
        for (std::size_t b = 0; b < sizes_[j]; ++b) {
          if (covered(i, a, j, b)) continue;
          PartialRow row(sizes_.size());
          row[i] = a;
          row[j] = b;
          return row;
        }
      }
    }
  }
  return std::nullopt;
}

namespace {

/// The number of new pairs that a value would make with the values that the row holds already.
std::size_t gain(const PairCoverage& coverage, const PartialRow& row, std::size_t factor, std::size_t value) {
  std::size_t pairs = 0;
  for (std::size_t other = 0; other < row.size(); ++other) {
    if (other == factor || !row[other].has_value()) continue;
    pairs += coverage.covered(factor, value, other, *row[other]) ? 0U : 1U;
  }
  return pairs;
}

/// The open factors in an order that the seed decides.
std::vector<std::size_t> open_factors(const PartialRow& row, std::uint64_t seed) {
  std::vector<std::size_t> factors;
  for (std::size_t f = 0; f < row.size(); ++f) {
    if (!row[f].has_value()) factors.push_back(f);
  }
  std::sort(factors.begin(), factors.end(), [&](std::size_t a, std::size_t b) {
    return harness::random_bits(seed, a) < harness::random_bits(seed, b);
  });
  return factors;
}

/// Sets the open factors so that many new pairs meet. The same arguments give the same row on every machine.
FactorRow complete_row(const PairCoverage& coverage, const PartialRow& partial, std::uint64_t seed) {
  PartialRow row = partial;
  for (const std::size_t factor : open_factors(partial, seed)) {
    std::size_t best = 0;
    std::uint64_t best_rank = 0;
    for (std::size_t value = 0; value < coverage.sizes()[factor]; ++value) {
      const std::uint64_t chance = harness::random_bits(seed + 1, factor * 1024 + value) >> 16U;
      const std::uint64_t rank =
          (static_cast<std::uint64_t>(gain(coverage, row, factor, value) + 1) << 48U) | chance;
      if (rank <= best_rank) continue;
      best = value;
      best_rank = rank;
    }
    row[factor] = best;
  }
  FactorRow complete;
  for (const auto& value : row) complete.push_back(*value);
  return complete;
}

}  // namespace

std::vector<FactorRow> pairwise_rows(const std::vector<std::size_t>& sizes, std::uint64_t seed) {
  PairCoverage coverage(sizes);
  std::vector<FactorRow> rows;
  while (const std::optional<PartialRow> open = coverage.first_open()) {
    rows.push_back(complete_row(coverage, *open, seed + 2 * rows.size()));
    coverage.cover(rows.back());
  }
  return rows;
}

}  // namespace vkattn::tests

// Covering sets: few rows in which each value of each factor meets each value of every other factor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace vkattn::tests {

/// A row: the index of a value for each factor.
using FactorRow = std::vector<std::size_t>;
/// A row in which some factors are not set yet.
using PartialRow = std::vector<std::optional<std::size_t>>;

/// Remembers which pairs of values have met.
class PairCoverage {
 public:
  /// `sizes`: the number of values of each factor.
  explicit PairCoverage(std::vector<std::size_t> sizes);

  [[nodiscard]] const std::vector<std::size_t>& sizes() const { return sizes_; }
  [[nodiscard]] bool covered(std::size_t factor_a, std::size_t a, std::size_t factor_b, std::size_t b) const;
  void cover(const FactorRow& row);
  /// The number of pairs of the two factors that have not met.
  [[nodiscard]] std::size_t open_pairs(std::size_t factor_a, std::size_t factor_b) const;
  [[nodiscard]] std::size_t open_pairs() const;
  /// A pair that has not met, as a row with two values set.
  [[nodiscard]] std::optional<PartialRow> first_open() const;

 private:
  [[nodiscard]] std::size_t bit(std::size_t factor_a, std::size_t a, std::size_t factor_b,
                                std::size_t b) const;

  std::vector<std::size_t> sizes_;
  std::vector<std::size_t> first_value_;  ///< of each factor, in one list of all values
  std::size_t values_ = 0;
  std::vector<bool> covered_;
};

/// Rows in which every pair of values meets.
[[nodiscard]] std::vector<FactorRow> pairwise_rows(const std::vector<std::size_t>& sizes, std::uint64_t seed);

}  // namespace vkattn::tests

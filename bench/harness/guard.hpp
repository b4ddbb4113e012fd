// What must not be written around and between the elements of an output.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/problem_run.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {

/// Which rows of the outputs are to be written: not those beyond a query length, nor those of a packed tensor
/// that belong to no sequence.
class WrittenRows {
 public:
  WrittenRows(const AttentionDesc& desc, const reference::Inputs& inputs);

  /// A row of O and lse as it lies in memory.
  [[nodiscard]] bool stored(const Position& position) const {
    return all_ || stored_[static_cast<std::size_t>(position.batch * stored_rows_ + position.row)];
  }
  /// A row of the weights, which are never packed.
  [[nodiscard]] bool weights(const Position& position) const {
    return all_ || position.row < lengths_[static_cast<std::size_t>(position.batch)];
  }

 private:
  bool all_ = true;
  std::int64_t stored_rows_ = 0;
  std::vector<bool> stored_;
  std::vector<std::int64_t> lengths_;
};

/// Walks an output's whole buffer: elements of rows that are to be written must not hold the pattern of
/// output_poison() any more, every other byte must. Adds what it finds to the report.
void check_guards(std::string_view name, const TensorShape& shape, const ProblemRun::Tensor& tensor,
                  std::span<const std::byte> bytes, const std::function<bool(const Position&)>& is_written,
                  CheckReport& report);

}  // namespace vkattn::harness

// Checks the bytes around and between the elements of an output, which no kernel may write.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/problem_run.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {

/// Which rows of the outputs a plan must write: not those beyond a query length, nor those of a packed tensor
/// that belong to no sequence.
class WrittenRows {
 public:
  WrittenRows(const AttentionDesc& desc, const reference::Inputs& inputs);

  /// Whether a row of O and lse, as it lies in memory, must be written.
  [[nodiscard]] bool stored(const Position& position) const {
    return all_ || stored_[static_cast<std::size_t>(position.batch * stored_rows_ + position.row)];
  }
  /// Whether a row of the weights, which are never packed, must be written.
  [[nodiscard]] bool weights(const Position& position) const {
    return all_ || position.row < lengths_[static_cast<std::size_t>(position.batch)];
  }

 private:
  bool all_ = true;
  std::int64_t stored_rows_ = 0;
  std::vector<bool> stored_;
  std::vector<std::int64_t> lengths_;
};

/// Walks the whole buffer of an output. Elements of rows that must be written must no longer hold the pattern
/// of output_poison(). Every other byte must still hold it. Adds what it finds to the report.
void check_guards(std::string_view name, const TensorShape& shape, const ProblemRun::Tensor& tensor,
                  std::span<const std::byte> bytes, const std::function<bool(const Position&)>& is_written,
                  CheckReport& report);

}  // namespace vkattn::harness

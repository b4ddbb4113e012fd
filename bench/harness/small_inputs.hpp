// The small inputs of a problem: lengths, page table, scales, slopes and sinks.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/tensor_table.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

using bench::Problem;

/// Those that the descriptor does not ask for are empty.
struct SmallInputs {
  std::vector<std::int32_t> kv_lengths;
  std::vector<std::int32_t> query_lengths;
  std::vector<std::int32_t> cumulative_query_lengths;
  std::vector<std::int32_t> cumulative_kv_lengths;
  std::vector<std::int32_t> page_table;  ///< a random choice of the pages, none twice
  std::vector<float> key_scales;         ///< so that the largest element of a head becomes 448
  std::vector<float> value_scales;
  /// Numbers of query heads: N(0,1), but slopes uniform between 0 and 1.
  detail::PerTensor<std::vector<float>> per_head;
};

[[nodiscard]] SmallInputs make_small_inputs(const Problem& problem);

}  // namespace vkattn::harness

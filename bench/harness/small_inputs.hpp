// The small inputs of a problem: lengths, page table, scales, slopes and sinks.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/tensor_table.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

using bench::Problem;

/// A tensor that the descriptor does not ask for is empty here.
struct SmallInputs {
  std::vector<std::int32_t> kv_lengths;
  std::vector<std::int32_t> query_lengths;
  std::vector<std::int32_t> cumulative_query_lengths;
  std::vector<std::int32_t> cumulative_kv_lengths;
  std::vector<std::int32_t> page_table;  ///< randomly chosen pages, each at most once
  std::vector<float> key_scales;         ///< chosen so that the largest element of a head becomes 448
  std::vector<float> value_scales;
  /// One number for each query head: N(0,1), but ALiBi slopes are uniform between 0 and 1.
  detail::PerTensor<std::vector<float>> per_head;
};

[[nodiscard]] SmallInputs make_small_inputs(const Problem& problem);

}  // namespace vkattn::harness

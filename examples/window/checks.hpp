// What the program checks of itself: that recording allocates nothing, and that weights are right.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <span>

#include "allocation_count.hpp"

namespace window {

// What vkattn's calls of record() have allocated so far; 0 is right. Sanitizers count nothing.
inline std::uint64_t allocations_in_record = 0;

template <class Record>
void record_counted(const Record& record) {
  const std::uint64_t before = vkattn::bench::allocations_of_this_thread().value_or(0);
  record();
  allocations_in_record += vkattn::bench::allocations_of_this_thread().value_or(0) - before;
}

// The largest difference of the weights from the formula in float64. `sink` is the logit of each head's sink.
[[nodiscard]] double weights_difference(const vkattn::AttentionDesc& desc, std::span<const float> query,
                                        std::span<const float> key, float sink,
                                        std::span<const float> weights);

}  // namespace window

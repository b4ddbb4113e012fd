// What the program checks of itself: that recording allocates nothing, and that weights are right.
#pragma once

#include <vkattn/attention.hpp>

#include <cstdint>
#include <span>
#include <string>

#include "allocation_count.hpp"

namespace window {

// What vkattn's calls of record() have allocated so far; 0 is right. Sanitizers count nothing.
inline std::uint64_t allocations_in_record = 0;

// The validation layer's are counted too, if it is there.
inline bool is_layer_counted = false;
[[nodiscard]] inline std::string allocation_words() {
  return "allocations in record()" + std::string(is_layer_counted ? " and the validation layer" : "") + ": " +
         std::to_string(allocations_in_record);
}

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

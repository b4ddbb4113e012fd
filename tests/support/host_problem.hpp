// A problem's inputs in host memory, poison included, for tests of the reference, which need no device.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "harness/small_inputs.hpp"
#include "problem/problem.hpp"
#include "reference/reference.hpp"

namespace vkattn::tests {

using bench::Problem;

/// Q, K, V and mask, laid out as on a device, and every small input.
struct HostProblem {
  explicit HostProblem(std::string_view text);
  explicit HostProblem(const Problem& given);

  [[nodiscard]] reference::Inputs inputs() const;
  [[nodiscard]] reference::Row row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return reference::compute_row(problem.desc, inputs(), {b, h, i});
  }

  Problem problem;
  harness::SmallInputs small;
  std::vector<std::byte> query, key, value, mask;
};

/// The numbers in a tensor's memory.
template <class T>
[[nodiscard]] std::vector<T> numbers(const std::vector<std::byte>& bytes) {
  std::vector<T> result(bytes.size() / sizeof(T));
  std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
  return result;
}

/// Replaces the n-th number in a tensor's memory.
template <class T>
void put(std::vector<std::byte>& bytes, std::size_t n, T value) {
  ASSERT_LE((n + 1) * sizeof(T), bytes.size());
  std::memcpy(bytes.data() + n * sizeof(T), &value, sizeof(T));
}
template <class T>
void put(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  ASSERT_EQ(values.size() * sizeof(T), bytes.size());
  for (std::size_t n = 0; n < values.size(); ++n) put(bytes, n, values[n]);
}

/// Calls visit(row index) for every row that must be written.
template <class Visit>
void for_each_row(const HostProblem& host, Visit visit) {
  const AttentionDesc& desc = host.problem.desc;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.query_heads; ++h) {
      for (std::int64_t i = 0; i < reference::query_length(desc, host.inputs(), b); ++i) visit(b, h, i);
    }
  }
}

}  // namespace vkattn::tests

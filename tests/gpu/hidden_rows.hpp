// Rows of Q, K and V that take part in nothing, in every way to hide them, with bad numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <tuple>

#include "gpu/support.hpp"
#include "harness/tensor_memory.hpp"
#include "reference/reference.hpp"

namespace vkattn::tests {

/// Rows of a tensor's memory: batch entry or page, head, row.
using StoredRows = std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

/// The rows of K and V that some query sees, and the rows of Q that see some key.
struct SeenRows {
  StoredRows keys, queries;
};
[[nodiscard]] SeenRows seen_rows(const AttentionDesc& desc, const reference::Inputs& inputs);

enum class Bad { kNotANumber, kPlusInfinity, kMinusInfinity };
inline constexpr Bad kEveryBad[] = {Bad::kNotANumber, Bad::kPlusInfinity, Bad::kMinusInfinity};

/// Writes bad numbers into all other rows of a tensor. Returns how many elements or blocks it wrote.
[[nodiscard]] std::size_t poison_unseen(const Runtime& runtime, const harness::TensorBuffer& tensor,
                                        const harness::TensorShape& shape, const StoredRows& seen, Bad bad);

/// Writes bad numbers into all keys, and values if asked for, that no row sees. Returns how many elements or
/// blocks of K it wrote.
[[nodiscard]] std::size_t poison_hidden_keys(const Runtime& runtime, const harness::ProblemRun& run,
                                             bool in_values, Bad bad);

}  // namespace vkattn::tests

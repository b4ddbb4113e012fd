// Rows of Q, K and V that take part in nothing, however they are hidden, and bad numbers in them.
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

/// Those of K and V that some query sees, and those of Q that see some key.
struct SeenRows {
  StoredRows keys, queries;
};
[[nodiscard]] SeenRows seen_rows(const AttentionDesc& desc, const reference::Inputs& inputs);

enum class Bad { kNotANumber, kPlusInfinity, kMinusInfinity };
inline constexpr Bad kEveryBad[] = {Bad::kNotANumber, Bad::kPlusInfinity, Bad::kMinusInfinity};

/// Writes that into all other rows of a tensor; how many elements, or blocks.
[[nodiscard]] std::size_t poison_unseen(const Runtime& runtime, const harness::TensorBuffer& tensor,
                                        const harness::TensorShape& shape, const StoredRows& seen, Bad bad);

}  // namespace vkattn::tests

// Which keys and queries exist, where they lie in memory, and which keys a query may see.
#pragma once

#include "reference/reference.hpp"

namespace vkattn::reference {

/// Key positions begin <= j < end.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// The keys of a batch entry that exist: those of its length, of a ring the last ones.
[[nodiscard]] KeyRange existing_keys(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch);

/// The keys that causality and window leave to a row; never a negative number of them.
[[nodiscard]] KeyRange seen_keys(const AttentionDesc& desc, const Inputs& inputs, const RowIndex& row);

/// The key position that lines up with query 0.
[[nodiscard]] std::int64_t position_offset(const AttentionDesc& desc, const Inputs& inputs,
                                           std::int64_t batch);

/// Where a key lies in K and V: batch entry (or page) and row of their strides.
struct KeyPlace {
  std::int64_t batch = 0;
  std::int64_t row = 0;
};

[[nodiscard]] KeyPlace stored_key(const AttentionDesc& desc, const Inputs& inputs, std::int64_t batch,
                                  std::int64_t key);

}  // namespace vkattn::reference

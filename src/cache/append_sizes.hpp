// Sizes that follow from an append's descriptor.
#pragma once

#include <vkattn/cache.hpp>

#include <cstdint>

namespace vkattn::detail {

/// Key positions that the cache has room for.
[[nodiscard]] std::int64_t append_capacity(const AppendDesc& desc);

/// New rows of one batch entry that there can be.
[[nodiscard]] std::int64_t most_new_rows(const AppendDesc& desc);

}  // namespace vkattn::detail

/// @file
/// Where the keys and values of a cache lie.
#pragma once

#include <cstdint>

namespace vkattn {

/// How key position j of a batch entry is found in K and V.
enum class KeyMapping : std::uint32_t {
  kContiguous = 0,  ///< row j
  kRing = 1,        ///< row j % ring_length: only the last ring_length keys exist
  kPaged = 2,       ///< row j % page_size of page page_table[b, j / page_size]
};

/// Where K and V of a cache lie. The tensors of a ring have ring_length rows. The tensors of pages are
/// (page_count, kv_heads, page_size, dim), and their batch stride is the distance between pages. The page
/// table (elsewhere called block_table) is a device buffer of int32 (batch, page_table_stride); its numbers
/// are clamped to the pages that exist.
struct CacheLayout {
  KeyMapping mapping = KeyMapping::kContiguous;  ///< which of the sizes below count
  std::int64_t ring_length = 0;                  ///< of kRing: rows of the tensors, 1 to 2^30
  std::int64_t page_size = 0;                    ///< of kPaged: rows of a page, 1 to 2^30
  std::int64_t page_count = 0;                   ///< of kPaged: pages of the tensors, 1 to 2^30
  std::int64_t page_table_stride = 0;            ///< of kPaged: entries of the table for each batch entry

  bool operator==(const CacheLayout&) const = default;  ///< equal in every member
};

}  // namespace vkattn

// Compares block masks that a device has computed, word by word.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "gpu/support.hpp"

namespace vkattn::tests {

/// The start of a block of packed rows (queries times the heads of a KV head) and keys.
struct MaskBlock {
  std::int64_t batch, kv_head, first_row, first_key;
};

/// What is visible of a block. `sees` tells it for each query head, query and key in the block.
template <class Sees>
[[nodiscard]] BlockVisibility visibility_of(const AttentionDesc& desc, const BlockMaskLayout& layout,
                                            const MaskBlock& block, const Sees& sees) {
  const std::int64_t group = desc.query_heads / desc.kv_heads;
  const std::int64_t row_end = std::min(block.first_row + layout.rows, desc.query_length * group);
  const std::int64_t key_end = std::min(block.first_key + layout.keys, desc.kv_length);
  std::int64_t seen = 0;
  for (std::int64_t row = block.first_row; row < row_end; ++row) {
    for (std::int64_t key = block.first_key; key < key_end; ++key) {
      if (sees(block.kv_head * group + row % group, row / group, key)) ++seen;
    }
  }
  if (seen == 0) return BlockVisibility::kHidden;
  const bool whole = seen == (row_end - block.first_row) * (key_end - block.first_key);
  return whole ? BlockVisibility::kVisible : BlockVisibility::kMixed;
}

/// Compares each word with what `expected` returns for its block, and counts the words of each kind.
template <class Expected>
void expect_exact_blocks(const AttentionDesc& desc, const BlockMaskLayout& layout,
                         const std::vector<BlockVisibility>& words, const Expected& expected,
                         std::array<std::size_t, 3>& found) {
  const std::int64_t rows = desc.query_length * (desc.query_heads / desc.kv_heads);
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t h = 0; h < desc.kv_heads; ++h) {
      for (std::int64_t row = 0; row < rows; row += layout.rows) {
        for (std::int64_t key = 0; key < desc.kv_length; key += layout.keys) {
          const std::int64_t word = b * layout.batch_stride + h * layout.head_stride +
                                    row / layout.rows * layout.row_stride + key / layout.keys;
          const BlockVisibility right = expected(MaskBlock{b, h, row, key});
          ASSERT_EQ(words.at(static_cast<std::size_t>(word)), right)
              << "batch " << b << ", KV head " << h << ", row " << row << ", key " << key;
          ++found[static_cast<std::size_t>(right)];
        }
      }
    }
  }
}

}  // namespace vkattn::tests

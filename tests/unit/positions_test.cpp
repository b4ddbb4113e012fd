// The first and the last key that a row sees: what plans pass to the shaders, compared with the reference.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/positions.hpp"
#include "reference/positions.hpp"
#include "support/problem_text.hpp"

namespace vkattn::detail {
namespace {

using reference::KeyRange;

/// The keys that a row of the window sees, from the two offsets, as lib/key_ranges.glsl computes them.
KeyRange told_keys(const AttentionDesc& desc, const Window& window, std::int64_t row) {
  const std::int64_t shift = desc.align == Align::kBottomRight ? desc.kv_length : 0;
  KeyRange keys{0, desc.kv_length};
  if (desc.window.left != kUnlimited) keys.begin = row + shift + left_offset(desc, window);
  if (desc.causal || desc.window.right != kUnlimited) keys.end = row + shift + right_offset(desc, window) + 1;
  return keys;
}

/// The set of keys in a normal form.
KeyRange within(KeyRange keys, std::int64_t kv_length) {
  keys.begin = std::clamp<std::int64_t>(keys.begin, 0, kv_length);
  keys.end = std::clamp<std::int64_t>(keys.end, 0, kv_length);
  return keys.begin < keys.end ? keys : KeyRange{0, 0};
}

/// Compares all rows, in one window and in a window that begins at the third row.
void expect_told_right(const AttentionDesc& desc) {
  for (std::int64_t first_row : {0, 2}) {
    Window window = whole_window(desc);
    window.first_row = first_row;
    window.rows = desc.query_length - first_row;
    for (std::int64_t row = 0; row < window.rows; ++row) {
      const KeyRange told = within(told_keys(desc, window, row), desc.kv_length);
      const KeyRange expected =
          within(reference::seen_keys(desc, {}, {0, 0, first_row + row}), desc.kv_length);
      EXPECT_TRUE(told.begin == expected.begin && told.end == expected.end)
          << "left " << desc.window.left << ", right " << desc.window.right << ", causal " << desc.causal
          << ", align " << static_cast<int>(desc.align) << ", offset " << desc.offset << ", row " << row;
    }
  }
}

constexpr std::int64_t kFarthest = std::int64_t{1} << 30;  // the largest offset that validate() allows
constexpr std::int64_t kWidest = INT32_MAX - 1;  // the largest window that resolved() does not change
constexpr std::int64_t kSides[] = {kUnlimited, 0, 1, 4, 12, 39, 45, kFarthest - 3, kFarthest, kWidest};
constexpr std::int64_t kOffsets[] = {-kFarthest, -kFarthest + 2, -42,      -12, -3, 0, 3, 12,
                                     42,         kFarthest - 2,  kFarthest};

TEST(Positions, PlansTellWhatTheReferenceSees) {
  AttentionDesc desc = tests::parsed("4x8 d8").desc;
  for (const std::int64_t left : kSides) {
    for (const std::int64_t right : kSides) {
      desc.window = {left, right};
      for (const bool causal : {false, true}) {
        desc.causal = causal;
        desc.offset = 0;
        for (const Align align : {Align::kTopLeft, Align::kBottomRight}) {
          desc.align = align;
          expect_told_right(desc);
        }
        desc.align = Align::kOffset;
        for (const std::int64_t offset : kOffsets) {
          desc.offset = offset;
          expect_told_right(desc);
        }
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::detail

// Positions: see positions.hpp.
#include "attention/positions.hpp"

#include <algorithm>

namespace vkattn::detail {

std::int64_t position_offset(const AttentionDesc& desc) {
  if (desc.align == Align::kBottomRight) return -desc.query_length;
  return desc.align == Align::kOffset ? desc.offset : 0;
}

std::int32_t left_offset(const AttentionDesc& desc, const Window& window) {
  if (desc.window.left == kUnlimited) return 0;
  const std::int64_t offset = std::clamp(position_offset(desc) - desc.window.left,
                                         -desc.query_length - desc.kv_length, desc.kv_length);
  return static_cast<std::int32_t>(offset + window.first_row);
}

std::int32_t right_offset(const AttentionDesc& desc, const Window& window) {
  const bool limited = desc.window.right != kUnlimited;
  if (!desc.causal && !limited) return 0;
  const std::int64_t right = desc.causal ? 0 : desc.window.right;
  const std::int64_t offset = position_offset(desc) + right;
  const std::int64_t clamped =
      desc.align == Align::kBottomRight
          ? std::min<std::int64_t>(offset, 0)  // the last query at the last key sees all
          : std::clamp(offset, -desc.query_length, std::max<std::int64_t>(desc.kv_length - 1, 0));
  return static_cast<std::int32_t>(clamped + window.first_row);
}

}  // namespace vkattn::detail

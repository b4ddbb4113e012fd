// The descriptor of a problem: its layouts, the extent of its tensors and every rule that needs no device.
#include <vkattn/attention.hpp>

#include <cmath>
#include <string>
#include <utility>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "attention/tensor_table.hpp"
#include "common/checked.hpp"
#include "common/message.hpp"

namespace vkattn {
namespace {

using detail::check_size;
using detail::check_tensor;
using detail::saturating_add;
using detail::saturating_multiply;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;
/// Rounded down: the largest float times 1 / log2(e) is 2.35865e38.
constexpr float kMaxScale = 2.358e38F;
constexpr std::int64_t kMaxHeads = (std::int64_t{1} << 31) - 1;

Error invalid(std::string message) {
  return Error{ErrorCode::kInvalidArgument, VK_SUCCESS, std::move(message)};
}

std::string number(std::int64_t value) {
  return std::to_string(value);
}

Strides bhsd_strides(std::int64_t heads, std::int64_t rows, std::int64_t dims) {
  const std::int64_t head = saturating_multiply(rows, dims);
  return {saturating_multiply(heads, head), head, dims, 1};
}

/// Heads of `dims` elements side by side in rows of `row` elements.
Strides bshd_strides(std::int64_t row, std::int64_t rows, std::int64_t dims) {
  return {saturating_multiply(rows, row), dims, row, 1};
}

Status check_sizes(const AttentionDesc& desc) {
  if (Status s = check_size("batch", desc.batch, 0, kMaxHeads); !s.ok()) return s;
  if (Status s = check_size("query_heads", desc.query_heads, 0, kMaxHeads); !s.ok()) return s;
  if (Status s = check_size("kv_heads", desc.kv_heads, 0, kMaxHeads); !s.ok()) return s;
  if (Status s = check_size("query_length", desc.query_length, 0, kMaxRows); !s.ok()) return s;
  if (Status s = check_size("kv_length", desc.kv_length, 0, kMaxRows); !s.ok()) return s;
  if (Status s = check_size("head_dim", desc.head_dim, 1, kMaxHeadDim); !s.ok()) return s;
  if (Status s = check_size("value_dim", desc.value_dim, 1, kMaxHeadDim); !s.ok()) return s;
  // Both factors are below 2^31, so the product cannot wrap.
  if (Status s = check_size("batch times query_heads", desc.batch * desc.query_heads, 0, kMaxHeads);
      !s.ok()) {
    return s;
  }
  return {};
}

Status check_heads(const AttentionDesc& desc) {
  if (desc.query_heads == 0) return {};
  if (desc.kv_heads == 0) {
    return invalid("kv_heads is 0 but query_heads is " + number(desc.query_heads) +
                   "; every query head reads a key/value head");
  }
  if (desc.query_heads % desc.kv_heads != 0) {
    return invalid("query_heads is " + number(desc.query_heads) +
                   " but must be a multiple of kv_heads, which is " + number(desc.kv_heads));
  }
  return {};
}

Status check_options(const AttentionDesc& desc) {
  if (desc.scale.has_value() && !std::isfinite(*desc.scale)) {
    return invalid("scale is " + std::to_string(*desc.scale) + " but must be finite");
  }
  if (desc.scale.has_value() && std::abs(*desc.scale) > kMaxScale) {
    return invalid(detail::message("scale is ", *desc.scale, " but must be at most ", kMaxScale,
                                   " in magnitude, as scores are kept in log2 units: 1.4427 * scale must "
                                   "be a float"));
  }
  if (desc.align != Align::kTopLeft && desc.align != Align::kBottomRight && desc.align != Align::kOffset) {
    return invalid("align holds " + number(static_cast<int>(desc.align)) + ", which names no alignment");
  }
  // A larger offset shows or hides every key, which this range says as well, and i + offset stays in 32 bits.
  return check_size("offset", desc.offset, -kMaxRows, kMaxRows);
}

}  // namespace

void AttentionDesc::set_layout(Layout layout) {
  const std::int64_t query_rows = query_extents(*this, 1).rows;
  const std::int64_t key_rows = key_extents(*this, 1).rows;
  switch (layout) {
    case Layout::kBhsd:
      query.strides = bhsd_strides(query_heads, query_rows, head_dim);
      key.strides = bhsd_strides(kv_heads, key_rows, head_dim);
      value.strides = bhsd_strides(kv_heads, key_rows, value_dim);
      output.strides = bhsd_strides(query_heads, query_rows, value_dim);
      break;
    case Layout::kBshd:
      query.strides = bshd_strides(saturating_multiply(query_heads, head_dim), query_rows, head_dim);
      key.strides = bshd_strides(saturating_multiply(kv_heads, head_dim), key_rows, head_dim);
      value.strides = bshd_strides(saturating_multiply(kv_heads, value_dim), key_rows, value_dim);
      output.strides = bshd_strides(saturating_multiply(query_heads, value_dim), query_rows, value_dim);
      break;
    case Layout::kPackedQkv: {
      const std::int64_t row = saturating_add(
          saturating_add(saturating_multiply(query_heads, head_dim), saturating_multiply(kv_heads, head_dim)),
          saturating_multiply(kv_heads, value_dim));
      query.strides = bshd_strides(row, query_rows, head_dim);
      key.strides = bshd_strides(row, key_rows, head_dim);
      value.strides = bshd_strides(row, key_rows, value_dim);
      output.strides = bshd_strides(saturating_multiply(query_heads, value_dim), query_rows, value_dim);
      break;
    }
  }
  lse_strides = bhsd_strides(query_heads, query_rows, 1);
  weights_strides = bhsd_strides(query_heads, query_length, kv_length);
  // Whole words of 32 keys.
  const std::int64_t mask_row =
      mask.type == MaskType::kBits ? saturating_add(kv_length, 31) / 32 * 32 : kv_length;
  mask.strides = bhsd_strides(query_heads, query_length, mask_row);
}

void AttentionDesc::set_type(DataType type) {
  query.type = type;
  key.type = type;
  value.type = type;
  output.type = type;
}

float AttentionDesc::effective_scale() const {
  if (scale.has_value()) return *scale;
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

TensorExtents query_extents(const AttentionDesc& desc, std::int64_t dims) {
  if (desc.has_packed_queries()) return {1, desc.query_heads, desc.total_query_length, dims};
  return {desc.batch, desc.query_heads, desc.query_length, dims};
}

TensorExtents key_extents(const AttentionDesc& desc, std::int64_t dims) {
  if (desc.has_cumulative_lengths) return {1, desc.kv_heads, desc.total_kv_length, dims};
  switch (desc.cache.mapping) {
    case KeyMapping::kRing:
      return {desc.batch, desc.kv_heads, desc.cache.ring_length, dims};
    case KeyMapping::kPaged:
      return {desc.cache.page_count, desc.kv_heads, desc.cache.page_size, dims};
    case KeyMapping::kContiguous:
      break;
  }
  return {desc.batch, desc.kv_heads, desc.kv_length, dims};
}

TensorExtents score_extents(const AttentionDesc& desc) {
  return {desc.batch, desc.query_heads, desc.query_length, desc.kv_length};
}

Status validate(const AttentionDesc& desc) {
  if (Status s = check_sizes(desc); !s.ok()) return s;
  if (Status s = check_heads(desc); !s.ok()) return s;
  if (Status s = check_options(desc); !s.ok()) return s;
  if (Status s = detail::check_features(desc); !s.ok()) return s;
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (!row.is_used(desc)) continue;
    const TensorDesc storage = row.storage(desc);
    if (Status s = check_tensor({row.name, storage, tensor_extents(row, desc)}, row.use); !s.ok()) return s;
  }
  return {};
}

}  // namespace vkattn

// The descriptor of a problem: its layouts, the extent of its tensors and every rule that needs no device.
#include <vkattn/attention.hpp>

#include <algorithm>
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

using detail::check_enum;
using detail::check_given;
using detail::check_size;
using detail::check_tensor;
using detail::invalid;
using detail::saturating_add;
using detail::saturating_multiply;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;
/// Rounded down: the largest float times 1 / log2(e) is 2.35865e38.
constexpr float kMaxScale = 2.358e38F;
constexpr std::int64_t kMaxHeads = (std::int64_t{1} << 31) - 1;

/// Makes sizes that are not known yet, or wrong, 0: their strides are never used.
std::int64_t known(std::int64_t size) {
  return std::max<std::int64_t>(size, 0);
}

Strides bhsd_strides(std::int64_t heads, std::int64_t rows, std::int64_t dims) {
  const std::int64_t head = saturating_multiply(known(rows), known(dims));
  return {saturating_multiply(known(heads), head), head, known(dims), 1};
}

/// Heads of `dims` elements side by side in rows of `row` elements.
Strides bshd_strides(std::int64_t row, std::int64_t rows, std::int64_t dims) {
  return {saturating_multiply(known(rows), row), known(dims), row, 1};
}

struct Shape {
  std::int64_t heads;
  std::int64_t rows;
};

Result<void> check_sizes(const AttentionDesc& desc) {
  if (Result<void> s = check_size("batch", desc.batch, 0, kMaxHeads); !s.ok()) return s;
  if (Result<void> s = check_size("query_heads", desc.query_heads, 0, kMaxHeads); !s.ok()) return s;
  if (Result<void> s = check_size("kv_heads", desc.kv_heads, 0, kMaxHeads); !s.ok()) return s;
  if (Result<void> s = check_given("query_length", desc.query_length, kMaxRows); !s.ok()) return s;
  if (Result<void> s = check_given("kv_length", desc.kv_length, kMaxRows); !s.ok()) return s;
  if (desc.head_dim == kUnset) return invalid("head_dim is not set; give the elements of a query or key");
  if (Result<void> s = check_size("head_dim", desc.head_dim, 1, kMaxHeadDim); !s.ok()) return s;
  if (Result<void> s = check_size("value_dim", desc.value_dim, 1, kMaxHeadDim); !s.ok()) return s;
  // Both factors are below 2^31, so the product cannot wrap.
  if (Result<void> s = check_size("batch times query_heads", desc.batch * desc.query_heads, 0, kMaxHeads);
      !s.ok()) {
    return s;
  }
  return {};
}

Result<void> check_heads(const AttentionDesc& desc) {
  if (desc.query_heads == 0) return {};
  if (desc.kv_heads == 0) {
    return invalid("kv_heads is 0 but query_heads is " + std::to_string(desc.query_heads) +
                   "; every query head reads a key/value head");
  }
  if (desc.query_heads % desc.kv_heads != 0) {
    return invalid("query_heads is " + std::to_string(desc.query_heads) +
                   " but must be a multiple of kv_heads, which is " + std::to_string(desc.kv_heads));
  }
  return {};
}

Result<void> check_options(const AttentionDesc& desc) {
  if (desc.scale.has_value() && !std::isfinite(*desc.scale)) {
    return invalid("scale is " + std::to_string(*desc.scale) + " but must be finite");
  }
  if (desc.scale.has_value() && std::abs(*desc.scale) > kMaxScale) {
    return invalid("scale is ", *desc.scale, " but must be at most ", kMaxScale,
                   " in magnitude, as scores are kept in log2 units: 1.4427 * scale must "
                   "be a float");
  }
  if (Result<void> s = check_enum("layout", desc.layout, Layout::kPackedQkv, "memory order"); !s) return s;
  if (Result<void> s = check_enum("query_lengths", desc.query_lengths, Lengths::kPacked, "kind of lengths");
      !s)
    return s;
  if (Result<void> s = check_enum("kv_lengths", desc.kv_lengths, Lengths::kPacked, "kind of lengths"); !s)
    return s;
  if (desc.align != Align::kTopLeft && desc.align != Align::kBottomRight && desc.align != Align::kOffset) {
    return invalid("align holds " + std::to_string(static_cast<int>(desc.align)) +
                   ", which names no alignment");
  }
  // Offsets in this range can show or hide every key already, and i + offset stays in 32 bits.
  return check_size("offset", desc.offset, -kMaxRows, kMaxRows);
}

}  // namespace

void AttentionDesc::set_layout(Layout new_layout) {
  layout = new_layout;
  for (TensorDesc* tensor : {&query, &key, &value, &output}) tensor->strides.reset();
  lse_strides.reset();
  weights_strides.reset();
  mask.strides.reset();
}

AttentionDesc AttentionDesc::resolved() const {
  AttentionDesc full = *this;
  if (kv_heads == kUnset) full.kv_heads = query_heads;
  if (value_dim == kUnset) full.value_dim = head_dim;
  // No query is so far from a key: both are below 2^30, and so is what Align moves them apart by.
  constexpr std::int64_t kBeyondAllKeys = INT32_MAX;
  for (std::int64_t* const side : {&full.window.left, &full.window.right})
    if (*side >= kBeyondAllKeys) *side = kUnlimited;
  const Shape of_query{query_heads, query_extents(full, 1).rows};
  const Shape of_key{full.kv_heads, key_extents(full, 1).rows};
  // A cache is a memory of its own.
  const bool one_tensor = layout == Layout::kPackedQkv && cache.mapping == KeyMapping::kContiguous;
  const std::int64_t qkv_row = saturating_add(
      saturating_multiply(known(query_heads), known(head_dim)),
      saturating_multiply(known(full.kv_heads), saturating_add(known(head_dim), known(full.value_dim))));
  const auto fill = [&](TensorDesc& tensor, const Shape& shape, std::int64_t dims, bool in_one_tensor) {
    if (tensor.strides.has_value()) return;
    const std::int64_t row = saturating_multiply(known(shape.heads), known(dims));
    if (in_one_tensor) {
      tensor.strides = bshd_strides(qkv_row, shape.rows, dims);
    } else if (layout == Layout::kBshd || (layout == Layout::kPackedQkv && &tensor == &full.output)) {
      tensor.strides = bshd_strides(row, shape.rows, dims);
    } else {
      tensor.strides = bhsd_strides(shape.heads, shape.rows, dims);
    }
  };
  fill(full.query, of_query, head_dim, layout == Layout::kPackedQkv);
  fill(full.key, of_key, head_dim, one_tensor);
  fill(full.value, of_key, full.value_dim, one_tensor);
  fill(full.output, of_query, full.value_dim, false);
  if (!lse_strides) full.lse_strides = bhsd_strides(query_heads, of_query.rows, 1);
  if (!weights_strides) full.weights_strides = bhsd_strides(query_heads, query_length, kv_length);
  // Whole words of 32 keys.
  const std::int64_t mask_row =
      mask.type == MaskType::kBits ? saturating_add(known(kv_length), 31) / 32 * 32 : kv_length;
  const std::int64_t mask_heads = mask_extents(*this).heads;
  if (!mask.strides) full.mask.strides = bhsd_strides(mask_heads, query_length, mask_row);
  if (mask_heads == 1) full.mask.strides->head = 0;
  if (mask_heads == 1 || mask_heads == query_heads) full.mask.heads = kUnset;
  return full;
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
  const std::int64_t heads = desc.kv_heads == kUnset ? desc.query_heads : desc.kv_heads;
  if (desc.has_packed_keys()) return {1, heads, desc.total_kv_length, dims};
  switch (desc.cache.mapping) {
    case KeyMapping::kRing:
      return {desc.batch, heads, desc.cache.ring_length, dims};
    case KeyMapping::kPaged:
      return {desc.cache.page_count, heads, desc.cache.page_size, dims};
    case KeyMapping::kContiguous:
      break;
  }
  return {desc.batch, heads, desc.kv_length, dims};
}

TensorExtents score_extents(const AttentionDesc& desc) {
  return {desc.batch, desc.query_heads, desc.query_length, desc.kv_length};
}

TensorExtents mask_extents(const AttentionDesc& desc) {
  const std::int64_t heads = desc.mask.heads == kUnset ? desc.query_heads : desc.mask.heads;
  return {desc.batch, heads, desc.query_length, desc.kv_length};
}

namespace {

Result<void> check_all(const AttentionDesc& desc) {
  if (Result<void> s = check_sizes(desc); !s.ok()) return s;
  if (Result<void> s = check_heads(desc); !s.ok()) return s;
  if (Result<void> s = check_options(desc); !s.ok()) return s;
  if (Result<void> s = detail::check_features(desc); !s.ok()) return s;
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (!row.is_used(desc)) continue;
    if (Result<void> s = check_tensor(row.named(desc), row.use); !s.ok()) return s;
  }
  return {};
}

}  // namespace

Result<void> validate(const AttentionDesc& given) {
  return detail::without_exceptions([&] { return check_all(given.resolved()); });
}

}  // namespace vkattn

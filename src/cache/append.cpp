// The descriptor of an append: its layouts and every rule that needs no device.
#include <algorithm>
#include <cmath>

#include "attention/features.hpp"
#include "attention/tensor_rules.hpp"
#include "cache/append_tasks.hpp"
#include "cache/append_tensors.hpp"
#include "common/message.hpp"

namespace vkattn {

namespace {

using detail::check_enum;
using detail::check_given;
using detail::check_size;
using detail::check_tensor;
using detail::invalid;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;
constexpr std::int64_t kMaxHeads = (std::int64_t{1} << 31) - 1;
constexpr std::int64_t kMaxTotalRows = (std::int64_t{1} << 31) - 1;  // int32 lengths count to it

/// Attention over the caches, which has their layouts and extents.
AttentionDesc attention_over_caches(const AppendDesc& desc) {
  AttentionDesc attention;
  attention.batch = desc.batch;
  attention.query_heads = desc.query_heads;
  attention.kv_heads = desc.kv_heads;
  attention.kv_length = desc.cache_length;
  attention.head_dim = desc.head_dim;
  attention.value_dim = desc.value_dim;
  attention.cache = desc.cache;
  return attention;
}

Result<void> check_sizes(const AppendDesc& desc) {
  if (Result<void> s = check_size("batch", desc.batch, 0, kMaxHeads); !s) return s;
  if (Result<void> s = check_size("query_heads", desc.query_heads, 0, kMaxHeads); !s) return s;
  if (Result<void> s = check_given("kv_heads", desc.kv_heads, kMaxHeads); !s) return s;
  if (Result<void> s = check_given("new_length", desc.new_length, kMaxRows); !s) return s;
  if (desc.head_dim == kUnset) return invalid("head_dim is not set; give the elements of a key");
  if (Result<void> s = check_size("head_dim", desc.head_dim, 1, kMaxHeadDim); !s) return s;
  if (Result<void> s = check_size("value_dim", desc.value_dim, 0, kMaxHeadDim); !s) return s;
  // Both factors are below 2^31, so the products cannot wrap.
  if (Result<void> s = check_size("batch times query_heads", desc.batch * desc.query_heads, 0, kMaxHeads); !s)
    return s;
  return check_size("batch times kv_heads", desc.batch * desc.kv_heads, 0, kMaxHeads);
}

Result<void> check_rows(const AppendDesc& desc) {
  if (Result<void> s = check_enum("layout", desc.layout, Layout::kPackedQkv, "memory order"); !s) return s;
  if (Result<void> s = check_enum("new_lengths", desc.new_lengths, Lengths::kPacked, "kind of lengths"); !s)
    return s;
  if (desc.new_lengths != Lengths::kPacked) return {};
  return check_given("total_new_length", desc.total_new_length, kMaxTotalRows);
}

Result<void> check_rotary(const RotaryDesc& rotary, std::int64_t head_dim, DataType cache_key) {
  if (Result<void> s = check_enum("rotary.style", rotary.style, RotaryStyle::kHalfSplit, "style"); !s)
    return s;
  if (rotary.style == RotaryStyle::kNone) return {};
  if (rotary.dims % 2 != 0 || rotary.dims < 2 || rotary.dims > head_dim) {
    return invalid("rotary.dims is ", rotary.dims, " but must be even and from 2 to head_dim, which is ",
                   head_dim);
  }
  if (rotary.style == RotaryStyle::kHalfSplit && block_elements(cache_key) > 1 && rotary.dims % 8 != 0) {
    return invalid("rotary.dims is ", rotary.dims,
                   " but must be a multiple of 8 where its style is half-split and ", "cache_key is ",
                   name(cache_key));
  }
  if (!std::isfinite(rotary.magnitude)) {
    return invalid("rotary.magnitude is ", rotary.magnitude, " but must be finite");
  }
  if (rotary.has_frequencies) return {};
  if (!std::isfinite(rotary.base) || rotary.base <= 1) {
    return invalid("rotary.base is ", rotary.base, " but must be finite and above 1");
  }
  if (!(rotary.position_scale > 0) || rotary.position_scale > 1) {
    return invalid("rotary.position_scale is ", rotary.position_scale, " but must be from above 0 to 1");
  }
  return {};
}

Result<void> check_place(const AppendDesc& desc) {
  if (Result<void> s = detail::check_cache(desc.cache); !s) return s;
  if (desc.cache.mapping == KeyMapping::kContiguous) {
    if (Result<void> s = check_given("cache_length", desc.cache_length, kMaxRows); !s) return s;
  }
  if (!desc.has_positions) {
    if (Result<void> s = check_size("position", desc.position, 0, kMaxRows); !s) return s;
  }
  const std::int64_t end = detail::most_new_rows(desc) + (desc.has_positions ? 0 : desc.position);
  const std::int64_t room = detail::append_capacity(desc);
  if (desc.kv_heads != 0 && end > room) {
    return invalid("the new rows end at position ", end, " but the cache has room for ", room, " keys");
  }
  return {};
}

Result<void> check_tensors(const AppendDesc& desc) {
  for (const detail::AppendTensorRow& row : detail::tensor_table<AppendTensors>()) {
    if (!row.is_used(desc)) continue;
    if (Result<void> s = check_tensor(row.named(desc), row.use); !s) return s;
  }
  return {};
}

}  // namespace

namespace detail {

std::int64_t append_capacity(const AppendDesc& desc) {
  return cache_capacity(desc.cache, desc.cache_length);
}

std::int64_t most_new_rows(const AppendDesc& desc) {
  if (desc.new_lengths != Lengths::kPacked) return desc.new_length;
  return std::min(desc.new_length, desc.total_new_length);
}

}  // namespace detail

void AppendDesc::set_layout(Layout new_layout) {
  layout = new_layout;
  for (TensorDesc* tensor : {&query, &key, &value, &query_output, &cache_key, &cache_value}) {
    tensor->strides.reset();
  }
}

AppendDesc AppendDesc::resolved() const {
  AppendDesc full = *this;
  if (kv_heads == kUnset && query_heads > 0) full.kv_heads = query_heads;
  if (value_dim == kUnset) full.value_dim = head_dim;
  const bool has_cache = full.kv_heads != 0 || writes_kv_lengths;
  if (cache_length == kUnset && !has_cache) full.cache_length = 0;
  AttentionDesc rows;
  rows.batch = batch;
  rows.query_heads = query_heads;
  rows.kv_heads = full.kv_heads;
  rows.query_length = rows.kv_length = new_row_extents(*this, 1, 1).rows;
  rows.head_dim = head_dim;
  rows.value_dim = full.value_dim;
  rows.layout = layout;
  AttentionDesc turned = rows;  // the queries' target has their dims
  turned.value_dim = head_dim;
  AttentionDesc caches = attention_over_caches(full);
  caches.layout = layout == Layout::kBshd ? Layout::kBshd : Layout::kBhsd;
  rows = rows.resolved();
  caches = caches.resolved();
  const auto fill = [](TensorDesc& tensor, const TensorDesc& laid_out) {
    if (!tensor.strides) tensor.strides = laid_out.strides;
  };
  fill(full.query, rows.query);
  fill(full.key, rows.key);
  fill(full.value, rows.value);
  fill(full.query_output, turned.resolved().output);
  fill(full.cache_key, caches.key);
  fill(full.cache_value, caches.value);
  return full;
}

bool AppendDesc::is_empty() const {
  if (batch == 0) return true;
  return !writes_kv_lengths && (detail::most_new_rows(*this) == 0 || (query_heads == 0 && kv_heads == 0));
}

TensorExtents new_row_extents(const AppendDesc& desc, std::int64_t heads, std::int64_t dims) {
  if (desc.new_lengths == Lengths::kPacked) return {1, heads, desc.total_new_length, dims};
  return {desc.batch, heads, desc.new_length, dims};
}

TensorExtents cache_extents(const AppendDesc& desc, std::int64_t dims) {
  return key_extents(attention_over_caches(desc), dims);
}

AppendDesc quantise_desc(const TensorExtents& extents, const TensorDesc& source, const TensorDesc& target) {
  AppendDesc desc;
  desc.batch = extents.batch;
  desc.kv_heads = extents.heads;
  desc.new_length = extents.rows;
  desc.cache_length = extents.rows;
  desc.head_dim = extents.dims;
  desc.value_dim = 0;
  desc.key = source;
  desc.cache_key = target;
  return desc;
}

Result<void> validate(const AppendDesc& given) {
  return detail::without_exceptions([&]() -> Result<void> {
    const AppendDesc desc = given.resolved();
    if (Result<void> s = check_sizes(desc); !s) return s;
    if (Result<void> s = check_rows(desc); !s) return s;
    if (Result<void> s = check_rotary(desc.rotary, desc.head_dim, desc.cache_key.type); !s) return s;
    if (Result<void> s = check_place(desc); !s) return s;
    return check_tensors(desc);
  });
}

}  // namespace vkattn

// The descriptor of a problem: its layouts, the extent of its tensors and every rule that needs no device.
#include <vkattn/attention.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "plan/checked.hpp"

namespace vkattn {
namespace {

using detail::checked_add;
using detail::checked_multiply;
using detail::saturating_add;
using detail::saturating_multiply;

constexpr std::int64_t kMaxRows = std::int64_t{1} << 30;
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

/// A tensor of the descriptor under its name, with its extents.
struct NamedTensor {
  std::string_view name;
  TensorDesc desc;
  std::int64_t heads;
  std::int64_t rows;
  std::int64_t dims;
};

Status check_size(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid(std::string(what) + " is " + number(value) + " but must be from " + number(least) + " to " +
                 number(most));
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
  if (desc.align != Align::kTopLeft && desc.align != Align::kBottomRight && desc.align != Align::kOffset) {
    return invalid("align holds " + number(static_cast<int>(desc.align)) + ", which names no alignment");
  }
  // A larger offset shows or hides every key, which this range says as well, and i + offset stays in 32 bits.
  return check_size("offset", desc.offset, -kMaxRows, kMaxRows);
}

Status check_type_and_alignment(const NamedTensor& tensor) {
  const auto type = static_cast<std::uint32_t>(tensor.desc.type);
  if (type > static_cast<std::uint32_t>(DataType::kBfloat16)) {
    return invalid("the type of " + std::string(tensor.name) + " holds " + std::to_string(type) +
                   ", which names no storage type");
  }
  const std::uint32_t alignment = tensor.desc.alignment_bytes;
  const std::uint32_t least = element_bytes(tensor.desc.type);
  if (alignment != 0 && (!std::has_single_bit(alignment) || alignment < least)) {
    return invalid("alignment_bytes of " + std::string(tensor.name) + " is " + std::to_string(alignment) +
                   " but must be a power of two of at least " + std::to_string(least) +
                   ", the size of an element, or 0 for that size");
  }
  return {};
}

/// The strides and their names, in the order of declaration.
struct NamedStride {
  std::string_view name;
  std::int64_t stride;
  std::int64_t extent;
};

std::array<NamedStride, 4> named_strides(const Strides& strides, std::int64_t batch, std::int64_t heads,
                                         std::int64_t rows, std::int64_t dims) {
  return {NamedStride{"batch", strides.batch, batch}, NamedStride{"head", strides.head, heads},
          NamedStride{"row", strides.row, rows}, NamedStride{"dim", strides.dim, dims}};
}

/// Elements do not overlap where each stride, from the smallest on, reaches beyond everything that the
/// smaller ones span. (Interlocked strides can be free of overlap too, but no layout needs them.)
Status check_no_overlap(const NamedTensor& tensor, std::int64_t batch) {
  std::array<NamedStride, 4> dims =
      named_strides(tensor.desc.strides, batch, tensor.heads, tensor.rows, tensor.dims);
  std::sort(dims.begin(), dims.end(),
            [](const NamedStride& a, const NamedStride& b) { return a.stride < b.stride; });
  std::int64_t reach = 0;
  for (const NamedStride& dim : dims) {
    if (dim.extent <= 1) continue;
    if (dim.stride <= reach) {
      return invalid("elements of " + std::string(tensor.name) + " overlap: its " + std::string(dim.name) +
                     " stride is " + number(dim.stride) + " but must be above " + number(reach) +
                     ", the reach of its smaller strides");
    }
    reach += (dim.extent - 1) * dim.stride;  // tensor_bytes() has shown that this fits
  }
  return {};
}

Status check_tensor(const NamedTensor& tensor, std::int64_t batch, bool written) {
  if (Status s = check_type_and_alignment(tensor); !s.ok()) return s;
  const Result<std::int64_t> bytes = tensor_bytes(tensor.desc, batch, tensor.heads, tensor.rows, tensor.dims);
  if (!bytes.ok()) return invalid(std::string(tensor.name) + ": " + bytes.error().message);
  if (!written || *bytes == 0) return {};
  return check_no_overlap(tensor, batch);
}

}  // namespace

void AttentionDesc::set_layout(Layout layout) {
  switch (layout) {
    case Layout::kBhsd:
      query.strides = bhsd_strides(query_heads, query_length, head_dim);
      key.strides = bhsd_strides(kv_heads, kv_length, head_dim);
      value.strides = bhsd_strides(kv_heads, kv_length, value_dim);
      output.strides = bhsd_strides(query_heads, query_length, value_dim);
      break;
    case Layout::kBshd:
      query.strides = bshd_strides(saturating_multiply(query_heads, head_dim), query_length, head_dim);
      key.strides = bshd_strides(saturating_multiply(kv_heads, head_dim), kv_length, head_dim);
      value.strides = bshd_strides(saturating_multiply(kv_heads, value_dim), kv_length, value_dim);
      output.strides = bshd_strides(saturating_multiply(query_heads, value_dim), query_length, value_dim);
      break;
    case Layout::kPackedQkv: {
      const std::int64_t row = saturating_add(
          saturating_add(saturating_multiply(query_heads, head_dim), saturating_multiply(kv_heads, head_dim)),
          saturating_multiply(kv_heads, value_dim));
      query.strides = bshd_strides(row, query_length, head_dim);
      key.strides = bshd_strides(row, kv_length, head_dim);
      value.strides = bshd_strides(row, kv_length, value_dim);
      output.strides = bshd_strides(saturating_multiply(query_heads, value_dim), query_length, value_dim);
      break;
    }
  }
  lse_strides = bhsd_strides(query_heads, query_length, 1);
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

Result<std::int64_t> tensor_bytes(const TensorDesc& tensor, std::int64_t batch, std::int64_t heads,
                                  std::int64_t rows, std::int64_t dims) {
  const auto named = named_strides(tensor.strides, batch, heads, rows, dims);
  bool empty = false;
  for (const NamedStride& dim : named) {
    if (dim.extent < 0) {
      return invalid("the " + std::string(dim.name) + " extent is " + number(dim.extent) +
                     " but must not be negative");
    }
    if (dim.stride < 0) {
      return invalid("the " + std::string(dim.name) + " stride is " + number(dim.stride) +
                     " but must not be negative");
    }
    empty = empty || dim.extent == 0;
  }
  if (empty) return std::int64_t{0};
  std::optional<std::int64_t> last = 0;
  for (const NamedStride& dim : named) {
    const std::optional<std::int64_t> span = checked_multiply(dim.extent - 1, dim.stride);
    last = span.has_value() ? checked_add(*last, *span) : std::nullopt;
    if (!last.has_value()) {
      return invalid("an extent of " + number(dim.extent) + " with a " + std::string(dim.name) +
                     " stride of " + number(dim.stride) +
                     " makes it too large, for its elements are counted in 63 bits");
    }
  }
  const std::optional<std::int64_t> count = checked_add(*last, 1);
  const std::optional<std::int64_t> bytes =
      count.has_value() ? checked_multiply(*count, element_bytes(tensor.type)) : std::nullopt;
  if (!bytes.has_value()) {
    return invalid("its last element is number " + number(*last) +
                   ", which makes it too large, for its bytes are counted in 63 bits");
  }
  return *bytes;
}

Status validate(const AttentionDesc& desc) {
  if (Status s = check_sizes(desc); !s.ok()) return s;
  if (Status s = check_heads(desc); !s.ok()) return s;
  if (Status s = check_options(desc); !s.ok()) return s;
  const NamedTensor query{"query", desc.query, desc.query_heads, desc.query_length, desc.head_dim};
  const NamedTensor key{"key", desc.key, desc.kv_heads, desc.kv_length, desc.head_dim};
  const NamedTensor value{"value", desc.value, desc.kv_heads, desc.kv_length, desc.value_dim};
  const NamedTensor output{"output", desc.output, desc.query_heads, desc.query_length, desc.value_dim};
  if (Status s = check_tensor(query, desc.batch, false); !s.ok()) return s;
  if (Status s = check_tensor(key, desc.batch, false); !s.ok()) return s;
  if (Status s = check_tensor(value, desc.batch, false); !s.ok()) return s;
  if (Status s = check_tensor(output, desc.batch, true); !s.ok()) return s;
  if (!desc.has_lse) return {};
  Strides lse_strides = desc.lse_strides;
  lse_strides.dim = 1;
  const NamedTensor lse{"lse", {DataType::kFloat32, lse_strides, 0}, desc.query_heads, desc.query_length, 1};
  return check_tensor(lse, desc.batch, true);
}

}  // namespace vkattn

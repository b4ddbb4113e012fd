// The rules for one tensor: see tensor_rules.hpp.
#include "attention/tensor_rules.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "common/checked.hpp"

namespace vkattn {

namespace detail {

namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

Result<void> check_type_and_alignment(const NamedTensor& tensor, bool may_be_quantised) {
  const auto type = static_cast<std::uint32_t>(tensor.desc.type);
  if (type > static_cast<std::uint32_t>(DataType::kFloat8E4m3)) {
    return invalid("the type of " + std::string(tensor.name) + " holds " + std::to_string(type) +
                   ", which names no storage type");
  }
  if (is_quantised(tensor.desc.type) && !may_be_quantised) {
    return invalid("the type of " + std::string(tensor.name) + " is " + std::string(name(tensor.desc.type)) +
                   ", which only the keys and values that attention reads may have");
  }
  return check_alignment(tensor);
}

/// In the order of declaration.
std::array<NamedStride, 4> named_strides(const Strides& strides, const TensorExtents& extents) {
  return {NamedStride{"batch", strides.batch, extents.batch},
          NamedStride{"head", strides.head, extents.heads}, NamedStride{"row", strides.row, extents.rows},
          NamedStride{"dim", strides.dim, extents.dims}};
}

}  // namespace

Result<void> check_size(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid(std::string(what) + " is " + number(value) + " but must be from " + number(least) + " to " +
                 number(most));
}

Result<void> check_given(std::string_view what, std::int64_t value, std::int64_t most) {
  if (value == kUnset) return invalid(std::string(what) + " is not set; give it, or 0 for none");
  return check_size(what, value, 0, most);
}

Result<void> check_alignment(const NamedTensor& tensor) {
  const std::uint32_t alignment = tensor.desc.alignment_bytes;
  const std::uint32_t least = element_bytes(tensor.desc.type);
  if (alignment != 0 && (!std::has_single_bit(alignment) || alignment < least)) {
    return invalid("alignment_bytes of " + std::string(tensor.name) + " is " + std::to_string(alignment) +
                   " but must be a power of two of at least " + std::to_string(least) +
                   ", the size of an element, or 0 for that size");
  }
  return {};
}

/// Elements do not overlap if each stride is larger than everything that the smaller strides span.
/// (Interlocked strides may be free of overlap too, but no layout needs them.)
Result<void> check_no_overlap(std::string_view name, std::span<NamedStride> strides) {
  std::ranges::sort(strides, {}, &NamedStride::stride);
  std::int64_t reach = 0;
  for (const NamedStride& dim : strides) {
    if (dim.extent <= 1) continue;
    if (dim.stride <= reach) {
      return invalid("elements of ", name, " overlap: its ", dim.name, " stride is ", dim.stride,
                     " but must be above ", reach, ", the reach of its smaller strides");
    }
    reach += (dim.extent - 1) * dim.stride;
  }
  return {};
}

Result<void> check_tensor(const NamedTensor& tensor, const TensorUse& use) {
  if (Result<void> s = check_type_and_alignment(tensor, use.may_be_quantised); !s.ok()) return s;
  const TensorExtents& e = tensor.extents;
  const Result<std::int64_t> bytes = tensor_bytes(tensor.desc, e.batch, e.heads, e.rows, e.dims);
  if (!bytes.ok()) return invalid(std::string(tensor.name) + ": " + bytes.error().message);
  if (!use.written || *bytes == 0) return {};
  auto strides = named_strides(*tensor.desc.strides, e);
  return check_no_overlap(tensor.name, strides);
}

std::uint64_t valid_bytes(const TensorDesc& tensor, const TensorExtents& extents) {
  return static_cast<std::uint64_t>(
      tensor_bytes(tensor, extents.batch, extents.heads, extents.rows, extents.dims).value());
}

ByteLayout byte_layout(const TensorDesc& tensor, const TensorExtents& extents) {
  if (extents.batch == 0 || extents.heads == 0 || extents.rows == 0 || extents.dims == 0) return {};
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const std::uint64_t block = block_elements(tensor.type), bytes = block_bytes(tensor.type);
  const Strides& s = *tensor.strides;
  // Strides are multiples of the block; that of dims is 1, as blocks lie side by side.
  const auto stride = [&](std::int64_t elements) { return u64(elements) / block * bytes; };
  return {bytes,
          {u64(extents.batch), u64(extents.heads), u64(extents.rows), u64(extents.dims) / block},
          {stride(s.batch), stride(s.head), stride(s.row), block > 1 ? bytes : stride(s.dim)}};
}

Result<void> check_built([[maybe_unused]] std::initializer_list<DataType> types) {
#ifdef VKATTN_WITHOUT_QUANTISED
  for (const DataType type : types) {
    if (!is_quantised(type)) continue;
    return unsupported("this build left ", name(type), " out: it was configured with VKATTN_QUANTISED=OFF");
  }
#endif
  return {};
}

bool has_vector_loads(const TensorDesc& tensor, const TensorExtents& extents, std::uint32_t elements) {
  if (tensor.alignment_bytes < elements * element_bytes(tensor.type) || tensor.strides->dim != 1)
    return false;
  const auto aligned = [&](std::int64_t stride, std::int64_t extent) {
    return extent <= 1 || stride % elements == 0;
  };
  return aligned(tensor.strides->batch, extents.batch) && aligned(tensor.strides->head, extents.heads) &&
         aligned(tensor.strides->row, extents.rows);
}

bool rows_share_cache_sets(const TensorDesc& tensor) {
  constexpr std::int64_t kHalfWay = 2048;
  return tensor.strides->row != 0 && tensor.strides->row % (kHalfWay / element_bytes(tensor.type)) == 0;
}

bool sums_lie_apart(const TensorDesc& tensor, bool avoids_shared_sets) {
  return element_bytes(tensor.type) == 2 || (avoids_shared_sets && rows_share_cache_sets(tensor));
}

TensorDesc mask_tensor(const MaskDesc& mask) {
  const Strides& s = *mask.strides;
  switch (mask.type) {
    case MaskType::kFloat16:
      return {DataType::kFloat16, s, 0};
    case MaskType::kBytes:
      return {DataType::kFloat8E4m3, s, 0};  // a byte each
    case MaskType::kBits:
      return {DataType::kFloat32, Strides{s.batch / 32, s.head / 32, s.row / 32, s.dim}, 0};
    default:
      return {DataType::kFloat32, s, 0};
  }
}

std::int64_t mask_columns(const MaskDesc& mask, std::int64_t keys) {
  return mask.type == MaskType::kBits ? saturating_add(keys, 31) / 32 : keys;
}

}  // namespace detail

Result<std::int64_t> tensor_bytes(const TensorDesc& tensor, std::int64_t batch, std::int64_t heads,
                                  std::int64_t rows, std::int64_t dims) {
  if (!tensor.strides.has_value()) {
    return detail::invalid("it has no strides; take the tensor of AttentionDesc::resolved(), or set them");
  }
  const auto named = detail::named_strides(*tensor.strides, {batch, heads, rows, dims});
  const std::int64_t block = block_elements(tensor.type);
  bool empty = false;
  for (const detail::NamedStride& dim : named) {
    if (dim.extent < 0) {
      return detail::invalid("the " + std::string(dim.name) + " extent is " + detail::number(dim.extent) +
                             " but must not be negative");
    }
    if (dim.stride < 0) {
      return detail::invalid("the " + std::string(dim.name) + " stride is " + detail::number(dim.stride) +
                             " but must not be negative");
    }
    const bool is_dim = dim.name == "dim";
    // Checked first: then the strides of whole rows are no multiples either.
    if (block > 1 && dims % block != 0) {
      return detail::invalid("its type " + std::string(name(tensor.type)) + " is stored in blocks of " +
                             detail::number(block) + ", but its rows have " + detail::number(dims) +
                             " elements; pad them with zeros to " +
                             detail::number((dims / block + 1) * block) +
                             " (of keys the queries too, and give the scale), or take another type");
    }
    if (block > 1 &&
        (is_dim ? dim.extent % block != 0 || dim.stride != 1 : dim.extent > 1 && dim.stride % block != 0)) {
      return detail::invalid(
          "its type " + std::string(name(tensor.type)) + " is stored in blocks of " + detail::number(block) +
          ", but its " + std::string(dim.name) + " extent is " + detail::number(dim.extent) + " and stride " +
          detail::number(dim.stride) +
          (is_dim ? "; give whole blocks with stride 1" : "; give a multiple of the block"));
    }
    empty = empty || dim.extent == 0;
  }
  if (empty) return std::int64_t{0};
  std::optional<std::int64_t> last = 0;
  for (const detail::NamedStride& dim : named) {
    const std::optional<std::int64_t> span = detail::checked_multiply(dim.extent - 1, dim.stride);
    last = span.has_value() ? detail::checked_add(*last, *span) : std::nullopt;
    if (!last.has_value()) {
      return detail::invalid("an extent of " + detail::number(dim.extent) + " with a " +
                             std::string(dim.name) + " stride of " + detail::number(dim.stride) +
                             " makes it too large, for its elements are counted in 63 bits");
    }
  }
  const std::optional<std::int64_t> count = detail::checked_add(*last, 1);
  const std::optional<std::int64_t> bytes =
      count.has_value() ? detail::checked_multiply((*count - 1) / block + 1, block_bytes(tensor.type))
                        : std::nullopt;
  if (!bytes.has_value()) {
    return detail::invalid("its last element is number " + detail::number(*last) +
                           ", which makes it too large, for its bytes are counted in 63 bits");
  }
  return *bytes;
}

}  // namespace vkattn

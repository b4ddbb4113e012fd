// The descriptor of a matrix multiplication: strides that follow from sizes, and its rules.
#include <algorithm>
#include <array>
#include <bit>
#include <string_view>

#include "common/checked.hpp"
#include "common/message.hpp"
#include "matmul/matmul_tensors.hpp"

namespace vkattn {

namespace detail {

namespace {

// Rows, columns and units of work are counted in 32 bits on the device, with room for one block more.
constexpr std::int64_t kMaxSize = std::int64_t{1} << 30;
// So are elements.
constexpr std::int64_t kMaxElements = (std::int64_t{1} << 32) - 1;

template <class... Parts>
Error invalid(const Parts&... parts) {
  return {ErrorCode::kInvalidArgument, VK_SUCCESS, message(parts...)};
}

struct NamedStride {
  std::string_view name;
  std::int64_t stride, extent;
};

std::array<NamedStride, 3> named_strides(const MatmulTensor& tensor) {
  return {NamedStride{"batch", tensor.strides.batch, tensor.batch},
          NamedStride{"row", tensor.strides.row, tensor.rows},
          NamedStride{"column", tensor.strides.column, tensor.columns}};
}

bool is_plain(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

Result<void> check_sizes(const MatmulDesc& desc) {
  const std::pair<std::string_view, std::int64_t> sizes[] = {
      {"batch", desc.batch}, {"rows", desc.rows}, {"columns", desc.columns}, {"inner", desc.inner}};
  for (const auto& [name, size] : sizes) {
    if (size == kUnset) return invalid("MatmulDesc::", name, " is not set; give it, or 0 for none");
    if (size < 0 || size > kMaxSize) {
      return invalid("MatmulDesc::", name, " is ", size, " but must be from 0 to ", kMaxSize);
    }
  }
  return {};
}

Result<void> check_type(const MatmulTensor& tensor) {
  if (is_plain(tensor.type)) return {};
  if (tensor.name == "b" && (tensor.type == DataType::kQ8_0 || tensor.type == DataType::kQ4_0)) return {};
  return invalid("the type of ", tensor.name, " is ", name(tensor.type), " but must be f32, f16 or bf16",
                 tensor.name == "b" ? ", q8_0 or q4_0" : "");
}

Result<void> check_alignment(const MatmulTensor& tensor) {
  const std::uint32_t alignment = tensor.alignment_bytes;
  const std::uint32_t least = element_bytes(tensor.type);
  if (alignment == 0 || (std::has_single_bit(alignment) && alignment >= least)) return {};
  return invalid("alignment_bytes of ", tensor.name, " is ", alignment,
                 " but must be a power of two of at least ", least,
                 ", the size of an element, or 0 for that size");
}

Result<void> check_blocks(const MatmulTensor& tensor) {
  const std::int64_t block = block_elements(tensor.type);
  if (block == 1) return {};
  const MatrixStrides& strides = tensor.strides;
  if (tensor.rows % block != 0) {
    return invalid(tensor.name, " is ", name(tensor.type), ", blocks of ", block,
                   " along inner, but inner is ", tensor.rows, "; pad it with zeros to ",
                   (tensor.rows / block + 1) * block, " in a and b, or take another type");
  }
  const bool whole = strides.row == 1 && (tensor.columns <= 1 || strides.column % block == 0) &&
                     (tensor.batch <= 1 || strides.batch % block == 0);
  if (whole) return {};
  return invalid(tensor.name, " is ", name(tensor.type), ", blocks of ", block,
                 " along inner, but its strides are ", strides.batch, ", ", strides.row, " and ",
                 strides.column, " (batch, row, column); the row stride is 1 and the others multiples of ",
                 block);
}

Result<void> check_strides(const MatmulTensor& tensor) {
  for (const NamedStride& dim : named_strides(tensor)) {
    if (dim.stride < 0) {
      return invalid("the ", dim.name, " stride of ", tensor.name, " is ", dim.stride,
                     " but must not be negative");
    }
  }
  const std::int64_t elements = element_span(tensor);
  if (elements <= kMaxElements) return {};
  return invalid(tensor.name, " reaches over ", elements == kMaxInt64 ? "more than 2^63" : message(elements),
                 " elements; they are counted in 32 bits, so multiply fewer rows at once");
}

/// Each stride, from the smallest on, reaches beyond everything that the smaller ones span.
Result<void> check_no_overlap(const MatmulTensor& tensor) {
  std::array<NamedStride, 3> dims = named_strides(tensor);
  std::sort(dims.begin(), dims.end(),
            [](const NamedStride& x, const NamedStride& y) { return x.stride < y.stride; });
  std::int64_t reach = 0;
  for (const NamedStride& dim : dims) {
    if (dim.extent <= 1) continue;
    if (dim.stride <= reach) {
      return invalid("elements of ", tensor.name, " overlap: its ", dim.name, " stride is ", dim.stride,
                     " but must be above ", reach, ", the reach of its smaller strides");
    }
    reach += (dim.extent - 1) * dim.stride;
  }
  return {};
}

Result<void> check_tensor(const MatmulTensor& tensor) {
  if (Result<void> s = check_type(tensor); !s) return s;
  if (Result<void> s = check_alignment(tensor); !s) return s;
  if (Result<void> s = check_strides(tensor); !s) return s;
  if (Result<void> s = check_blocks(tensor); !s) return s;
  return tensor.written && !is_empty(tensor) ? check_no_overlap(tensor) : Result<void>{};
}

MatrixStrides contiguous(std::int64_t rows, std::int64_t columns, bool by_column) {
  const std::int64_t elements = saturating_multiply(rows, columns);
  return by_column ? MatrixStrides{elements, 1, rows} : MatrixStrides{elements, columns, 1};
}

}  // namespace

}  // namespace detail

MatmulDesc MatmulDesc::sum_columns(std::int64_t rows, std::int64_t columns, DataType type) {
  MatmulDesc desc;
  desc.rows = 1;
  desc.columns = columns;
  desc.inner = rows;
  desc.a_is_ones = true;
  desc.b.type = desc.output.type = type;
  return desc;
}

MatmulDesc MatmulDesc::resolved() const {
  MatmulDesc desc = *this;
  const auto fill = [](MatrixDesc& matrix, std::int64_t its_rows, std::int64_t its_columns) {
    if (matrix.strides) return;
    matrix.strides = detail::contiguous(its_rows, its_columns, block_elements(matrix.type) > 1);
  };
  fill(desc.a, rows, inner);
  fill(desc.b, inner, columns);
  fill(desc.output, rows, columns);
  return desc;
}

Result<void> validate(const MatmulDesc& given) {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = detail::check_sizes(given); !s) return s;
    const MatmulDesc desc = given.resolved();
    for (const detail::MatmulTensor& tensor : detail::matmul_tensors(desc)) {
      if (!tensor.used) continue;
      if (Result<void> s = detail::check_tensor(tensor); !s) return s;
    }
    const std::int64_t results =
        detail::saturating_multiply(desc.batch, detail::saturating_multiply(desc.rows, desc.columns));
    if (results <= detail::kMaxElements) return {};
    return detail::invalid("MatmulDesc has ", desc.batch, " products of ", desc.rows, " rows and ",
                           desc.columns, " columns, which are counted in 32 bits: multiply fewer at once");
  });
}

}  // namespace vkattn

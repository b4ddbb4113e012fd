// The descriptor of a matrix multiplication: strides that follow from sizes, and its rules.
#include <array>
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

/// A tensor of the table as a batch of matrices.
struct NamedMatrix {
  NamedTensor tensor;
  MatrixStrides strides;
  std::int64_t rows = 0, columns = 0;

  [[nodiscard]] DataType type() const { return tensor.desc.type; }
  [[nodiscard]] std::int64_t batch() const { return tensor.extents.batch; }
  [[nodiscard]] bool is_empty() const { return batch() == 0 || rows == 0 || columns == 0; }
  [[nodiscard]] std::array<NamedStride, 3> named_strides() const {
    return {NamedStride{"batch", strides.batch, batch()}, NamedStride{"row", strides.row, rows},
            NamedStride{"column", strides.column, columns}};
  }
};

NamedMatrix named_matrix(const MatmulTensorRow& row, const MatmulDesc& desc) {
  const NamedTensor tensor = row.named(desc);
  const Strides& s = *tensor.desc.strides;
  const TensorExtents& e = tensor.extents;
  if (is_stored_transposed(tensor.desc.type)) return {tensor, {s.batch, s.dim, s.row}, e.dims, e.rows};
  return {tensor, {s.batch, s.row, s.dim}, e.rows, e.dims};
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

Result<void> check_type(const NamedMatrix& matrix) {
  const std::string_view name = matrix.tensor.name;
  const DataType type = matrix.type();
  if (is_float(type)) return {};
  if (name == "b" && (type == DataType::kQ8_0 || type == DataType::kQ4_0)) return {};
  return invalid("the type of ", name, " is ", vkattn::name(type), " but must be f32, f16 or bf16",
                 name == "b" ? ", q8_0 or q4_0" : "");
}

Result<void> check_blocks(const NamedMatrix& matrix) {
  const std::int64_t block = block_elements(matrix.type());
  if (block == 1) return {};
  const MatrixStrides& strides = matrix.strides;
  if (matrix.rows % block != 0) {
    return invalid(matrix.tensor.name, " is ", name(matrix.type()), ", blocks of ", block,
                   " along inner, but inner is ", matrix.rows, "; pad it with zeros to ",
                   (matrix.rows / block + 1) * block, " in a and b, or take another type");
  }
  const bool whole = strides.row == 1 && (matrix.columns <= 1 || strides.column % block == 0) &&
                     (matrix.batch() <= 1 || strides.batch % block == 0);
  if (whole) return {};
  return invalid(matrix.tensor.name, " is ", name(matrix.type()), ", blocks of ", block,
                 " along inner, but its strides are ", strides.batch, ", ", strides.row, " and ",
                 strides.column, " (batch, row, column); the row stride is 1 and the others multiples of ",
                 block);
}

/// Elements from the first to the last; the largest number if there are more.
std::int64_t element_span(const NamedMatrix& matrix) {
  if (matrix.is_empty()) return 0;
  std::int64_t last = 0;
  for (const NamedStride& dim : matrix.named_strides())
    last = saturating_add(last, saturating_multiply(dim.extent - 1, dim.stride));
  return saturating_add(last, 1);
}

Result<void> check_strides(const NamedMatrix& matrix) {
  for (const NamedStride& dim : matrix.named_strides()) {
    if (dim.stride < 0) {
      return invalid("the ", dim.name, " stride of ", matrix.tensor.name, " is ", dim.stride,
                     " but must not be negative");
    }
  }
  const std::int64_t elements = element_span(matrix);
  if (elements <= kMaxElements) return {};
  return invalid(matrix.tensor.name, " reaches over ",
                 elements == kMaxInt64 ? "more than 2^63" : message(elements),
                 " elements; they are counted in 32 bits, so multiply fewer rows at once");
}

Result<void> check_matrix(const NamedMatrix& matrix, const TensorUse& use) {
  if (Result<void> s = check_type(matrix); !s) return s;
  if (Result<void> s = check_alignment(matrix.tensor); !s) return s;
  if (Result<void> s = check_strides(matrix); !s) return s;
  if (Result<void> s = check_blocks(matrix); !s) return s;
  if (!use.written || matrix.is_empty()) return {};
  auto strides = matrix.named_strides();
  return check_no_overlap(matrix.tensor.name, strides);
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
    for (const detail::MatmulTensorRow& row : detail::tensor_table<MatmulTensors>()) {
      if (!row.is_used(desc)) continue;
      if (Result<void> s = detail::check_matrix(detail::named_matrix(row, desc), row.use); !s) return s;
    }
    const std::int64_t results =
        detail::saturating_multiply(desc.batch, detail::saturating_multiply(desc.rows, desc.columns));
    if (results <= detail::kMaxElements) return {};
    return detail::invalid("MatmulDesc has ", desc.batch, " products of ", desc.rows, " rows and ",
                           desc.columns, " columns, which are counted in 32 bits: multiply fewer at once");
  });
}

}  // namespace vkattn

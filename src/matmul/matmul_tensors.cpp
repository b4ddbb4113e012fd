// The tensors of a matrix multiplication: see matmul_tensors.hpp.
#include "matmul/matmul_tensors.hpp"

#include "common/checked.hpp"

namespace vkattn::detail {

namespace {

MatmulTensor matrix(std::string_view name, BufferRange MatmulTensors::*range, const MatrixDesc& desc,
                    std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  return {name, range, desc.type, *desc.strides, desc.alignment_bytes, batch, rows, columns, true, false};
}

}  // namespace

std::array<MatmulTensor, kMatmulTensorCount> matmul_tensors(const MatmulDesc& desc) {
  std::array<MatmulTensor, kMatmulTensorCount> all{
      matrix("a", &MatmulTensors::a, desc.a, desc.batch, desc.rows, desc.inner),
      matrix("b", &MatmulTensors::b, desc.b, desc.batch, desc.inner, desc.columns),
      MatmulTensor{"bias", &MatmulTensors::bias, desc.bias_type, MatrixStrides{0, 0, 1}, 0, 1, 1,
                   desc.columns, desc.has_bias, false},
      matrix("output", &MatmulTensors::output, desc.output, desc.batch, desc.rows, desc.columns)};
  all[0].used = !desc.a_is_ones;
  all[3].written = true;
  return all;
}

std::size_t matmul_tensor_index(BufferRange MatmulTensors::*range) {
  if (range == &MatmulTensors::a) return 0;
  if (range == &MatmulTensors::b) return 1;
  return range == &MatmulTensors::bias ? 2 : 3;
}

bool is_empty(const MatmulTensor& tensor) {
  return tensor.batch == 0 || tensor.rows == 0 || tensor.columns == 0;
}

std::int64_t element_span(const MatmulTensor& tensor) {
  if (is_empty(tensor)) return 0;
  const auto reach = [](std::int64_t extent, std::int64_t stride) {
    return saturating_multiply(extent - 1, stride);
  };
  const std::int64_t last = saturating_add(
      saturating_add(reach(tensor.batch, tensor.strides.batch), reach(tensor.rows, tensor.strides.row)),
      reach(tensor.columns, tensor.strides.column));
  return saturating_add(last, 1);
}

std::uint64_t tensor_bytes(const MatmulTensor& tensor) {
  if (!tensor.used) return 0;
  const auto elements = static_cast<std::uint64_t>(element_span(tensor));
  const std::uint64_t block = block_elements(tensor.type);
  return (elements + block - 1) / block * block_bytes(tensor.type);
}

ByteLayout byte_layout(const MatmulTensor& tensor) {
  if (!tensor.used || is_empty(tensor)) return {};
  // Blocks lie along the rows.
  const std::uint64_t block = block_elements(tensor.type), bytes = block_bytes(tensor.type);
  const auto u64 = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
  const auto stride = [&](std::int64_t elements) { return u64(elements) / block * bytes; };
  return {bytes,
          {u64(tensor.batch), u64(tensor.rows) / block, u64(tensor.columns), 1},
          {stride(tensor.strides.batch), block > 1 ? bytes : stride(tensor.strides.row),
           stride(tensor.strides.column), 0}};
}

}  // namespace vkattn::detail

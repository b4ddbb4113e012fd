// The table of the tensors of a matrix multiplication: see matmul_tensors.hpp.
#include "matmul/matmul_tensors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "shared/matmul_constants.h"

namespace vkattn::detail {

namespace {

using Desc = const MatmulDesc&;
using Tensors = MatmulTensors;

TensorDesc storage_of(const MatrixDesc& matrix) {
  const MatrixStrides& s = *matrix.strides;
  Strides strides{s.batch, 0, s.row, s.column};
  if (is_stored_transposed(matrix.type)) std::swap(strides.row, strides.dim);
  return {matrix.type, strides, matrix.alignment_bytes};
}

TensorExtents extents_of(const MatrixDesc& matrix, std::int64_t batch, std::int64_t rows,
                         std::int64_t columns) {
  if (is_stored_transposed(matrix.type)) return {batch, 1, columns, rows};
  return {batch, 1, rows, columns};
}

// A vector as a matrix of one row.
MatrixDesc bias_of(Desc desc) {
  return {desc.bias_type, MatrixStrides{0, 0, 1}, 0};
}

constexpr std::array<MatmulTensorRow, TensorTable<Tensors>::kCount> kTensors{{
    {"a", VKATTN_MATMUL_BINDING_A, &Tensors::a, [](Desc d) { return !d.a_is_ones; },
     [](Desc d) { return storage_of(d.a); }, [](Desc d) { return extents_of(d.a, d.batch, d.rows, d.inner); },
     push_constant(offsetof(MatmulParams, a_offset)), kReadOnly},
    {"b", VKATTN_MATMUL_BINDING_B, &Tensors::b, is_always_used<MatmulDesc>,
     [](Desc d) { return storage_of(d.b); },
     [](Desc d) { return extents_of(d.b, d.batch, d.inner, d.columns); },
     push_constant(offsetof(MatmulParams, b_offset)), kReadOnly},
    {"bias", VKATTN_MATMUL_BINDING_BIAS, &Tensors::bias, [](Desc d) { return d.has_bias; },
     [](Desc d) { return storage_of(bias_of(d)); },
     [](Desc d) { return extents_of(bias_of(d), 1, 1, d.columns); },
     push_constant(offsetof(MatmulParams, bias_offset)), kReadOnly},
    {"output", VKATTN_MATMUL_BINDING_OUTPUT, &Tensors::output, is_always_used<MatmulDesc>,
     [](Desc d) { return storage_of(d.output); },
     [](Desc d) { return extents_of(d.output, d.batch, d.rows, d.columns); },
     push_constant(offsetof(MatmulParams, output_offset)), kWritten},
}};

}  // namespace

std::span<const MatmulTensorRow, TensorTable<MatmulTensors>::kCount> TensorTable<MatmulTensors>::rows() {
  return kTensors;
}

bool has_buffer_for_workspace(const MatmulDesc& desc, const Capabilities& capabilities) {
  const auto used = std::ranges::count_if(kTensors, [&](const auto& row) { return row.is_used(desc); });
  return std::cmp_less(used, capabilities.max_stage_storage_buffers);
}

}  // namespace vkattn::detail

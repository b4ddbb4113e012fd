// The table of the tensors of a matrix multiplication, and the push constants that their offsets are added
// to.
#pragma once

#include <vkattn/capabilities.hpp>
#include <vkattn/matmul.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attention/tensor_row.hpp"

namespace vkattn::detail {

namespace shared {
using uint = std::uint32_t;
#include "shared/matmul_params.h"
}  // namespace shared
using shared::MatmulParams;

using MatmulTensorRow = TensorRowOf<MatmulDesc, MatmulTensors>;

/// A matrix is a tensor without heads, its columns being dims. One of a block format, whose blocks lie along
/// its rows, is stored as its transpose.
template <>
struct TensorTable<MatmulTensors> {
  static constexpr std::size_t kCount = sizeof(MatmulTensors) / sizeof(BufferRange);
  static constexpr std::string_view kAlignmentName = "its alignment (MatrixDesc::alignment_bytes)";
  [[nodiscard]] static std::span<const MatmulTensorRow, kCount> rows();
};

[[nodiscard]] constexpr bool is_stored_transposed(DataType type) {
  return block_elements(type) > 1;
}

/// Whether a stage has a storage buffer beside those of the tensors, for parts of sums or copies.
[[nodiscard]] bool has_buffer_for_workspace(const MatmulDesc& desc, const Capabilities& capabilities);

}  // namespace vkattn::detail

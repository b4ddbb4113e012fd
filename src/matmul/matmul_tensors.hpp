// The tensors of a matrix multiplication.
#pragma once

#include <vkattn/matmul.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/byte_layout.hpp"

namespace vkattn::detail {

/// A tensor of a resolved descriptor.
struct MatmulTensor {
  std::string_view name;
  BufferRange MatmulTensors::*range = nullptr;
  DataType type = DataType::kFloat32;
  MatrixStrides strides{};
  std::uint32_t alignment_bytes = 0;
  std::int64_t batch = 0, rows = 0, columns = 0;
  bool used = false;
  bool written = false;
};

inline constexpr std::size_t kMatmulTensorCount = 4;

/// In the order of the shaders' bindings of a, b, bias and output.
[[nodiscard]] std::array<MatmulTensor, kMatmulTensorCount> matmul_tensors(const MatmulDesc& desc);

/// The place of a member in it.
[[nodiscard]] std::size_t matmul_tensor_index(BufferRange MatmulTensors::*range);

[[nodiscard]] bool is_empty(const MatmulTensor& tensor);

/// Elements from the first to the last, which are stored in whole blocks; the largest number where it is
/// beyond.
[[nodiscard]] std::int64_t element_span(const MatmulTensor& tensor);

/// Bytes of them; 0 where the descriptor has no use for the tensor. Of a valid descriptor.
[[nodiscard]] std::uint64_t tensor_bytes(const MatmulTensor& tensor);

/// Where they lie; no bytes where those are 0.
[[nodiscard]] ByteLayout byte_layout(const MatmulTensor& tensor);

}  // namespace vkattn::detail

// Tensors in buffers of their own, between guard bands, and the functions that fill them.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <functional>

#include "attention/tensor_table.hpp"
#include "harness/fill.hpp"
#include "harness/tensor_memory.hpp"

namespace vkattn::harness {

/// A tensor's place in its buffer. A tensor without elements has no buffer.
struct TensorBuffer {
  Buffer buffer;
  VkDeviceSize offset = 0;       ///< bytes before the first element
  VkDeviceSize bytes = 0;        ///< from the first element to the end of the last
  VkDeviceSize bound_bytes = 0;  ///< the size of the binding: `bytes` and the guard band after them
};

/// Makes a buffer for a tensor of `bytes`. The first element lies shift_bytes after the guard band.
[[nodiscard]] Result<void> place(const Runtime& runtime, std::int64_t bytes, std::int64_t shift_bytes,
                                 TensorBuffer& tensor);
/// Makes a buffer for a tensor of this shape. The shift counts elements.
[[nodiscard]] Result<void> place(const Runtime& runtime, const TensorShape& shape, std::int64_t shift,
                                 TensorBuffer& tensor);
/// Makes the buffers of all tensors that the descriptor uses.
template <class Desc, class Tensors>
[[nodiscard]] Result<void> place_used(const Runtime& runtime, const Desc& desc, std::int64_t shift,
                                      detail::PerTensor<TensorBuffer, Tensors>& tensors) {
  for (const auto& row : detail::tensor_table<Tensors>()) {
    if (!row.is_used(desc)) continue;
    if (Result<void> s = place(runtime, shape_of(row, desc), shift, tensors[row.range]); !s.ok()) return s;
  }
  return {};
}

/// Writes the elements that `fill` gives, lowest address first. Every other byte gets the pattern.
[[nodiscard]] Result<void> fill_with(const Runtime& runtime, const TensorBuffer& tensor, Pattern around,
                                     const std::function<void(const PutElement&)>& fill);
[[nodiscard]] Result<void> fill_pattern(const Runtime& runtime, const TensorBuffer& tensor, Pattern pattern);

/// The range for a binding. It is null for a tensor without elements.
[[nodiscard]] BufferRange range_of(const TensorBuffer& tensor);
template <class Tensors>
[[nodiscard]] Tensors ranges_of(const detail::PerTensor<TensorBuffer, Tensors>& buffers) {
  Tensors tensors;
  for (const auto& row : detail::tensor_table<Tensors>()) tensors.*row.range = range_of(buffers[row.range]);
  return tensors;
}

}  // namespace vkattn::harness

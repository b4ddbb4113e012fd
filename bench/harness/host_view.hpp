// The bytes of a tensor on the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "harness/tensor_buffer.hpp"

namespace vkattn::harness {

/// The bytes of a buffer: the mapped memory itself, or a copy.
class HostView {
 public:
  static Result<HostView> of(const Runtime& runtime, const TensorBuffer& tensor) {
    HostView view;
    if (tensor.bytes == 0) return view;
    view.bytes_ = runtime.mapped(tensor.buffer);
    if (view.bytes_.empty()) {
      view.copy_.resize(static_cast<std::size_t>(tensor.buffer.size()));
      if (Result<void> s = runtime.read(tensor.buffer, 0, view.copy_); !s.ok()) return s.error();
      view.bytes_ = view.copy_;  // a moved vector keeps its memory, so the span stays valid
    }
    view.offset_ = static_cast<std::size_t>(tensor.offset);
    view.tensor_bytes_ = static_cast<std::size_t>(tensor.bytes);
    return view;
  }

  /// The bytes of the whole buffer.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  /// The bytes of the tensor.
  [[nodiscard]] std::span<const std::byte> tensor() const {
    return bytes_.empty() ? bytes_ : bytes_.subspan(offset_, tensor_bytes_);
  }

 private:
  std::vector<std::byte> copy_;
  std::span<const std::byte> bytes_;
  std::size_t offset_ = 0;
  std::size_t tensor_bytes_ = 0;
};

}  // namespace vkattn::harness

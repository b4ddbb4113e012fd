// Numbers on the device.
#pragma once

#include <vkattn/runtime.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "common_device.hpp"

namespace decoder {

using example::check;
using example::checked;

// 32-bit numbers in a buffer; the host can write and read them. The Runtime outlives it.
template <class T>
class Array {
  static_assert(sizeof(T) == 4);

 public:
  Array(const vkattn::Runtime& runtime, std::int64_t count)
      : runtime_(&runtime),
        count_(static_cast<std::size_t>(count)),
        buffer_(checked(runtime.create_buffer(count_ * sizeof(T)))) {}

  void write(std::span<const T> values) const { checked(runtime_->write(buffer_, 0, std::as_bytes(values))); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(count_);
    checked(runtime_->read(buffer_, 0, std::as_writable_bytes(std::span(values))));
    return values;
  }
  // The range from element `first` on.
  [[nodiscard]] vkattn::BufferRange range(std::int64_t first = 0) const {
    return buffer_.range(static_cast<VkDeviceSize>(first) * sizeof(T));
  }

 private:
  const vkattn::Runtime* runtime_;
  std::size_t count_;
  vkattn::Buffer buffer_;
};

using Floats = Array<float>;
using Indices = Array<std::uint32_t>;

}  // namespace decoder

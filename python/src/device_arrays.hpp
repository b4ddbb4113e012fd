// Arrays in a device's memory.
#pragma once

#include <pybind11/numpy.h>

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <memory>
#include <span>

#include "session.hpp"

namespace vkattn::python {

/// A buffer of so many bytes, to the end of a 32-bit word, as ranges of tensors reach.
[[nodiscard]] Buffer device_buffer(const Runtime& runtime, std::size_t bytes);

/// With these bytes in it; no buffer where there are none.
[[nodiscard]] Buffer upload(const Runtime& runtime, std::span<const std::byte> bytes);

/// Bytes on a device, for as long as somebody holds them; shape and type are Python's to know.
class DeviceArray {
 public:
  DeviceArray(std::shared_ptr<Session> session, std::size_t bytes);

  /// Copies from and to an array without gaps, of as many bytes.
  void write(const pybind11::array& array);
  void read(pybind11::array& array) const;

  [[nodiscard]] BufferRange range() const { return buffer_.range(); }
  [[nodiscard]] bool is_on(const Session& session) const { return session_.get() == &session; }

 private:
  std::shared_ptr<Session> session_;  // outlives the buffer
  Buffer buffer_;
};

void register_device_arrays(pybind11::module_& module);

}  // namespace vkattn::python

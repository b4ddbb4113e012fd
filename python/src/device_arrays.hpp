// Arrays in a device's memory.
#pragma once

#include <pybind11/numpy.h>

#include <vkattn/runtime.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "score_inputs.hpp"
#include "session.hpp"

namespace vkattn::python {

/// A buffer of so many bytes, rounded up to whole 32-bit words, as ranges of tensors need.
[[nodiscard]] Buffer device_buffer(const Runtime& runtime, std::size_t bytes);

/// A buffer with these bytes; no buffer if there are none.
[[nodiscard]] Buffer upload(const Runtime& runtime, std::span<const std::byte> bytes);

/// The memory on the device that one execution reads and writes.
class RunMemory {
 public:
  explicit RunMemory(const Runtime& runtime) : runtime_(runtime) {}

  /// Memory with these bytes; a null range if there are none.
  [[nodiscard]] BufferRange upload(std::span<const std::byte> bytes);
  /// Memory that only the device uses.
  [[nodiscard]] BufferRange create(std::size_t bytes);
  /// Memory that read_results() copies to these bytes.
  [[nodiscard]] BufferRange result(std::span<std::byte> bytes);
  void read_results() const;
  /// Passes all memory to a caller that needs it longer.
  [[nodiscard]] std::vector<Buffer> take_buffers() { return std::move(buffers_); }

 private:
  struct Result {
    std::size_t buffer;
    std::span<std::byte> bytes;
  };

  const Runtime& runtime_;
  std::vector<Buffer> buffers_;
  std::vector<Result> results_;
};

/// Uploads score_tensors() of a call.
void upload_score_inputs(const ScoreInputs& inputs, RunMemory& memory, AttentionTensors& tensors);

/// Bytes on a device, kept while somebody holds them. Python's side knows shape and type.
class DeviceArray {
 public:
  DeviceArray(std::shared_ptr<Session> session, std::size_t bytes);

  /// Both copy a host array without gaps, of as many bytes.
  void write(const pybind11::array& array);
  void read(pybind11::array& array) const;

  [[nodiscard]] BufferRange range() const { return buffer_.range(); }
  [[nodiscard]] const Session& session() const { return *session_; }

 private:
  std::shared_ptr<Session> session_;  // outlives the buffer
  Buffer buffer_;
};

void register_device_arrays(pybind11::module_& module);

}  // namespace vkattn::python

// Arrays on a device: see device_arrays.hpp.
#include "device_arrays.hpp"

#include <utility>

#include "arrays.hpp"

namespace py = pybind11;

namespace vkattn::python {

Buffer device_buffer(const Runtime& runtime, std::size_t bytes) {
  return take(runtime.create_buffer((bytes + 3) / 4 * 4));
}

Buffer upload(const Runtime& runtime, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  Buffer buffer = device_buffer(runtime, bytes.size());
  take(runtime.write(buffer, 0, bytes));
  return buffer;
}

BufferRange RunMemory::upload(std::span<const std::byte> bytes) {
  buffers_.push_back(python::upload(runtime_, bytes));
  return buffers_.back().range();
}

BufferRange RunMemory::create(std::size_t bytes) {
  buffers_.push_back(device_buffer(runtime_, bytes));
  return buffers_.back().range();
}

BufferRange RunMemory::result(std::span<std::byte> bytes) {
  if (bytes.empty()) return {};
  results_.push_back({buffers_.size(), bytes});
  return create(bytes.size());
}

void RunMemory::read_results() const {
  for (const Result& result : results_) take(runtime_.read(buffers_[result.buffer], 0, result.bytes));
}

void upload_score_inputs(const ScoreInputs& inputs, RunMemory& memory, AttentionTensors& tensors) {
  HostTensors host;
  inputs.add_to(host);
  for (const ScoreTensor& tensor : score_tensors()) {
    const std::span bytes = (host.*tensor.host).bytes();
    if (!bytes.empty()) tensors.*tensor.range = memory.upload(bytes);
  }
}

DeviceArray::DeviceArray(std::shared_ptr<Session> session, std::size_t bytes) : session_(std::move(session)) {
  session_->use([&](const Runtime& runtime) { buffer_ = device_buffer(runtime, bytes); });
}

void DeviceArray::write(const py::array& array) {
  const py::array dense = without_gaps(array);
  const std::span bytes = bytes_of(dense);
  session_->use([&](const Runtime& runtime) { take(runtime.write(buffer_, 0, bytes)); });
}

void DeviceArray::read(py::array& array) const {
  const std::span bytes = writable_bytes_of(array);
  session_->use([&](const Runtime& runtime) { take(runtime.read(buffer_, 0, bytes)); });
}

void register_device_arrays(py::module_& module) {
  py::class_<DeviceArray, std::shared_ptr<DeviceArray>>(module, "DeviceArray")
      .def(py::init(&make_of_process<DeviceArray, const std::shared_ptr<Session>&, const std::size_t&>))
      .def("write", &DeviceArray::write)
      .def("read", &DeviceArray::read);
}

}  // namespace vkattn::python

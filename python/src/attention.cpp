// Attention on arrays in host memory, in one call.
#include <pybind11/stl.h>

#include "module.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// (output, lse or None, weights or None).
py::tuple attention(Session& session, const Problem& problem, const std::string& kernel, std::uint64_t seed) {
  const AttentionDesc& desc = problem.desc();
  py::array output = new_array(desc.output.type, problem.output_shape());
  py::object lse = py::none();
  py::object weights = py::none();
  HostTensors tensors = problem.host_tensors();
  tensors.output = writable_bytes_of(output);
  if (desc.has_lse) {
    py::array array = new_array(DataType::kFloat32, problem.lse_shape());
    tensors.lse = writable_bytes_of(array);
    lse = std::move(array);
  }
  if (desc.weights != WeightsStage::kNone) {
    py::array array = new_array(DataType::kFloat32, problem.weights_shape());
    tensors.weights = writable_bytes_of(array);
    weights = std::move(array);
  }
  tensors.dropout_seed = seed;
  session.use(
      [&](const Runtime& runtime) { take(runtime.compute(session.attention_plan(desc, kernel), tensors)); });
  return py::make_tuple(std::move(output), std::move(lse), std::move(weights));
}

}  // namespace

void register_attention(py::module_& module) {
  module.def("attention", &attention, py::arg("session"), py::arg("problem"), py::arg("kernel"),
             py::arg("seed"));
}

}  // namespace vkattn::python

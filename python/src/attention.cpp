// Attention on arrays in host memory, in one call.
#include <pybind11/stl.h>

#include <chrono>
#include <utility>
#include <vector>

#include "module.hpp"
#include "problem.hpp"
#include "session.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The results of a call, and its tensors in host memory.
struct Call {
  py::array output;
  py::object lse = py::none();
  py::object weights = py::none();
  HostTensors tensors;

  Call(const Problem& problem, std::uint64_t seed)
      : output(new_array(problem.desc().output.type, problem.output_shape())),
        tensors(problem.host_tensors()) {
    const AttentionDesc& desc = problem.desc();
    tensors.output = writable_bytes_of(output);
    if (desc.has_lse) tensors.lse = new_float_array(lse, problem.lse_shape());
    if (desc.weights != WeightsStage::kNone)
      tensors.weights = new_float_array(weights, problem.weights_shape());
    tensors.dropout_seed = seed;
  }
};

/// Returns (output, lse or None, weights or None).
py::tuple attention(Session& session, const Problem& problem, const std::string& kernel, std::uint64_t seed) {
  const Call call(problem, seed);
  session.use([&](const Runtime& runtime) {
    take(runtime.compute(session.plan(problem.desc(), kernel), call.tensors));
  });
  return py::make_tuple(call.output, call.lse, call.weights);
}

/// The seconds of each of `repeat` calls of the library alone, to measure what Python adds.
std::vector<double> attention_seconds(Session& session, const Problem& problem, int repeat) {
  using Clock = std::chrono::steady_clock;
  const Call call(problem, 0);
  std::vector<double> seconds;
  session.use([&](const Runtime& runtime) {
    const AttentionPlan& plan = session.plan(problem.desc());
    for (int i = 0; i < repeat; ++i) {
      const Clock::time_point start = Clock::now();
      take(runtime.compute(plan, call.tensors));
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
    }
  });
  return seconds;
}

}  // namespace

void register_attention(py::module_& module) {
  module.def("attention", &attention, py::arg("session"), py::arg("problem"), py::arg("kernel"),
             py::arg("seed"));
  module.def("attention_seconds", &attention_seconds, py::arg("session"), py::arg("problem"),
             py::arg("repeat"));
}

}  // namespace vkattn::python

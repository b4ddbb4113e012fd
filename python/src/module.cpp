// The module vkattn._native: a thin layer over the runtime, which only the package's Python files use.
#include "module.hpp"

#include "device_arrays.hpp"
#include "errors.hpp"
#include "problem.hpp"
#include "process.hpp"
#include "session.hpp"

PYBIND11_MODULE(_native, module) {
  module.attr("__version__") = VKATTN_VERSION;
  vkattn::python::register_errors(module);
  vkattn::python::register_process(module);
  vkattn::python::register_session(module);
  vkattn::python::register_score_inputs(module);
  vkattn::python::register_problem(module);
  vkattn::python::register_attention(module);
  vkattn::python::register_backward(module);
  vkattn::python::register_device_arrays(module);
  vkattn::python::register_plan(module);
  vkattn::python::register_cache(module);
  vkattn::python::register_layer(module);
}

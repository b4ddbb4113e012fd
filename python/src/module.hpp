// The functions that add each subject of the binding to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace vkattn::python {

void register_attention(pybind11::module_& module);
void register_backward(pybind11::module_& module);
void register_cache(pybind11::module_& module);
void register_layer(pybind11::module_& module);
void register_plan(pybind11::module_& module);

}  // namespace vkattn::python

// NumPy arrays: see arrays.hpp.
#include "arrays.hpp"

#include <algorithm>

#include "errors.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The elements from the array's first to the end of its last in memory; -1 if the library cannot walk them.
std::int64_t reach_of(const py::array& array) {
  std::int64_t reach = 1;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.shape(i) <= 1) continue;
    if (array.strides(i) < 0 || array.strides(i) % array.itemsize() != 0) return -1;
    reach += (array.shape(i) - 1) * (array.strides(i) / array.itemsize());
  }
  return reach;
}

}  // namespace

DataType element_type(const py::array& array, const char* name) {
  const py::dtype type = array.dtype();
  if (type.kind() == 'f' && type.itemsize() == 4) return DataType::kFloat32;
  if (type.kind() == 'f' && type.itemsize() == 2) return DataType::kFloat16;
  if (type.kind() == 'u' && type.itemsize() == 2) return DataType::kBfloat16;
  throw py::type_error(std::string(name) + " is neither float32, float16 nor bfloat16");
}

py::dtype numpy_type(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return py::dtype("float16");
    case DataType::kBfloat16:
      return py::dtype("uint16");
    default:
      return py::dtype("float32");
  }
}

InputArray::InputArray(const py::array& array, const char* name) {
  if (array.ndim() != 4)
    fail(std::string(name) + " has " + std::to_string(array.ndim()) + " dimensions, not 4");
  py::array taken = array;
  std::int64_t reach = reach_of(taken);
  if (taken.size() > 0 && (reach < 0 || reach > 2 * taken.size())) {
    taken = without_gaps(taken);
    reach = reach_of(taken);
  }
  std::int64_t dense = 1;
  std::array<std::int64_t*, 4> strides = {&strides_.batch, &strides_.head, &strides_.row, &strides_.dim};
  for (std::size_t i = 4; i-- > 0;) {
    const auto axis = static_cast<py::ssize_t>(i);
    extents_[i] = taken.shape(axis);
    // NumPy gives any stride to a dimension of size 1. With one value for all, fewer plans differ.
    *strides[i] = extents_[i] > 1 ? taken.strides(axis) / taken.itemsize() : dense;
    dense *= std::max<std::int64_t>(extents_[i], 1);
  }
  if (taken.size() > 0) {
    bytes_ = {static_cast<const std::byte*>(taken.data()),
              static_cast<std::size_t>(reach) * static_cast<std::size_t>(taken.itemsize())};
  }
  kept_ = std::move(taken);
}

InputList::InputList(const py::array& array, std::int64_t count, const char* name, const char* one_for_each) {
  if (array.ndim() != 1 || array.shape(0) != count) {
    fail(std::string(name) + " has the shape " +
         shape_text({array.shape(), static_cast<std::size_t>(array.ndim())}) +
         " but must have one number for " + one_for_each + ", (" + std::to_string(count) + ",)");
  }
  py::array dense = without_gaps(array);
  bytes_ = bytes_of(dense);
  kept_ = std::move(dense);
}

py::array without_gaps(const py::array& array) {
  py::array copy = py::array::ensure(array, py::array::c_style);
  if (!copy) throw py::error_already_set();
  return copy;
}

std::span<const std::byte> bytes_of(const py::array& array) {
  return {static_cast<const std::byte*>(array.data()), static_cast<std::size_t>(array.nbytes())};
}

std::span<std::byte> writable_bytes_of(py::array& array) {
  return {static_cast<std::byte*>(array.mutable_data()), static_cast<std::size_t>(array.nbytes())};
}

Strides dense_strides(const Extents& extents, const std::array<bool, 4>& repeated) {
  Strides strides;
  const std::array<std::int64_t*, 4> all = {&strides.batch, &strides.head, &strides.row, &strides.dim};
  std::int64_t reach = 1;
  for (std::size_t i = 4; i-- > 0;) {
    *all[i] = repeated[i] ? 0 : reach;
    if (!repeated[i]) reach *= std::max<std::int64_t>(extents[i], 1);
  }
  return strides;
}

py::array new_array(DataType type, const std::vector<std::int64_t>& shape) {
  return {numpy_type(type), shape};
}

std::span<std::byte> new_float_array(py::object& target, const std::vector<std::int64_t>& shape) {
  py::array array = new_array(DataType::kFloat32, shape);
  const std::span bytes = writable_bytes_of(array);
  target = std::move(array);
  return bytes;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace vkattn::python

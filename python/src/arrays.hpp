// NumPy arrays as tensors of the library: element types, strides, memory.
#pragma once

#include <pybind11/numpy.h>

#include <vkattn/attention.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace vkattn::python {

/// Sizes along (batch, head, row, dim), or along the dimensions of scores.
using Extents = std::array<std::int64_t, 4>;

/// The types of arrays as Python's side passes them: bfloat16, which NumPy lacks, comes as uint16.
[[nodiscard]] DataType element_type(const pybind11::array& array, const char* name);
[[nodiscard]] pybind11::dtype numpy_type(DataType type);

/// An array of four dimensions to be read: its strides in the library's form, and its memory, which the array
/// object keeps alive. Made with the interpreter's lock.
class InputArray {
 public:
  InputArray() = default;
  /// Takes the array as it lies in memory. It copies an array with strides that are negative or no multiples
  /// of an element, and an array whose memory is more than twice its elements: the copy is smaller than what
  /// would go to the device.
  InputArray(const pybind11::array& array, const char* name);

  [[nodiscard]] const Extents& extents() const { return extents_; }
  [[nodiscard]] const Strides& strides() const { return strides_; }
  /// The memory from the first element to the end of the last.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  pybind11::object kept_;
  Extents extents_{};
  Strides strides_{};
  std::span<const std::byte> bytes_;
};

/// A list of numbers to be read, without gaps: one for each batch entry or query head, or no list. Python's
/// side checks the array's type. Made with the interpreter's lock.
class InputList {
 public:
  InputList() = default;
  InputList(const pybind11::array& array, std::int64_t count, const char* name, const char* one_for_each);

  /// Empty without a list.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  pybind11::object kept_;
  std::span<const std::byte> bytes_;
};

/// The array without gaps, in C order: the array itself if it has none, otherwise a copy.
[[nodiscard]] pybind11::array without_gaps(const pybind11::array& array);

/// The memory of an array without gaps. Needs the interpreter's lock: the array asks its type for its size.
[[nodiscard]] std::span<const std::byte> bytes_of(const pybind11::array& array);
[[nodiscard]] std::span<std::byte> writable_bytes_of(pybind11::array& array);

/// Strides of an array without gaps. Dimensions that `repeated` marks have stride 0 and take no memory.
[[nodiscard]] Strides dense_strides(const Extents& extents, const std::array<bool, 4>& repeated = {});

/// A new array without gaps, in C order.
[[nodiscard]] pybind11::array new_array(DataType type, const std::vector<std::int64_t>& shape);

/// Makes a new array of float32 without gaps, and returns its memory.
[[nodiscard]] std::span<std::byte> new_float_array(pybind11::object& target,
                                                   const std::vector<std::int64_t>& shape);

/// A shape as Python writes it: (2, 8, 512, 64).
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace vkattn::python

// Errors of the library as exceptions, here and in Python.
#pragma once

#include <pybind11/pybind11.h>

#include <vkattn/result.hpp>

#include <exception>
#include <string>
#include <utility>

namespace vkattn::python {

/// An Error on its way to Python, where it becomes a vkattn.Error. It holds no Python object, so it may be
/// thrown without the interpreter's lock.
class LibraryError : public std::exception {
 public:
  explicit LibraryError(Error error) : error_(std::move(error)) {}
  [[nodiscard]] const Error& error() const { return error_; }
  [[nodiscard]] const char* what() const noexcept override { return error_.message.c_str(); }

 private:
  Error error_;
};

/// The value of a Result, or its error as an exception.
template <class T>
T take(Result<T> result) {
  if (!result) throw LibraryError(result.error());
  return *std::move(result);
}
inline void take(const Result<void>& status) {
  if (!status) throw LibraryError(status.error());
}

/// Throws, for arguments that do not fit each other, an exception that is ValueError and vkattn.Error in
/// Python.
[[noreturn]] void fail(std::string message);

/// Translates LibraryError to the exceptions of vkattn._errors.
void register_errors(pybind11::module_& module);

}  // namespace vkattn::python

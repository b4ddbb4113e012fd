// Errors: see errors.hpp.
#include "errors.hpp"

namespace py = pybind11;

namespace vkattn::python {
namespace {

/// The value of Error.code in Python.
const char* code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kLimitExceeded:
      return "limit_exceeded";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kDeviceLost:
      return "device_lost";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kVulkan:
      break;
  }
  return "vulkan";
}

}  // namespace

void fail(std::string message) {
  throw LibraryError({ErrorCode::kInvalidArgument, 0, std::move(message)});
}

void register_errors(py::module_& /*module*/) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const LibraryError& e) {
      const std::string& message = e.error().message;
      // The message may contain the name of a file, which may not be UTF-8.
      const auto text = py::reinterpret_steal<py::object>(
          PyUnicode_DecodeUTF8(message.data(), static_cast<py::ssize_t>(message.size()), "backslashreplace"));
      const py::object made =
          py::module_::import("vkattn._errors").attr("make")(code_name(e.error().code), text);
      PyErr_SetObject(py::type::handle_of(made).ptr(), made.ptr());
    }
  });
}

}  // namespace vkattn::python

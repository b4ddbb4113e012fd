// Processes: see process.hpp.
#include "process.hpp"

#include <chrono>
#include <cstdint>
#include <thread>

#ifdef __unix__
#include <unistd.h>
#endif

namespace py = pybind11;

namespace vkattn::python {

/// The calls of one process. Read and written with the interpreter's lock.
struct CallsInFlight {
  long process = 0;
  long count = 0;  ///< threads that have released the lock
  /// The interpreter that begins no more calls on daemon threads; -1: none.
  std::int64_t ending = -1;
};

namespace {

/// Never destroyed, as threads that wait for ever refer to it.
CallsInFlight& calls_in_flight() {
  static CallsInFlight* calls = new CallsInFlight{this_process()};
  if (calls->process != this_process()) calls = new CallsInFlight{this_process()};
  return *calls;
}

std::int64_t this_interpreter() {
  return PyInterpreterState_GetID(PyInterpreterState_Get());
}

bool is_daemon() {
  return py::cast<bool>(py::module_::import("threading").attr("current_thread")().attr("daemon"));
}

[[noreturn]] void wait_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(24));
}

}  // namespace

long this_process() {
#ifdef __unix__
  return static_cast<long>(getpid());
#else
  return 0;
#endif
}

InterpreterUnlocked::InterpreterUnlocked() : calls_(calls_in_flight()) {
  if (calls_.ending == this_interpreter() && is_daemon()) {
    PyErr_SetNone(PyExc_SystemExit);  // ends the thread without a word
    throw py::error_already_set();
  }
  ++calls_.count;
  thread_ = PyEval_SaveThread();
}

InterpreterUnlocked::~InterpreterUnlocked() {
  try {
    PyEval_RestoreThread(thread_);
  } catch (...) {  // glibc's pthread_exit() throws, and no handler may end that
    wait_for_ever();
  }
  --calls_.count;
}

void register_process(py::module_& module) {
  module.def("end_calls", [] { calls_in_flight().ending = this_interpreter(); });
  module.def("calls_in_flight", [] { return calls_in_flight().count; });
}

}  // namespace vkattn::python

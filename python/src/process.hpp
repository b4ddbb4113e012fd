// The module's view of its process: it may have been forked, and its interpreter may be ending.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace vkattn::python {

/// The number of this process; 0 on systems that cannot fork.
[[nodiscard]] long this_process();

struct CallsInFlight;

/// Releases the interpreter's lock while it lives; this module releases it in no other way. If the
/// interpreter ends meanwhile, CPython 3.9 to 3.13 unwind the stack of a thread that takes the lock again,
/// which aborts a C++ program. Such a thread waits here for ever instead, as it does in CPython 3.14.
class InterpreterUnlocked {
 public:
  /// After end_calls() it raises SystemExit in a daemon thread, which then ends and releases its locks.
  InterpreterUnlocked();
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;
  ~InterpreterUnlocked();

 private:
  CallsInFlight& calls_;
  PyThreadState* thread_;
};

/// Makes an object that holds a driver's memory or plans. Only the process that made it destroys it: a forked
/// process lacks the driver's threads, so it leaves the object as it is.
template <class T, class... Arguments>
[[nodiscard]] std::shared_ptr<T> make_of_process(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), [process = this_process()](T* made) {
            if (process == this_process()) delete made;
          }};
}

void register_process(pybind11::module_& module);

}  // namespace vkattn::python

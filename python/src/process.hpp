// What the module knows of its process: a fork behind it, the interpreter's end before it.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

namespace vkattn::python {

/// The number of this process; 0 where no process can be forked.
[[nodiscard]] long this_process();

struct CallsInFlight;

/// Releases the interpreter's lock for as long as it lives: the only way to do so in this module. Where the
/// interpreter ends meanwhile, CPython 3.9 to 3.13 end a thread that takes the lock again, by unwinding its
/// stack, which aborts the program in C++. Such a thread waits here for ever instead, as it does in 3.14.
class InterpreterUnlocked {
 public:
  /// After end_calls() SystemExit is raised in a daemon thread, which so ends and lets go of its locks.
  InterpreterUnlocked();
  InterpreterUnlocked(const InterpreterUnlocked&) = delete;
  InterpreterUnlocked& operator=(const InterpreterUnlocked&) = delete;
  ~InterpreterUnlocked();

 private:
  CallsInFlight& calls_;
  PyThreadState* thread_;
};

/// An object that holds memory or plans of a driver, which is destroyed only by the process that made it: in
/// a forked one the driver's threads are not there, so it is left as it is.
template <class T, class... Arguments>
[[nodiscard]] std::shared_ptr<T> make_of_process(Arguments&&... arguments) {
  return {new T(std::forward<Arguments>(arguments)...), [process = this_process()](T* made) {
            if (process == this_process()) delete made;
          }};
}

void register_process(pybind11::module_& module);

}  // namespace vkattn::python

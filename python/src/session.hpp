// Runtimes for Python's threads: one for each device, behind a lock.
#pragma once

#include <pybind11/pybind11.h>

#include <vkattn/runtime.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "kept_plans.hpp"
#include "process.hpp"

namespace vkattn::python {

/// A Runtime, which one thread at a time may use, with the plans that were made on it.
class Session {
 public:
  explicit Session(Runtime runtime) : runtime_(std::move(runtime)) {}

  /// Calls work(runtime) without the interpreter's lock and with that of the session, so `work` touches no
  /// Python object. Whatever is done on a device is done here. Fails in a process that was forked from the
  /// session's.
  template <class Work>
  auto use(Work&& work) {
    require_own_process();
    const InterpreterUnlocked unlocked;
    const std::lock_guard lock(mutex_);
    try {
      return work(static_cast<const Runtime&>(runtime_));
    } catch (const LibraryError& e) {
      if (e.error().code == ErrorCode::kDeviceLost) lost_ = true;
      throw;
    }
  }

  /// Within use(): the plan of a problem of any operation, kept or new. `kernel` is of those that have
  /// several.
  template <class Desc>
  const typename Desc::Plan& plan(const Desc& desc, const std::string& kernel = {}) {
    Desc whole = desc;
    if constexpr (requires { desc.resolved(); }) whole = desc.resolved();
    return plans_.get(whole, kernel, [&] {
      typename Desc::Plan::Options options;
      if constexpr (requires { options.kernel; }) options.kernel = kernel;
      return take(runtime_.make_plan(whole, options));
    });
  }

  /// Fails in a process that was forked from the one that opened the session: the driver's threads are not
  /// there, and locks may be held by threads that are not there either.
  void require_own_process() const;
  /// Fails where `what` (such as "the cache") was made on another session than that of `owner`, this one.
  void require_own(const Session& other, const char* what, const char* owner) const;

  /// That the device is gone: a new session has to be opened.
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// The device's number in Runtime::list_devices().
  [[nodiscard]] std::uint32_t device_index() const { return runtime_.device_index(); }
  /// What the validation layer has said, where it was enabled from outside.
  [[nodiscard]] std::vector<std::string> validation_messages();
  /// The device's name.
  [[nodiscard]] std::string device_name() const;

 private:
  const long process_ = this_process();
  std::mutex mutex_;
  Runtime runtime_;  // outlives the plans
  KeptPlans plans_;
  std::atomic<bool> lost_ = false;
};

/// The session of the device that RuntimeOptions::device names, opened at its first use: one for each device,
/// whatever names it. A process that was forked opens its own.
[[nodiscard]] std::shared_ptr<Session> open_session(const std::string& device);

void register_session(pybind11::module_& module);

}  // namespace vkattn::python

// Runtimes for Python's threads: one for each device, behind a lock.
#pragma once

#include <pybind11/pybind11.h>

#include <vkattn/runtime.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compile_notice.hpp"
#include "errors.hpp"
#include "kept_plans.hpp"
#include "process.hpp"

namespace vkattn::python {

/// A Runtime with the plans that were made on it. One thread at a time may use it.
class Session {
 public:
  explicit Session(Runtime runtime) : runtime_(std::move(runtime)) {}

  /// Calls work(runtime) with the session's lock and without the interpreter's, so `work` touches no Python
  /// object. All work on a device is done here. Fails in a process that was forked from the session's.
  template <class Work>
  auto use(Work&& work) {
    require_own_process();
    const InterpreterUnlocked unlocked;
    const std::lock_guard lock(mutex_);
    const NoticeEnds ends{compiles_};
    try {
      return work(static_cast<const Runtime&>(runtime_));
    } catch (const LibraryError& e) {
      if (e.error().code == ErrorCode::kDeviceLost) lost_ = true;
      throw;
    }
  }

  /// Within use(): the plan of a problem of any operation, kept or new. `kernel` counts for operations with
  /// several kernels.
  template <class Desc>
  const typename Desc::Plan& plan(const Desc& desc, const std::string& kernel = {}) {
    Desc whole = desc;
    if constexpr (requires { desc.resolved(); }) whole = desc.resolved();
    return plans_.get(whole, kernel, [&] {
      typename Desc::Plan::Options options;
      if constexpr (requires { options.kernel; }) options.kernel = kernel;
      expect_compilation();
      return take(runtime_.make_plan(whole, options));
    });
  }

  /// Within use(): shaders may be compiled from here to its end, in the first execution too.
  void expect_compilation() { compiles_.emplace(device_name()); }

  /// Fails in a process that was forked from the one that opened the session: it lacks the driver's threads,
  /// and these may have held locks.
  void require_own_process() const;
  /// Fails if `what` (such as "the cache") was made on another session than this one, which is that of
  /// `owner`.
  void require_own(const Session& other, const char* what, const char* owner) const;

  /// True if the device is lost. Then a new session must be opened.
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// The device's number in Runtime::list_devices().
  [[nodiscard]] std::uint32_t device_index() const { return runtime_.device_index(); }
  /// The messages of the validation layer, if it was enabled from outside.
  [[nodiscard]] std::vector<std::string> validation_messages();
  [[nodiscard]] std::string device_name() const;

 private:
  struct NoticeEnds {
    std::optional<CompileNotice>& notice;
    ~NoticeEnds() { notice.reset(); }
  };

  const long process_ = this_process();
  std::mutex mutex_;
  Runtime runtime_;  // outlives the plans
  KeptPlans plans_;
  std::optional<CompileNotice> compiles_;
  std::atomic<bool> lost_ = false;
};

/// The session of the device that RuntimeOptions::device names, opened at its first use. There is one session
/// for each device, however it is named. A forked process opens its own.
[[nodiscard]] std::shared_ptr<Session> open_session(const std::string& device);

void register_session(pybind11::module_& module);

}  // namespace vkattn::python

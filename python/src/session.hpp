// Runtimes for Python's threads: one for each device that was named, behind a lock.
#pragma once

#include <pybind11/pybind11.h>

#include <vkattn/runtime.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "errors.hpp"
#include "kept_plans.hpp"

namespace vkattn::python {

/// A Runtime, which one thread at a time may use, with the plans that were made on it.
class Session {
 public:
  explicit Session(Runtime runtime) : runtime_(std::move(runtime)) {}

  /// Calls work(runtime) without the interpreter's lock and with that of the session, so `work` touches no
  /// Python object.
  template <class Work>
  auto use(Work&& work) {
    const pybind11::gil_scoped_release released;
    const std::lock_guard lock(mutex_);
    try {
      return work(static_cast<const Runtime&>(runtime_));
    } catch (const LibraryError& e) {
      if (e.error().code == ErrorCode::kDeviceLost) lost_ = true;
      throw;
    }
  }

  /// Within use(): the plan of a problem, kept or new.
  const AttentionPlan& attention_plan(const AttentionDesc& desc, const std::string& kernel);
  const BackwardPlan& backward_plan(const BackwardDesc& desc, const std::string& kernel);
  const MultiHeadAttentionPlan& layer_plan(const MultiHeadAttentionDesc& desc);
  const MultiHeadAttentionBackwardPlan& layer_backward_plan(const MultiHeadAttentionBackwardDesc& desc);

  /// That the device is gone: a new session has to be opened.
  [[nodiscard]] bool is_lost();
  /// What the validation layer has said, where it was enabled from outside.
  [[nodiscard]] std::vector<std::string> validation_messages();
  /// The device's name.
  [[nodiscard]] std::string device_name() const;

 private:
  std::mutex mutex_;
  Runtime runtime_;  // outlives the plans
  KeptPlans<AttentionDesc, AttentionPlan> attention_plans_;
  KeptPlans<BackwardDesc, BackwardPlan> backward_plans_;
  KeptPlans<MultiHeadAttentionDesc, MultiHeadAttentionPlan> layer_plans_;
  KeptPlans<MultiHeadAttentionBackwardDesc, MultiHeadAttentionBackwardPlan> layer_backward_plans_;
  bool lost_ = false;
};

/// The session of a device as RuntimeOptions::device names it, opened at its first use. A process that was
/// forked opens its own.
[[nodiscard]] std::shared_ptr<Session> open_session(const std::string& device);

void register_session(pybind11::module_& module);

}  // namespace vkattn::python

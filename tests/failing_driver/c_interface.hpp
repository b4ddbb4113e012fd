// Scenarios of the C interface: its handles, its errors as errors of the library, and a problem of each
// operation.
#pragma once

#include <vkattn/vkattn.h>

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "c/tensors.hpp"
#include "failing_driver/scenario.hpp"
#include "support/c_problem.hpp"

namespace vkattn::tests {

/// A handle that is given back in the destructor.
template <class Handle, vkattn_result (*kDestroy)(Handle*)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() { (void)kDestroy(handle_); }
  [[nodiscard]] Handle* get() const { return handle_; }
  [[nodiscard]] Handle** target() { return &handle_; }

 private:
  Handle* handle_ = nullptr;
};
using OwnedDevice = Owned<vkattn_device, vkattn_device_release>;
using OwnedPlan = Owned<vkattn_plan, vkattn_plan_release>;
using OwnedBindings = Owned<vkattn_bindings, vkattn_bindings_destroy>;
using OwnedCache = Owned<vkattn_pipeline_cache, vkattn_pipeline_cache_destroy>;
using OwnedSelfTest = Owned<vkattn_self_test, vkattn_self_test_destroy>;
using OwnedSequence = Owned<vkattn_sequence, vkattn_sequence_destroy>;
using OwnedBudget = Owned<vkattn_frame_budget, vkattn_frame_budget_destroy>;
using OwnedScoreFunction = Owned<vkattn_score_function, vkattn_score_function_release>;

/// An operation, and the function that makes a plan of its small problem.
struct CPlanKind {
  std::string_view name;  ///< as in vkattn_plan_create_<name>
  std::function<vkattn_result(vkattn_device* device, const vkattn_plan_options* options, vkattn_plan** plan,
                              vkattn_error* error)>
      create;
  vkattn_plan_options tiles_in_parts;
};
[[nodiscard]] const std::vector<CPlanKind>& c_plan_kinds();
[[nodiscard]] const CPlanKind& c_plan_kind(std::string_view name);

/// A borrowed device, and the steps of scenarios with plans of any kind.
class InterfaceOnDevice : public Scenario {
 protected:
  InterfaceOnDevice() { create_device(device_.target()); }

  [[nodiscard]] static vkattn_physical_device physical_device();
  /// Ends the step with the error of a call that failed.
  void must_succeed(vkattn_result code) const;
  /// Ends the step if a call returns the size 0, as it does if memory is missing.
  static void must_be_told(std::size_t bytes);
  void create_device(vkattn_device** device);
  void create(std::string_view kind, const vkattn_plan_options& options, OwnedPlan& plan) {
    must_succeed(c_plan_kind(kind).create(device_.get(), &options, plan.target(), &error_));
  }
  /// Makes a plan, binds the tensors that it uses, and records it.
  void use(std::string_view kind, const vkattn_plan_options& options);
  using CTensors = std::array<vkattn_binding, c::kTensorNumbers>;
  /// An execution with the tensors that the plan uses. They are stored in `tensors`.
  [[nodiscard]] static vkattn_execution execution_of(const vkattn_plan* plan, CTensors& tensors);

  vkattn_error error_ = initial(vkattn_error_init);
  vkattn_enable_memory memory_{};
  OwnedDevice device_;
};

}  // namespace vkattn::tests

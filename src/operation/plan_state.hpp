// The members of every plan.
#pragma once

#include <vkattn/plan.hpp>

#include <memory>
#include <string>

#include "operation/operation.hpp"

namespace vkattn::detail {

struct PlanState {
  Shared<const DeviceState> device;
  PlanOptions options;  ///< as they were given
  std::unique_ptr<const Operation> operation;
  std::shared_ptr<const Program> program;
  TuningNote tuning{};

  [[nodiscard]] std::string describe() const;
  /// The line of missed_form(). Empty if the caller has named the kernel.
  [[nodiscard]] std::string missed_form() const;
};

/// The operation of a plan of this class.
template <class Plan>
[[nodiscard]] const TypedOperation<typename Plan::Desc, typename Plan::Tensors>& typed_operation(
    const PlanState& plan) {
  return static_cast<const TypedOperation<typename Plan::Desc, typename Plan::Tensors>&>(*plan.operation);
}

/// What a plan of the operation would be on a device of these capabilities.
[[nodiscard]] Result<Support> support_of(Operation& operation, const PlanOptions& options,
                                         const Capabilities& capabilities);

/// Makes a plan of an operation whose descriptor is valid.
[[nodiscard]] Result<Shared<const PlanState>> make_plan(const Device& device,
                                                        std::unique_ptr<Operation> operation,
                                                        const PlanOptions& options);

}  // namespace vkattn::detail

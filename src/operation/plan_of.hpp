// What plans of one operation have, for the one file that makes them: it says what OperationFor its
// descriptor is, and instantiates PlanOf of its plan.
#pragma once

#include <vkattn/plan.hpp>

#include <utility>

#include "common/message.hpp"
#include "operation/plan_state.hpp"

namespace vkattn {

namespace detail {

/// `Type` is the operation that computes what a descriptor says.
template <class Desc>
struct OperationFor;

template <class Desc>
[[nodiscard]] const auto& operation_of(const PlanState& plan) {
  return static_cast<const typename OperationFor<Desc>::Type&>(*plan.operation);
}

template <class Desc, class Tensors, class Use>
[[nodiscard]] auto with_call(const PlanState& plan, const Tensors& tensors, const BufferRange& workspace,
                             Use&& use) -> decltype(use(ProgramCall{})) {
  OperationCall call;
  if (Result<void> s = operation_of<Desc>(plan).add_tensors(tensors, call); !s) return s.error();
  return use(call.call(workspace));
}

/// Bytes of the tensor with that number, as PlanOf::range_bytes().
[[nodiscard]] inline VkDeviceSize range_bytes(const PlanState& plan, std::size_t tensor,
                                              VkDeviceSize offset) {
  const auto& tensors = plan.program->desc().tensors;
  return tensor < tensors.size() ? Program::range_bytes(tensors[tensor], offset) : 0;
}

}  // namespace detail

template <class Made, class Desc, class Tensors>
Result<Made> PlanOf<Made, Desc, Tensors>::create(const Device& device, const Desc& desc,
                                                 const PlanOptions& options) {
  return detail::without_exceptions([&]() -> Result<Made> {
    auto operation = detail::OperationFor<Desc>::Type::make(desc);
    if (!operation) return operation.error();
    auto state = detail::make_plan(device, *std::move(operation), options);
    if (!state) return state.error();
    return Made(*std::move(state));
  });
}

template <class Made, class Desc, class Tensors>
const Desc& PlanOf<Made, Desc, Tensors>::desc() const {
  return detail::operation_of<Desc>(state()).desc();
}

template <class Made, class Desc, class Tensors>
VkDeviceSize PlanOf<Made, Desc, Tensors>::range_bytes(BufferRange Tensors::*tensor,
                                                      VkDeviceSize offset) const {
  return detail::range_bytes(state(), detail::operation_of<Desc>(state()).tensor_index(tensor), offset);
}

template <class Made, class Desc, class Tensors>
Result<Bindings> PlanOf<Made, Desc, Tensors>::make_bindings(const Tensors& tensors,
                                                            const BufferRange& workspace,
                                                            VkDescriptorPool pool) const {
  return detail::without_exceptions([&] {
    return detail::with_call<Desc>(state(), tensors, workspace,
                                   [&](const detail::ProgramCall& call) -> Result<Bindings> {
                                     auto bindings = state().program->bind(call, pool);
                                     if (!bindings) return bindings.error();
                                     return Bindings(*std::move(bindings));
                                   });
  });
}

template <class Made, class Desc, class Tensors>
Result<void> PlanOf<Made, Desc, Tensors>::rewrite(Bindings& bindings, const Tensors& tensors,
                                                  const BufferRange& workspace) const {
  return detail::without_exceptions([&] {
    return detail::with_call<Desc>(state(), tensors, workspace, [&](const detail::ProgramCall& call) {
      return state().program->rewrite(bindings.state(), call);
    });
  });
}

template <class Made, class Desc, class Tensors>
Result<void> PlanOf<Made, Desc, Tensors>::record(VkCommandBuffer commands, const Tensors& tensors,
                                                 const BufferRange& workspace,
                                                 const RecordOptions& options) const {
  return detail::without_exceptions([&] {
    return detail::with_call<Desc>(state(), tensors, workspace, [&](const detail::ProgramCall& call) {
      return state().program->record(commands, call, options);
    });
  });
}

}  // namespace vkattn

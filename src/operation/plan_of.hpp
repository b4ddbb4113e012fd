// The functions of PlanOf. The file of an operation includes this one, says what OperationFor its descriptor
// is, and instantiates PlanOf of its plan.
#pragma once

#include <vkattn/plan.hpp>

#include <utility>

#include "common/message.hpp"
#include "operation/plan_state.hpp"

namespace vkattn {

namespace detail {

/// `Type` is the operation of a descriptor.
template <class Desc>
struct OperationFor;

/// The operation of a plan with its own class.
template <class Desc>
[[nodiscard]] const auto& operation_of(const PlanState& plan) {
  return static_cast<const typename OperationFor<Desc>::Type&>(*plan.operation);
}

/// The options of a plan as a whole.
/// @{
[[nodiscard]] inline const PlanOptions& plan_options(const PlanOptions& options) {
  return options;
}
template <class Options>
[[nodiscard]] PlanOptions plan_options(const Options& options) {
  return options.plan_options();
}
/// @}

template <class Plan, class Use>
[[nodiscard]] auto with_call(const PlanState& plan, const typename Plan::Tensors& tensors,
                             const BufferRange& workspace, Use&& use) -> decltype(use(ProgramCall{})) {
  OperationCall call;
  if (Result<void> s = typed_operation<Plan>(plan).add_tensors(tensors, call); !s) return s.error();
  return use(call.call(workspace));
}

/// Bytes of the tensor with this number, as PlanOf::range_bytes() gives them.
[[nodiscard]] inline VkDeviceSize range_bytes(const PlanState& plan, std::size_t tensor,
                                              VkDeviceSize offset) {
  const auto& tensors = plan.program->desc().tensors;
  return tensor < tensors.size() ? Program::range_bytes(tensors[tensor], offset) : 0;
}

}  // namespace detail

template <class Made, class Desc, class Tensors, class Options>
Result<Made> PlanOf<Made, Desc, Tensors, Options>::create(const Device& device, const Desc& desc,
                                                          const Options& options) {
  return detail::without_exceptions([&]() -> Result<Made> {
    auto operation = detail::OperationFor<Desc>::Type::make(device, desc, options);
    if (!operation) return operation.error();
    auto state = detail::make_plan(device, *std::move(operation), detail::plan_options(options));
    if (!state) return state.error();
    return Made(*std::move(state));
  });
}

template <class Made, class Desc, class Tensors, class Options>
Result<Support> PlanOf<Made, Desc, Tensors, Options>::supported(const Capabilities& capabilities,
                                                                const Desc& desc, const Options& options) {
  using Operation = typename detail::OperationFor<Desc>::Type;
  return detail::without_exceptions([&]() -> Result<Support> {
    if constexpr (requires { Operation::make(desc); }) {
      auto operation = Operation::make(desc);
      if (!operation) return operation.error();
      return detail::support_of(**operation, detail::plan_options(options), capabilities);
    } else {
      return detail::unsupported(
          "a layer is made of plans on a device: ask for its products, its attention "
          "and its appends one by one");
    }
  });
}

template <class Made, class Desc, class Tensors, class Options>
const Desc& PlanOf<Made, Desc, Tensors, Options>::desc() const {
  return detail::typed_operation<PlanOf>(state()).desc();
}

template <class Made, class Desc, class Tensors, class Options>
VkDeviceSize PlanOf<Made, Desc, Tensors, Options>::range_bytes(BufferRange Tensors::*tensor,
                                                               VkDeviceSize offset) const {
  return detail::range_bytes(state(), detail::typed_operation<PlanOf>(state()).tensor_index(tensor), offset);
}

template <class Made, class Desc, class Tensors, class Options>
Result<Bindings> PlanOf<Made, Desc, Tensors, Options>::make_bindings(const Tensors& tensors,
                                                                     const BufferRange& workspace,
                                                                     VkDescriptorPool pool) const {
  return detail::without_exceptions([&] {
    return detail::with_call<PlanOf>(state(), tensors, workspace,
                                     [&](const detail::ProgramCall& call) -> Result<Bindings> {
                                       auto bindings = state().program->bind(call, pool);
                                       if (!bindings) return bindings.error();
                                       return Bindings(*std::move(bindings));
                                     });
  });
}

template <class Made, class Desc, class Tensors, class Options>
Result<void> PlanOf<Made, Desc, Tensors, Options>::rewrite(Bindings& bindings, const Tensors& tensors,
                                                           const BufferRange& workspace) const {
  return detail::without_exceptions([&] {
    return detail::with_call<PlanOf>(state(), tensors, workspace, [&](const detail::ProgramCall& call) {
      return state().program->rewrite(bindings.state(), call);
    });
  });
}

template <class Made, class Desc, class Tensors, class Options>
Result<void> PlanOf<Made, Desc, Tensors, Options>::record(VkCommandBuffer commands, const Tensors& tensors,
                                                          const BufferRange& workspace,
                                                          const RecordOptions& options) const {
  return detail::without_exceptions([&] {
    return detail::with_call<PlanOf>(state(), tensors, workspace, [&](const detail::ProgramCall& call) {
      return state().program->record(commands, call, options);
    });
  });
}

}  // namespace vkattn

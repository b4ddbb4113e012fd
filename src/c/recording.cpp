// Tensors, bindings and recording in C.
#include <type_traits>
#include <utility>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

/// Calls `call` with the tensors of the plan's kind and the workspace.
template <class Plan, class Call>
Result<void> with_tensors(const Plan& /*plan*/, const vkattn_execution& given, const Call& call) {
  const auto tensors = c::tensors_of<Plan>(given);
  if (!tensors) return tensors.error();
  return call(*tensors, vkattn::BufferRange{given.workspace, given.workspace_offset, given.workspace_size});
}

}  // namespace

VkDeviceSize vkattn_plan_tensor_range(const vkattn_plan* plan, vkattn_tensor tensor, VkDeviceSize offset) {
  if (!c::is_alive(plan)) return 0;
  return std::visit([&](const auto& it) { return c::range_bytes(it, tensor, offset); }, plan->plan);
}

vkattn_result vkattn_bindings_create(vkattn_plan* plan, const vkattn_execution* execution,
                                     VkDescriptorPool pool, vkattn_bindings** bindings, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {bindings, "bindings"}}); !s) return s;
    *bindings = nullptr;
    const auto given = c::execution(execution);
    if (!given) return given.error();
    return std::visit(
        [&](const auto& it) {
          return with_tensors(it, *given, [&](const auto&... bound) -> Result<void> {
            auto made = it.make_bindings(bound..., pool);
            if (!made) return made.error();
            c::give(std::make_unique<vkattn_bindings>(vkattn_bindings{plan->plan, *std::move(made)}),
                    bindings);
            return {};
          });
        },
        plan->plan);
  });
}

vkattn_result vkattn_bindings_rewrite(vkattn_bindings* bindings, const vkattn_execution* execution,
                                      vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{bindings, "bindings"}}); !s) return s;
    const auto given = c::execution(execution);
    if (!given) return given.error();
    return std::visit(
        [&](const auto& it) {
          return with_tensors(it, *given,
                              [&](const auto&... bound) { return it.rewrite(bindings->bindings, bound...); });
        },
        bindings->plan);
  });
}

vkattn_result vkattn_bindings_destroy(vkattn_bindings* bindings) {
  return c::destroy(bindings);
}

vkattn_result vkattn_record(vkattn_plan* plan, VkCommandBuffer commands, const vkattn_bindings* bindings,
                            const vkattn_record_options* options, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {commands, "commands"}, {bindings, "bindings"}}); !s)
      return s;
    const auto how = c::record_options(options);
    if (!how) return how.error();
    const vkattn::Plan& it = c::plan_of(*plan);
    if (!it.has_made(bindings->bindings)) {
      return c::invalid("these bindings were made by another plan: record them with that one");
    }
    if (!it.is_compiled()) {
      return c::invalid("the plan is not compiled yet: call vkattn_plan_compile and wait for it");
    }
    it.record(commands, bindings->bindings, *how);
    return {};
  });
}

vkattn_result vkattn_record_push(vkattn_plan* plan, VkCommandBuffer commands,
                                 const vkattn_execution* execution, const vkattn_record_options* options,
                                 vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {commands, "commands"}}); !s) return s;
    const auto given = c::execution(execution);
    if (!given) return given.error();
    const auto how = c::record_options(options);
    if (!how) return how.error();
    return std::visit(
        [&](const auto& it) -> Result<void> {
          return with_tensors(it, *given,
                              [&](const auto&... bound) { return it.record(commands, bound..., *how); });
        },
        plan->plan);
  });
}

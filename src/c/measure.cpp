// Choices of kernels, and a driver's statistics, in C.
#include <algorithm>
#include <string_view>
#include <type_traits>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"

using vkattn::AttentionPlan;
using vkattn::Result;
namespace c = vkattn::c;

namespace {

vkattn_tile_sizes sizes_of(const vkattn::TileSizes& tile) {
  return {tile.threads, tile.subgroups, tile.columns, tile.rows, tile.keys, tile.dims};
}

/// Block sizes of the plan's kernel, or of its attention's; zeros for others.
vkattn_tile_sizes sizes_of(const vkattn_plan& plan) {
  if (const AttentionPlan* const attention = c::attention_of(plan)) return sizes_of(attention->tile());
#ifndef VKATTN_WITHOUT_BACKWARD
  if (const auto* const gradients = std::get_if<vkattn::BackwardPlan>(&plan.plan))
    return sizes_of(gradients->tile());
#endif
#ifndef VKATTN_WITHOUT_MATMUL
  const auto* const product = std::get_if<vkattn::MatmulPlan>(&plan.plan);
  if (product != nullptr) return c::tile_sizes(product->tile());
#endif
  return {};
}

vkattn_kernel_choice choice_of(std::string_view kernel, const vkattn_tile_sizes& tile) {
  vkattn_kernel_choice choice{{}, tile};
  c::copy_text(kernel, choice.kernel, sizeof(choice.kernel));
  return choice;
}

/// Sets *type to the answer of `ask` for a plan that has this type, or for a layer's attention. The error
/// names the operations that have one.
template <class Ask>
vkattn_result tell_type(const vkattn_plan* plan, vkattn_data_type* type, vkattn_error* error,
                        const char* name, const char* whose, const Ask& ask) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {type, "type"}}); !s) return s;
    const auto told = std::visit(
        [&](const auto& it) -> Result<vkattn::DataType> {
          if constexpr (requires { ask(it); }) {
            return ask(it);
          } else if constexpr (requires { it.attention(); }) {
            return ask(it.attention());
          } else {
            return c::invalid("there are no ", name, " of ", c::Kind<std::decay_t<decltype(it)>>::kName,
                              ", only of ", whose);
          }
        },
        plan->plan);
    if (!told) return told.error();
    *type = static_cast<vkattn_data_type>(*told);
    return {};
  });
}

vkattn_dispatch dispatch_of(const vkattn::DispatchInfo& info) {
  vkattn_dispatch dispatch{{}, info.first_tile, info.tile_count, info.estimated_ns, {}, 0};
  c::copy_text(info.pass, dispatch.pass, sizeof(dispatch.pass));
  std::copy_n(info.workgroups, 3, dispatch.workgroups);
  return dispatch;
}

vkattn_pipeline pipeline_of(const vkattn::PipelineInfo& info) {
  vkattn_pipeline pipeline{{}, {}, info.workgroup_size, 0};
  c::copy_text(info.pass, pipeline.pass, sizeof(pipeline.pass));
  c::copy_text(info.shader, pipeline.shader, sizeof(pipeline.shader));
  return pipeline;
}

/// Fills `kernels` with what kernel_support() says of a problem that `convert` makes of `desc`.
template <class Desc, class Convert>
vkattn_result query_kernels(const vkattn_device* device, const Desc* desc, const Convert& convert,
                            vkattn_kernel_support* kernels, uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {count, "count"}}); !s) return s;
    const auto problem = convert(desc);
    if (!problem) return problem.error();
    if (const auto valid = validate(*problem); !valid) return valid.error();
    const auto all = kernel_support(*problem, device->device.capabilities());
    c::copy_list(all, kernels, count, [](const vkattn::KernelSupport& each) {
      vkattn_kernel_support support{};
      c::copy_text(each.kernel, support.kernel, sizeof(support.kernel));
      c::copy_text(each.reason, support.reason, sizeof(support.reason));
      return support;
    });
    return {};
  });
}

}  // namespace

vkattn_result vkattn_query_kernels_attention(const vkattn_device* device, const vkattn_attention_desc* desc,
                                             vkattn_kernel_support* kernels, uint32_t* count,
                                             vkattn_error* error) {
  return query_kernels(device, desc, c::attention_desc, kernels, count, error);
}

#ifndef VKATTN_WITHOUT_BACKWARD
vkattn_result vkattn_query_kernels_backward(const vkattn_device* device, const vkattn_backward_desc* desc,
                                            vkattn_kernel_support* kernels, uint32_t* count,
                                            vkattn_error* error) {
  return query_kernels(device, desc, c::backward_desc, kernels, count, error);
}
#endif

#ifndef VKATTN_WITHOUT_MATMUL
vkattn_result vkattn_query_kernels_matmul(const vkattn_device* device, const vkattn_matmul_desc* desc,
                                          vkattn_kernel_support* kernels, uint32_t* count,
                                          vkattn_error* error) {
  return query_kernels(device, desc, c::matmul_desc, kernels, count, error);
}
#endif

vkattn_result vkattn_query_choices(const vkattn_device* device, const vkattn_attention_desc* desc,
                                   vkattn_kernel_choice* choices, uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {count, "count"}}); !s) return s;
    const auto problem = c::attention_desc(desc);
    if (!problem) return problem.error();
    const auto valid = vkattn::validate(*problem);
    if (!valid) return valid.error();
    const auto all = vkattn::tuning_candidates(*problem, device->device.capabilities());
    c::copy_list(all, choices, count,
                 [](const auto& each) { return choice_of(each.kernel, sizes_of(each.tile)); });
    return {};
  });
}

vkattn_result vkattn_plan_get_choice(const vkattn_plan* plan, vkattn_kernel_choice* choice,
                                     vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {choice, "choice"}}); !s) return s;
    *choice = choice_of(c::kernel_plan(*plan).kernel_name(), sizes_of(*plan));
    return {};
  });
}

vkattn_result vkattn_plan_get_probability_type(const vkattn_plan* plan, vkattn_data_type* type,
                                               vkattn_error* error) {
  return tell_type(plan, type, error, "probability types", "attention and gradients of it",
                   [](const auto& it) -> decltype(it.probability_type()) { return it.probability_type(); });
}

vkattn_result vkattn_plan_get_arithmetic_type(const vkattn_plan* plan, vkattn_data_type* type,
                                              vkattn_error* error) {
  return tell_type(plan, type, error, "arithmetic types", "attention",
                   [](const auto& it) -> decltype(it.arithmetic_type()) { return it.arithmetic_type(); });
}

vkattn_result vkattn_plan_get_pipelines(const vkattn_plan* plan, vkattn_pipeline* pipelines, uint32_t* count,
                                        vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {count, "count"}}); !s) return s;
    c::copy_list(c::plan_of(*plan).pipelines(), pipelines, count, pipeline_of);
    return {};
  });
}

vkattn_result vkattn_plan_get_memory(const vkattn_plan* plan, vkattn_memory* memory, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}}); !s) return s;
    const auto given = c::read(memory, vkattn_memory_init, "vkattn_memory");
    if (!given) return given.error();
    const auto told = c::plan_of(*plan).memory();
    if (!told) return told.error();
    vkattn_memory all = *given;
    all.workspace_bytes = told->workspace_bytes;
    all.parameter_bytes = told->parameter_bytes;
    all.spirv_bytes = told->spirv_bytes;
    all.code_bytes = told->code_bytes;
    all.total_bytes = told->total_bytes();
    all.pipelines = told->pipelines;
    c::write_back(all, memory);
    return {};
  });
}

vkattn_result vkattn_plan_get_dispatches(const vkattn_plan* plan, vkattn_dispatch* dispatches,
                                         uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {count, "count"}}); !s) return s;
    c::copy_list(c::plan_of(*plan).dispatches(), dispatches, count, dispatch_of);
    return {};
  });
}

vkattn_result vkattn_plan_get_estimates(const vkattn_plan* plan, double* estimates, uint32_t* count,
                                        vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {count, "count"}}); !s) return s;
    c::copy_list(c::plan_of(*plan).dispatches(), estimates, count,
                 [](const vkattn::DispatchInfo& info) { return info.estimated_ns; });
    return {};
  });
}

vkattn_result vkattn_plan_get_statistics(const vkattn_plan* plan, vkattn_statistic* statistics,
                                         uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {count, "count"}}); !s) return s;
    const auto told = c::plan_of(*plan).statistics();
    if (!told) return told.error();
    std::uint32_t all = 0;
    for (const vkattn::PipelineStatistics& pipeline : *told) {
      for (const vkattn::PipelineStatistics::Entry& entry : pipeline.entries) {
        if (statistics != nullptr && all < *count) {
          vkattn_statistic& target = statistics[all];
          target = {{}, {}, entry.value, pipeline.subgroup_size, 0};
          c::copy_text(pipeline.pipeline, target.pipeline, sizeof(target.pipeline));
          c::copy_text(entry.name, target.name, sizeof(target.name));
        }
        ++all;
      }
    }
    *count = all;
    return {};
  });
}

vkattn_result vkattn_plan_get_block_mask_layout(const vkattn_plan* plan, vkattn_block_mask_layout* layout,
                                                vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {layout, "layout"}}); !s) return s;
    const AttentionPlan* const attention = c::attention_of(*plan);
    const auto has = attention != nullptr ? attention->block_mask_layout() : std::nullopt;
    const vkattn::BlockMaskLayout it = has.value_or(vkattn::BlockMaskLayout{});
    *layout = {it.rows, it.keys, it.batch_stride, it.head_stride, it.row_stride};
    return {};
  });
}

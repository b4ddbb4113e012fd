// Steps and parameters of a layer in C.
#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <vector>

#include "c/convert.hpp"
#include "c/enumerators.hpp"
#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "common/checked.hpp"

using vkattn::Result;
namespace c = vkattn::c;

namespace {

/// Handles for the caller. They are taken back if not all of them can be made.
struct StepHandles {
  std::vector<vkattn_plan*> all;

  StepHandles() = default;
  StepHandles(const StepHandles&) = delete;
  StepHandles& operator=(const StepHandles&) = delete;
  ~StepHandles() {
    for (vkattn_plan* const plan : all) (void)c::release(plan);
  }
};

// By the place of a kind of plan in vkattn::LayerStep.
constexpr std::array<vkattn_step_kind, 4> kStepKinds{VKATTN_STEP_KIND_MATMUL, VKATTN_STEP_KIND_ATTENTION,
                                                     VKATTN_STEP_KIND_BACKWARD, VKATTN_STEP_KIND_APPEND};

}  // namespace

vkattn_result vkattn_plan_get_steps(const vkattn_plan* plan, vkattn_layer_step* steps, uint32_t* count,
                                    vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{plan, "plan"}, {count, "count"}}); !s) return s;
    const auto made = std::visit(
        [](const auto& it) -> Result<std::vector<vkattn::LayerStep>> {
          if constexpr (requires { it.steps(); }) {
            return it.steps();
          } else {
            return c::invalid("only a layer and its gradients have steps");
          }
        },
        plan->plan);
    if (!made) return made.error();
    StepHandles handles;
    handles.all.resize(steps == nullptr ? 0 : std::min<std::size_t>(*count, made->size()));
    for (std::size_t i = 0; i < handles.all.size(); ++i) {
      const auto handle = [](const auto& it) { return std::make_unique<vkattn_plan>(it); };
      c::give(std::visit(handle, (*made)[i].plan), &handles.all[i]);
    }
    for (std::size_t i = 0; i < handles.all.size(); ++i) {
      const vkattn::LayerStep& step = (*made)[i];
      steps[i] = {{}, handles.all[i], kStepKinds[step.plan.index()], 0};
      c::copy_text(step.name, steps[i].name, sizeof(steps[i].name));
    }
    handles.all.clear();
    *count = static_cast<std::uint32_t>(made->size());
    return {};
  });
}

vkattn_result vkattn_query_parameters(const vkattn_multi_head_attention_desc* desc,
                                      vkattn_parameter* parameters, uint32_t* count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{count, "count"}}); !s) return s;
    const auto layer = c::multi_head_attention_desc(desc);
    if (!layer) return layer.error();
    if (Result<void> s = vkattn::validate(*layer); !s) return s;
    c::copy_list(vkattn::parameters(*layer), parameters, count, [](const vkattn::ParameterShape& shape) {
      const c::ParameterNumbers numbers = c::numbers_of(shape.range);
      // The names are literals, which end in a 0.
      return vkattn_parameter{shape.name.data(), numbers.tensor, numbers.gradient, shape.rows, shape.columns};
    });
    return {};
  });
}

vkattn_result vkattn_initial_values(const vkattn_parameter* parameter, vkattn_initialisation how,
                                    uint64_t seed, float* values, size_t count, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{parameter, "parameter"}}); !s) return s;
    if (Result<void> s = c::check_list(values, count, "values"); !s) return s;
    const auto initialisation = c::enumerator<vkattn::Initialisation>(how, "how");
    if (!initialisation) return initialisation.error();
    const std::int64_t rows = parameter->rows, columns = parameter->columns;
    if (rows < 0 || columns < 0) {
      return c::invalid("a parameter cannot have ", rows, " rows and ", columns, " columns");
    }
    const std::int64_t elements = columns == 0 ? rows : vkattn::detail::saturating_multiply(rows, columns);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    if (elements == kMost || static_cast<std::uint64_t>(elements) != count) {
      return c::invalid("the parameter has ", elements == kMost ? "at least " : "", elements,
                        " elements, but count is ", count,
                        ": give rows * columns, or rows where columns is 0");
    }
    const std::string_view parameter_name = parameter->name == nullptr ? "" : parameter->name;
    vkattn::initial_values({parameter_name, nullptr, rows, columns}, *initialisation, seed, {values, count});
    return {};
  });
}

// Scenarios of the C interface: the calls of C++ with codes, sentences and handles of C.
#include <vkattn/vkattn.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "failing_driver/c_interface.hpp"
#include "failing_driver/host_memory.hpp"

namespace vkattn::tests {

namespace {

vkattn_plan_options compiled_later() {
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  return options;
}

class Interface : public InterfaceOnDevice {
 public:
  Interface() {
    step("vkattn_query_wanted", [this] {
      const vkattn_physical_device physical = physical_device();
      std::array<vkattn_wanted_feature, 64> all{};
      std::uint32_t count = all.size();
      must_succeed(vkattn_query_wanted(&physical, all.data(), &count, &error_));
    });
    step("vkattn_device_create", [this] {
      OwnedDevice device;
      create_device(device.target());
    });
    step("pipeline cache", [this] {
      OwnedCache cache;
      std::array<char, 64> ignored{};
      must_succeed(vkattn_pipeline_cache_create(device_.get(), nullptr, 0, ignored.data(), ignored.size(),
                                                cache.target(), &error_));
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.pipeline_cache = vkattn_pipeline_cache_handle(cache.get());
      use("merge", options);
      std::array<std::byte, 256> blob{};
      std::size_t bytes = blob.size();
      must_succeed(vkattn_pipeline_cache_save(cache.get(), blob.data(), &bytes, &error_));
    });
  }
};

/// Questions to a device, and about a layer that has no plan yet.
class InterfaceAnswers : public InterfaceOnDevice {
 public:
  InterfaceAnswers() {
    step("vkattn_device_describe", [this] {
      std::array<char, 64> text{};
      must_be_told(vkattn_device_describe(device_.get(), text.data(), text.size()));
    });
    step("vkattn_device_retain", [this] {
      must_succeed(vkattn_device_retain(device_.get()));
      must_succeed(vkattn_device_release(device_.get()));
    });
    step("vkattn_query_choices", [this] {
      std::array<vkattn_kernel_choice, 4> choices{};
      std::uint32_t count = choices.size();
      must_succeed(
          vkattn_query_choices(device_.get(), &attention_.structure, choices.data(), &count, &error_));
    });
    step("vkattn_query_kernels_attention", [this] {
      std::array<vkattn_kernel_support, 8> kernels{};
      std::uint32_t count = kernels.size();
      must_succeed(vkattn_query_kernels_attention(device_.get(), &attention_.structure, kernels.data(),
                                                  &count, &error_));
    });
    step("vkattn_query_parameters", [this] {
      std::array<vkattn_parameter, 8> parameters{};
      std::uint32_t count = parameters.size();
      must_succeed(vkattn_query_parameters(&layer_.structure, parameters.data(), &count, &error_));
      std::array<float, 32> values{};
      parameters[0].rows = 4;
      parameters[0].columns = 8;
      must_succeed(vkattn_initial_values(parameters.data(), VKATTN_INITIALISATION_HE_NORMAL, 1, values.data(),
                                         values.size(), &error_));
    });
  }

 private:
  CProblem<AttentionDesc> attention_{small_attention()};
  CProblem<MultiHeadAttentionDesc> layer_{small_layer()};
};

class InterfaceSelfTest : public InterfaceOnDevice {
 public:
  InterfaceSelfTest() {
    create("attention", c_plan_kind("attention").tiles_in_parts, plan_);
    step("self-test", [this] {
      OwnedSelfTest test;
      must_succeed(
          vkattn_self_test_create(device_.get(), plan_.get(), VK_NULL_HANDLE, test.target(), &error_));
      {
        const UncountedMemory ours;
        memory_.resize(static_cast<std::size_t>(vkattn_self_test_buffer_bytes(test.get())));
      }
      must_succeed(vkattn_self_test_fill(test.get(), memory_.data(), memory_.size(), &error_));
      must_succeed(
          vkattn_self_test_record(test.get(), made_up_commands(), made_up_buffer(1).buffer, 0, &error_));
      std::array<char, 64> difference{};
      must_succeed(vkattn_self_test_check(test.get(), memory_.data(), memory_.size(), difference.data(),
                                          difference.size(), &error_));
      if (difference.front() == 0)
        throw Failed{{ErrorCode::kIo, 0, "nothing was computed, and all is right"}};
    });
  }

 private:
  OwnedPlan plan_;
  std::vector<std::byte> memory_;
};

/// Every question to a plan of one kind. A question that only other kinds answer is refused.
class InterfaceAsking : public InterfaceOnDevice {
 public:
  explicit InterfaceAsking(std::string_view kind) : kind_(c_plan_kind(kind)) {
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.capture_statistics = 1;
    create(kind, options, plan_);
    step("texts", [this] {
      std::array<char, 64> text{};
      must_be_told(vkattn_plan_describe(plan_.get(), text.data(), text.size()));
      must_be_told(vkattn_plan_get_configuration(plan_.get(), text.data(), text.size()));
      // It answers 1 if memory is missing, because a needless test does no harm.
      (void)vkattn_plan_needs_self_test(plan_.get());
    });
    step("lists", [this] { ask_for_lists(); });
    step("answers", [this] { ask_for_answers(); });
    step("frame budget", [this] { deal_out(); });
  }

 private:
  template <class Item>
  void ask_list(vkattn_result (*get)(const vkattn_plan*, Item*, std::uint32_t*, vkattn_error*)) {
    std::array<Item, 2> items{};
    std::uint32_t count = items.size();
    must_succeed(get(plan_.get(), items.data(), &count, &error_));
  }

  void ask_for_lists() {
    ask_list(vkattn_plan_get_dispatches);
    ask_list(vkattn_plan_get_estimates);
    ask_list(vkattn_plan_get_pipelines);
    ask_list(vkattn_plan_get_statistics);
  }

  void ask_for_answers() {
    vkattn_requirements requirements = initial(vkattn_requirements_init);
    must_succeed(vkattn_plan_get_requirements(plan_.get(), &requirements, &error_));
    vkattn_kernel_choice choice{};
    must_succeed(vkattn_plan_get_choice(plan_.get(), &choice, &error_));
    vkattn_data_type type = 0;
    const std::string_view kind = kind_.name;
    const bool is_forward = kind == "attention" || kind == "multi_head_attention";
    must_be(is_forward || kind == "backward", vkattn_plan_get_probability_type(plan_.get(), &type, &error_));
    must_be(is_forward, vkattn_plan_get_arithmetic_type(plan_.get(), &type, &error_));
    vkattn_block_mask_layout layout{};
    must_succeed(vkattn_plan_get_block_mask_layout(plan_.get(), &layout, &error_));
    must_succeed(vkattn_plan_retain(plan_.get()));
    must_succeed(vkattn_plan_release(plan_.get()));
  }

  void deal_out() {
    OwnedBudget budget;
    must_succeed(vkattn_frame_budget_create(plan_.get(), budget.target(), &error_));
    vkattn_record_options slice = initial(vkattn_record_options_init);
    while (vkattn_frame_budget_is_done(budget.get()) == 0) {
      must_succeed(vkattn_frame_budget_next(budget.get(), 1e6, &slice, &error_));
      if (vkattn_frame_budget_estimate(budget.get(), &slice) < 0) must_be_told(0);
      must_succeed(vkattn_frame_budget_measured(budget.get(), &slice, 1e5, &error_));
    }
    must_succeed(vkattn_frame_budget_restart(budget.get()));
  }

  /// Checks that the call succeeds, or is refused because this kind of plan cannot answer it.
  void must_be(bool has_it, vkattn_result code) const {
    if (!has_it && code == VKATTN_SUCCESS) throw Failed{{ErrorCode::kIo, 0, "it has what it cannot have"}};
    if (has_it || code != VKATTN_ERROR_INVALID_ARGUMENT) must_succeed(code);
  }

  const CPlanKind& kind_;
  OwnedPlan plan_;
};

/// Plans that are compiled after they were made, one by one and many at once, and are recorded without
/// bindings.
class InterfaceLater : public InterfaceOnDevice {
 public:
  explicit InterfaceLater(std::string_view kind) : kind_(c_plan_kind(kind)) {
    step("vkattn_plan_compile", [this] {
      OwnedPlan plan;
      create(kind_.name, compiled_later(), plan);
      const vkattn_result code = vkattn_plan_compile(plan.get(), &error_);
      if ((vkattn_plan_is_compiled(plan.get()) == 1) != (code == VKATTN_SUCCESS)) {
        throw Failed{{ErrorCode::kIo, 0, "compiled or not, it says the other"}};
      }
      must_succeed(code);
    });
    step("vkattn_prewarm", [this] {
      OwnedPlan one, other;
      create(kind_.name, compiled_later(), one);
      create("merge", compiled_later(), other);
      const std::array<vkattn_plan*, 2> plans{one.get(), other.get()};
      must_succeed(vkattn_prewarm(
          plans.data(), static_cast<std::uint32_t>(plans.size()),
          [](void* /*user*/, vkattn_job job, void* data) { job(data); }, nullptr, &error_));
    });
    step("vkattn_record_push", [this] {
      vkattn_plan_options options = initial(vkattn_plan_options_init);
      options.push_descriptors = 1;
      OwnedPlan plan;
      create(kind_.name, options, plan);
      CTensors tensors{};
      const vkattn_execution execution = execution_of(plan.get(), tensors);
      must_succeed(vkattn_record_push(plan.get(), made_up_commands(), &execution, nullptr, &error_));
    });
  }

 private:
  const CPlanKind& kind_;
};

class InterfaceUsing : public InterfaceOnDevice {
 public:
  explicit InterfaceUsing(std::string_view name) {
    const CPlanKind& kind = c_plan_kind(name);
    step("create, bind and record", [this, &kind] { use(kind.name, kind.tiles_in_parts); });
  }
};

class InterfaceSteps : public InterfaceOnDevice {
 public:
  InterfaceSteps() {
    step("steps of a layer", [this] {
      OwnedPlan plan;
      create("multi_head_attention", compiled_later(), plan);
      std::array<vkattn_layer_step, 8> steps{};
      auto count = static_cast<std::uint32_t>(steps.size());
      const vkattn_result given = vkattn_plan_get_steps(plan.get(), steps.data(), &count, &error_);
      for (const vkattn_layer_step& step : steps) (void)vkattn_plan_release(step.plan);
      must_succeed(given);
    });
  }
};

}  // namespace

std::vector<ScenarioRow> c_interface_scenarios() {
  const std::set<std::string> got_over{"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets"};
  std::set<std::string> by_next_kernel = got_over;
  by_next_kernel.insert({"vkCreateComputePipelines", "vkCreateShaderModule"});
  std::vector<ScenarioRow> rows{row<Interface>("CInterface", got_over),
                                row<InterfaceAnswers>("CInterfaceAnswers", {}),
                                row<InterfaceSelfTest>("CInterfaceSelfTest", got_over),
                                row<InterfaceSteps>("CInterfaceSteps", by_next_kernel)};
  for (const CPlanKind& kind : c_plan_kinds()) {
    std::string name(kind.name);
    std::erase(name, '_');
    name.front() = static_cast<char>(name.front() - 'a' + 'A');
    rows.push_back(row<InterfaceUsing>("CInterfaceUse" + name, got_over, kind.name));
    rows.push_back(row<InterfaceAsking>("CInterfaceAsk" + name, {}, kind.name));
    rows.push_back(row<InterfaceLater>("CInterfaceLater" + name, by_next_kernel, kind.name));
  }
  return rows;
}

}  // namespace vkattn::tests

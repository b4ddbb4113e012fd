// The C interface on a device: the plans that a layer is made of, which are tested one by one.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

class CInterfaceSteps : public CInterfaceTest {
 protected:
  void SetUp() override {
    CInterfaceTest::SetUp();
    attention_ = heads();
    layer_ = layer_of(attention_);
    layer_.saves_for_gradients = 1;
    layer_.type = VKATTN_DATA_TYPE_FLOAT16;
    layer_.rotary_style = VKATTN_ROTARY_STYLE_HALF_SPLIT;
    layer_.rotary_dims = 8;
    backward_.forward = &layer_;
    options_.deferred_compilation = 1;
  }
  /// Both passes, to be released by the caller.
  [[nodiscard]] vkattn_plan* forward() {
    vkattn_plan* plan = nullptr;
    EXPECT_EQ(vkattn_plan_create_multi_head_attention(device_, &layer_, &options_, &plan, &error_),
              VKATTN_SUCCESS)
        << error_.message;
    return plan;
  }
  [[nodiscard]] vkattn_plan* backward() {
    vkattn_plan* plan = nullptr;
    EXPECT_EQ(
        vkattn_plan_create_multi_head_attention_backward(device_, &backward_, &options_, &plan, &error_),
        VKATTN_SUCCESS)
        << error_.message;
    return plan;
  }
  /// All steps of a plan, to be released by the caller.
  [[nodiscard]] std::vector<vkattn_layer_step> steps_of(const vkattn_plan* plan) {
    std::uint32_t count = 0;
    EXPECT_EQ(vkattn_plan_get_steps(plan, nullptr, &count, &error_), VKATTN_SUCCESS) << error_.message;
    std::vector<vkattn_layer_step> steps(count);
    EXPECT_EQ(vkattn_plan_get_steps(plan, steps.data(), &count, &error_), VKATTN_SUCCESS) << error_.message;
    EXPECT_EQ(count, steps.size());
    return steps;
  }
  static void release(const std::vector<vkattn_layer_step>& steps) {
    for (const vkattn_layer_step& step : steps) EXPECT_EQ(vkattn_plan_release(step.plan), VKATTN_SUCCESS);
  }
  static std::string configuration_of(const vkattn_plan* plan) {
    std::string text(vkattn_plan_get_configuration(plan, nullptr, 0), ' ');
    (void)vkattn_plan_get_configuration(plan, text.data(), text.size());
    return text;
  }
  /// The kernel of each kind of step that has one, each once.
  [[nodiscard]] std::map<vkattn_step_kind, std::set<std::string>> kernels_of(vkattn_plan* plan) {
    std::map<vkattn_step_kind, std::set<std::string>> kernels;
    const std::vector<vkattn_layer_step> steps = steps_of(plan);
    for (const vkattn_layer_step& step : steps) {
      if (step.kind == VKATTN_STEP_KIND_APPEND) continue;
      vkattn_kernel_choice choice{};
      EXPECT_EQ(vkattn_plan_get_choice(step.plan, &choice, &error_), VKATTN_SUCCESS) << error_.message;
      kernels[step.kind].insert(choice.kernel);
    }
    release(steps);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
    return kernels;
  }

  vkattn_attention_desc attention_{};
  vkattn_multi_head_attention_desc layer_{};
  vkattn_multi_head_attention_backward_desc backward_ =
      initial(vkattn_multi_head_attention_backward_desc_init);
  vkattn_plan_options options_ = initial(vkattn_plan_options_init);
};

TEST_F(CInterfaceSteps, EachIsTestedByItself) {
  const UnrolledLoops unrolled;
  std::set<std::string> tested;
  for (vkattn_plan* const layer : {forward(), backward()}) {
    const std::vector<vkattn_layer_step> steps = steps_of(layer);
    std::string described(vkattn_plan_describe(layer, nullptr, 0), ' ');
    (void)vkattn_plan_describe(layer, described.data(), described.size());
    bool is_needed = false;
    std::size_t at = 0;
    for (const vkattn_layer_step& step : steps) {
      SCOPED_TRACE(step.name);
      at = described.find(step.name, at);
      ASSERT_NE(at, std::string::npos) << "in the order of the description: " << described;
      is_needed = is_needed || vkattn_plan_needs_self_test(step.plan) != 0;
    }
    EXPECT_EQ(vkattn_plan_needs_self_test(layer) != 0, is_needed);
    vkattn_self_test* test = nullptr;
    EXPECT_EQ(vkattn_self_test_create(device_, layer, VK_NULL_HANDLE, &test, &error_),
              VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error_.message, "vkattn_plan_get_steps"), nullptr) << error_.message;
    EXPECT_EQ(vkattn_plan_release(layer), VKATTN_SUCCESS) << "its steps are left";
    for (const vkattn_layer_step& step : steps) {
      SCOPED_TRACE(step.name);
      if (step.kind == VKATTN_STEP_KIND_APPEND) {
        EXPECT_EQ(vkattn_self_test_create(device_, step.plan, VK_NULL_HANDLE, &test, &error_),
                  VKATTN_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(std::strstr(error_.message, "self-tests"), nullptr) << error_.message;
      } else if (tested.insert(configuration_of(step.plan)).second) {
        expect_self_test_tells(step.plan);
      }
    }
    release(steps);
  }
}

TEST_F(CInterfaceSteps, OnMatrixUnitsNeedTheirTests) {
  layer_.rotary_style = VKATTN_ROTARY_STYLE_NONE;
  layer_.rotary_dims = 0;
  options_.kernel = options_.matmul_kernel = "matrix";
  vkattn_plan* layer = nullptr;
  const vkattn_result made =
      vkattn_plan_create_multi_head_attention(device_, &layer_, &options_, &layer, &error_);
  if (made == VKATTN_ERROR_UNSUPPORTED) GTEST_SKIP() << error_.message;
  ASSERT_EQ(made, VKATTN_SUCCESS) << error_.message;
  EXPECT_EQ(vkattn_plan_needs_self_test(layer), 1U);
  const std::vector<vkattn_layer_step> steps = steps_of(layer);
  EXPECT_EQ(steps.size(), 3U);
  for (const vkattn_layer_step& step : steps) {
    EXPECT_EQ(vkattn_plan_needs_self_test(step.plan), 1U) << step.name;
  }
  release(steps);
  EXPECT_EQ(vkattn_plan_release(layer), VKATTN_SUCCESS);
  // One step is enough.
  options_.kernel = "tile";
  layer = forward();
  EXPECT_EQ(vkattn_plan_needs_self_test(layer), 1U);
  EXPECT_EQ(vkattn_plan_release(layer), VKATTN_SUCCESS);
}

TEST_F(CInterfaceSteps, AreThoseOfCppInTheirOrder) {
  const auto expect_same = [&](vkattn_plan* c_plan, const std::vector<LayerStep>& steps) {
    const std::vector<vkattn_layer_step> c_steps = steps_of(c_plan);
    ASSERT_EQ(c_steps.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      EXPECT_EQ(c_steps[i].name, steps[i].name);
      const std::string named = configuration_of(c_steps[i].plan).c_str();
      std::visit(
          [&](const auto& plan) {
            using Plan = std::decay_t<decltype(plan)>;
            EXPECT_TRUE(std::holds_alternative<Plan>(c_steps[i].plan->plan));
            if constexpr (requires { plan.configuration(); }) {
              EXPECT_EQ(named, plan.configuration());
            }
          },
          steps[i].plan);
    }
    release(c_steps);
    EXPECT_EQ(vkattn_plan_release(c_plan), VKATTN_SUCCESS);
  };
  MultiHeadAttentionOptions options;
  options.deferred_compilation = true;
  const MultiHeadAttentionDesc desc = c::multi_head_attention_desc(&layer_).value();
  const auto plan = MultiHeadAttentionPlan::create(runtime().device(), desc, options);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  expect_same(forward(), plan->steps());
  const auto gradients =
      MultiHeadAttentionBackwardPlan::create(runtime().device(), {.forward = desc}, options);
  ASSERT_TRUE(gradients.ok()) << gradients.error().message;
  expect_same(backward(), gradients->steps());
}

// What a step's test finds wrong is refused for what the step computes, and for nothing else.
TEST_F(CInterfaceSteps, KernelsAreRefusedByWhatTheyCompute) {
  const auto of_forward = kernels_of(forward()), of_backward = kernels_of(backward());
  for (const auto& [kind, kernels] : of_backward) {
    if (kernels.size() != 1U)
      GTEST_SKIP() << "steps of kind " << kind << " have several kernels on this device";
  }
  const std::string product = *of_forward.at(VKATTN_STEP_KIND_MATMUL).begin();
  const std::string gradients = *of_backward.at(VKATTN_STEP_KIND_BACKWARD).begin();
  const vkattn_kernel_refusal wrong_product{product.c_str(), "was wrong"};
  const vkattn_kernel_refusal wrong_gradients{gradients.c_str(), "was wrong"};
  options_.matmul_refusals = &wrong_product;
  options_.matmul_refusal_count = 1;
  auto now = kernels_of(forward());
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_MATMUL).count(product), 0U);
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_ATTENTION), of_forward.at(VKATTN_STEP_KIND_ATTENTION));
  now = kernels_of(backward());
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_MATMUL).count(product), 0U);
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_BACKWARD), of_backward.at(VKATTN_STEP_KIND_BACKWARD));
  options_.matmul_refusal_count = 0;
  options_.backward_refusals = &wrong_gradients;
  options_.backward_refusal_count = 1;
  now = kernels_of(backward());
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_MATMUL), of_backward.at(VKATTN_STEP_KIND_MATMUL));
  EXPECT_EQ(now.at(VKATTN_STEP_KIND_BACKWARD).count(gradients), 0U);
}

TEST_F(CInterfaceSteps, MistakesAreRefusedByName) {
  vkattn_plan* const layer = forward();
  // As many handles as there is room for.
  const std::vector<vkattn_layer_step> all = steps_of(layer);
  std::vector<vkattn_layer_step> some(2);
  some[1].plan = layer;
  std::uint32_t count = 1;
  EXPECT_EQ(vkattn_plan_get_steps(layer, some.data(), &count, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(count, all.size());
  release(all);
  EXPECT_EQ(some[1].plan, layer);
  EXPECT_EQ(vkattn_plan_get_steps(some[0].plan, nullptr, &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "only a layer and its gradients have steps");
  EXPECT_EQ(vkattn_plan_release(some[0].plan), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_get_steps(nullptr, nullptr, &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "plan is null");
  EXPECT_EQ(vkattn_plan_get_steps(layer, nullptr, nullptr, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "count is null");
  EXPECT_EQ(vkattn_plan_release(layer), VKATTN_SUCCESS);
  vkattn_plan* none = nullptr;
  const auto expect_refused = [&](const char* words) {
    EXPECT_EQ(
        vkattn_plan_create_multi_head_attention_backward(device_, &backward_, &options_, &none, &error_),
        VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(error_.message, words), nullptr) << error_.message;
  };
  options_.matmul_refusal_count = 1;
  expect_refused("vkattn_plan_options::matmul_refusals is null, but its count is 1");
  const vkattn_kernel_refusal unknown{"tiles", "was wrong"};
  options_.matmul_refusals = &unknown;
  expect_refused("matmul_refusals[0] names 'tiles'");
  options_.matmul_refusal_count = 0;
  options_.backward_refusal_count = 1;
  expect_refused("vkattn_plan_options::backward_refusals is null, but its count is 1");
  options_.backward_refusals = &unknown;
  expect_refused("backward_refusals[0] names 'tiles'");
  EXPECT_EQ(vkattn_plan_create_multi_head_attention(device_, &layer_, &options_, &none, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT)
      << "the forward pass has no use for them, but options are often the same for both";
  EXPECT_NE(std::strstr(error_.message, "backward_refusals[0]"), nullptr) << error_.message;
  options_.backward_refusal_count = 0;
  options_.refusal_count = 1;
  options_.refusals = &unknown;
  expect_refused("refusals[0] names 'tiles'");
  EXPECT_EQ(std::strstr(error_.message, "_refusals"), nullptr) << error_.message;
}

}  // namespace
}  // namespace vkattn::tests

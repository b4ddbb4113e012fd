// The C interface on a device: the plans that a layer is made of, each with its own self-test.
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
  [[nodiscard]] OwnedPlan forward() {
    return plan_of(vkattn_plan_create_multi_head_attention, layer_, &options_);
  }
  [[nodiscard]] OwnedPlan backward() {
    return plan_of(vkattn_plan_create_multi_head_attention_backward, backward_, &options_);
  }
  /// All steps of a layer, each with a plan that is released. The first call asks for their number only.
  struct Steps {
    std::vector<vkattn_layer_step> all;
    std::vector<OwnedPlan> plans;
  };
  [[nodiscard]] Steps steps_of(const vkattn_plan* plan) {
    Steps steps{list_of<vkattn_layer_step>(vkattn_plan_get_steps, plan), {}};
    for (const vkattn_layer_step& step : steps.all) steps.plans.emplace_back(step.plan);
    return steps;
  }
  /// The kernels that the steps of each kind use.
  [[nodiscard]] std::map<vkattn_step_kind, std::set<std::string>> kernels_of(const vkattn_plan* plan) {
    std::map<vkattn_step_kind, std::set<std::string>> kernels;
    const Steps steps = steps_of(plan);
    for (const vkattn_layer_step& step : steps.all) {
      if (step.kind != VKATTN_STEP_KIND_APPEND) kernels[step.kind].insert(choice_of(step.plan).kernel);
    }
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
  for (const bool is_backward : {false, true}) {
    OwnedPlan layer = is_backward ? backward() : forward();
    const Steps steps = steps_of(layer);
    const std::string described = text_of(vkattn_plan_describe, layer);
    bool is_needed = false;
    std::size_t at = 0;
    for (const vkattn_layer_step& step : steps.all) {
      SCOPED_TRACE(step.name);
      at = described.find(step.name, at);
      ASSERT_NE(at, std::string::npos) << "in the order of the description: " << described;
      is_needed = is_needed || vkattn_plan_needs_self_test(step.plan) != 0;
    }
    EXPECT_EQ(vkattn_plan_needs_self_test(layer) != 0, is_needed);
    vkattn_self_test* none = nullptr;
    EXPECT_TRUE(refused(vkattn_self_test_create(device_, layer, VK_NULL_HANDLE, &none, &error_),
                        "vkattn_plan_get_steps"));
    layer = {};  // its steps stay alive
    for (const vkattn_layer_step& step : steps.all) {
      SCOPED_TRACE(step.name);
      if (step.kind == VKATTN_STEP_KIND_APPEND) {
        EXPECT_TRUE(refused(vkattn_self_test_create(device_, step.plan, VK_NULL_HANDLE, &none, &error_),
                            "self-tests"));
      } else if (tested.insert(text_of(vkattn_plan_get_configuration, step.plan)).second) {
        expect_self_test_tells(step.plan);
      }
    }
  }
}

TEST_F(CInterfaceSteps, OnMatrixUnitsNeedTheirTests) {
  layer_.rotary_style = VKATTN_ROTARY_STYLE_NONE;
  layer_.rotary_dims = 0;
  options_.kernel = options_.matmul_kernel = "matrix";
  vkattn_plan* made = nullptr;
  const vkattn_result result =
      vkattn_plan_create_multi_head_attention(device_, &layer_, &options_, &made, &error_);
  if (result == VKATTN_ERROR_UNSUPPORTED) GTEST_SKIP() << error_.message;
  ASSERT_TRUE(done(result));
  const OwnedPlan layer(made);
  EXPECT_EQ(vkattn_plan_needs_self_test(layer), 1U);
  const Steps steps = steps_of(layer);
  EXPECT_EQ(steps.all.size(), 3U);
  for (const vkattn_layer_step& step : steps.all) {
    EXPECT_EQ(vkattn_plan_needs_self_test(step.plan), 1U) << step.name;
  }
  // One step with such a kernel is enough.
  options_.kernel = "tile";
  EXPECT_EQ(vkattn_plan_needs_self_test(forward()), 1U);
}

TEST_F(CInterfaceSteps, AreThoseOfCppInTheirOrder) {
  const auto expect_same = [&](const OwnedPlan& c_plan, const std::vector<LayerStep>& steps) {
    const Steps c_steps = steps_of(c_plan);
    ASSERT_EQ(c_steps.all.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const vkattn_layer_step& c_step = c_steps.all[i];
      EXPECT_EQ(c_step.name, steps[i].name);
      const std::string named = text_of(vkattn_plan_get_configuration, c_step.plan);
      std::visit(
          [&](const auto& plan) {
            using Plan = std::decay_t<decltype(plan)>;
            EXPECT_TRUE(std::holds_alternative<Plan>(c_step.plan->plan));
            if constexpr (requires { plan.configuration(); }) {
              EXPECT_EQ(named, plan.configuration());
            }
          },
          steps[i].plan);
    }
  };
  MultiHeadAttentionOptions options;
  options.deferred_compilation = true;
  const MultiHeadAttentionDesc desc = c::multi_head_attention_desc(&layer_).value();
  const auto plan = must(MultiHeadAttentionPlan::create(runtime().device(), desc, options));
  expect_same(forward(), plan.steps());
  const auto gradients =
      must(MultiHeadAttentionBackwardPlan::create(runtime().device(), {.forward = desc}, options));
  expect_same(backward(), gradients.steps());
}

// If a step's test finds a wrong result, the kernel is refused for that kind of computation only.
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
  const OwnedPlan layer = forward();
  // The call gives only as many handles as fit.
  const Steps all = steps_of(layer);
  std::vector<vkattn_layer_step> some(2);
  some[1].plan = layer;
  std::uint32_t count = 1;
  EXPECT_TRUE(done(vkattn_plan_get_steps(layer, some.data(), &count, &error_)));
  EXPECT_EQ(count, all.all.size());
  EXPECT_EQ(some[1].plan, layer.get());
  const OwnedPlan step(some[0].plan);
  EXPECT_TRUE(refused(vkattn_plan_get_steps(step, nullptr, &count, &error_),
                      "only a layer and its gradients have steps"));
  EXPECT_TRUE(refused(vkattn_plan_get_steps(nullptr, nullptr, &count, &error_), "plan is null"));
  EXPECT_TRUE(refused(vkattn_plan_get_steps(layer, nullptr, nullptr, &error_), "count is null"));
  vkattn_plan* none = nullptr;
  const auto of_backward = [&] {
    return vkattn_plan_create_multi_head_attention_backward(device_, &backward_, &options_, &none, &error_);
  };
  const vkattn_kernel_refusal unknown{"tiles", "was wrong"};
  options_.matmul_refusal_count = 1;
  EXPECT_TRUE(refused(of_backward(), "vkattn_plan_options::matmul_refusals is null, but its count is 1"));
  options_.matmul_refusals = &unknown;
  EXPECT_TRUE(refused(of_backward(), "matmul.refusals[0] names 'tiles'"));
  options_.matmul_refusal_count = 0;
  options_.backward_refusal_count = 1;
  EXPECT_TRUE(refused(of_backward(), "vkattn_plan_options::backward_refusals is null, but its count is 1"));
  options_.backward_refusals = &unknown;
  EXPECT_TRUE(refused(of_backward(), "backward.refusals[0] names 'tiles'"));
  EXPECT_TRUE(refused(vkattn_plan_create_multi_head_attention(device_, &layer_, &options_, &none, &error_),
                      "backward.refusals[0]"))
      << "the forward pass has no use for them, but options are often the same for both";
  options_.backward_refusal_count = 0;
  options_.refusal_count = 1;
  options_.refusals = &unknown;
  EXPECT_TRUE(refused(of_backward(), "refusals[0] names 'tiles'"));
  EXPECT_EQ(std::strstr(error_.message, "_refusals"), nullptr) << error_.message;
}

}  // namespace
}  // namespace vkattn::tests

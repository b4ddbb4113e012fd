// The C interface on a device: appends, merges, gradients, products and layers give the bits of the C++
// classes.
#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "gpu/c_interface.hpp"
#include "support/c_problem.hpp"

namespace vkattn::tests {
namespace {

class CInterfaceLayers : public CInterfaceTest {
 protected:
  /// Makes and runs the plan of each interface on the same numbers. Compares their answers and every byte.
  template <class Desc>
  void expect_the_same(const Desc& desc) {
    SCOPED_TRACE(InC<Desc>::kName);
    const auto plan = must(Desc::Plan::create(runtime().device(), desc, tiles_in_parts<Desc>()));
    const vkattn_plan_options options = tiles_in_parts_of_c<Desc>();
    const CProblem<Desc> in_c(desc);
    const OwnedPlan c_plan = plan_of(InC<Desc>::kCreate, in_c.structure, &options);
    const Buffer buffer = must(runtime().create_buffer(1U << 19U));
    const Execution execution = execution_of(c_plan, placed(c_plan, buffer));
    EXPECT_EQ(execution.its.workspace_size, plan.requirements().workspace_bytes);
    // Small numbers of both signs, each different. Positions in a cache are 0.
    std::vector<float> numbers(buffer.size() / 4);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>((i * 2654435761U >> 8U) % 4001) / 2000 - 1;
    }
    for (const vkattn_binding& each : execution.tensors) {
      if (each.tensor == VKATTN_TENSOR_POSITIONS) std::fill_n(&numbers[each.offset / 4], each.size / 4, 0.0F);
    }
    const auto after = [&](const auto& executes) {
      must(runtime().write(buffer, 0, std::as_bytes(std::span(numbers))));
      executes();
      return elements_of<std::uint32_t>(runtime(), buffer, numbers.size());
    };
    const auto nothing = after([] {});
    const auto expected = after([&] {
      bind_and_execute(runtime(), plan, c::tensors_of<typename Desc::Plan>(execution.its).value(),
                       execution.workspace.range());
    });
    EXPECT_FALSE(expected == nothing);
    EXPECT_TRUE(after([&] { execute(c_plan, execution.its); }) == expected);
    EXPECT_TRUE(after([&] { execute_slices(c_plan, execution.its); }) == expected) << "in slices";
    EXPECT_EQ(text_of(vkattn_plan_describe, c_plan), plan.describe());
    expect_same_passes(plan, c_plan);
    expect_same_pipelines(plan, c_plan);
    if constexpr (requires { plan.attention(); }) {
      expect_same_kernel(plan.attention(), c_plan);
    } else {
      expect_same_kernel(plan, c_plan);
    }
  }
  /// Executes one dispatch at a time.
  void execute_slices(vkattn_plan* plan, const vkattn_execution& execution) {
    const OwnedBindings bindings = bindings_of_plan(plan, execution);
    const std::size_t count = list_of<double>(vkattn_plan_get_estimates, plan).size();
    vkattn_record_options slice = initial(vkattn_record_options_init);
    slice.dispatch_count = 1;
    for (; slice.first_dispatch < count; ++slice.first_dispatch) {
      ASSERT_TRUE(done(record(plan, bindings, &slice)));
    }
  }

  template <class Plan>
  void expect_same_passes(const Plan& plan, const vkattn_plan* c_plan) {
    const std::vector<DispatchInfo> expected = plan.dispatches();
    const auto told = list_of<vkattn_dispatch>(vkattn_plan_get_dispatches, c_plan);
    EXPECT_EQ(list_of<double>(vkattn_plan_get_estimates, c_plan).size(), expected.size());
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].pass, expected[i].pass);
      EXPECT_EQ(told[i].tile_count, expected[i].tile_count);
      EXPECT_EQ(told[i].workgroups[0], expected[i].workgroups[0]);
      EXPECT_EQ(told[i].estimated_ns, expected[i].estimated_ns);
    }
  }
  template <class Plan>
  void expect_same_pipelines(const Plan& plan, const vkattn_plan* c_plan) {
    const std::vector<PipelineInfo> expected = plan.pipelines();
    const auto told = list_of<vkattn_pipeline>(vkattn_plan_get_pipelines, c_plan);
    ASSERT_EQ(told.size(), expected.size());
    for (std::size_t i = 0; i < told.size(); ++i) {
      EXPECT_EQ(told[i].pass, expected[i].pass);
      EXPECT_EQ(told[i].shader, expected[i].shader);
      EXPECT_EQ(told[i].workgroup_size, expected[i].workgroup_size);
    }
  }
  template <class Plan>
  void expect_same_kernel(const Plan& plan, const vkattn_plan* c_plan) {
    vkattn_data_type type = 99;
    const vkattn_result result = vkattn_plan_get_probability_type(c_plan, &type, &error_);
    if constexpr (requires { plan.probability_type(); }) {
      EXPECT_TRUE(done(result));
      EXPECT_EQ(type, static_cast<vkattn_data_type>(plan.probability_type()));
    } else {
      EXPECT_TRUE(refused(result, "there are no probability types of "));
    }
    const vkattn_result arithmetic = vkattn_plan_get_arithmetic_type(c_plan, &type, &error_);
    if constexpr (requires { plan.arithmetic_type(); }) {
      EXPECT_TRUE(done(arithmetic));
      EXPECT_EQ(type, static_cast<vkattn_data_type>(plan.arithmetic_type()));
    } else {
      EXPECT_TRUE(refused(arithmetic, "there are no arithmetic types of "));
    }
  }
};

// The unit tests of the C interface compare the descriptors and options of C++ plans member by member.
// tests/unit/every_operation_test.cpp checks that each tensor's number belongs to its name.
TEST_F(CInterfaceLayers, PlansOfEveryOperationAreThoseOfCpp) {
  std::apply([&](const auto&... desc) { (expect_the_same(desc), ...); }, small_problems());
}

/// A layer with weights and their mean, biases, and gradients that are added to earlier contents.
TEST_F(CInterfaceLayers, WholeLayersAreThoseOfCpp) {
  vkattn_attention_desc attention = heads();
  const vkattn_multi_head_attention_desc whole = whole_layer_of(attention);
  MultiHeadAttentionBackwardDesc gradients{.forward = must(c::multi_head_attention_desc(&whole))};
  gradients.adds_to_parameters = gradients.attention.has_grad_alibi_slopes = true;
  expect_the_same(gradients.forward);
  expect_the_same(gradients);
}

TEST_F(CInterfaceLayers, LayersOverACacheAreThoseOfCpp) {
  MultiHeadAttentionDesc desc = small_layer();
  desc.attention.query_length = 2;
  desc.attention.kv_length = 7;
  desc.attention.align = Align::kBottomRight;
  desc.has_cache = true;
  desc.saves_for_gradients = false;
  expect_the_same(desc);
}

/// A weight is transposed, and the caller sets block sizes by name.
TEST_F(CInterfaceLayers, ProductsAreThoseOfCpp) {
  MatmulDesc desc{.batch = 2, .rows = 13, .columns = 20, .inner = 300, .has_bias = true, .accumulates = true};
  desc.b.strides = MatrixStrides{0, 1, 300};
  expect_the_same(desc);
  const CProblem<MatmulDesc> in_c(desc);
  vkattn_plan_options options = tiles_in_parts_of_c<MatmulDesc>();
  const OwnedPlan by_table = plan_of(vkattn_plan_create_matmul, in_c.structure, &options);
  const vkattn_kernel_choice choice = choice_of(by_table);
  EXPECT_STREQ(choice.kernel, "tile");
  options.tile = &choice.tile;
  const OwnedPlan by_name = plan_of(vkattn_plan_create_matmul, in_c.structure, &options);
  EXPECT_EQ(text_of(vkattn_plan_get_configuration, by_name),
            text_of(vkattn_plan_get_configuration, by_table));
  EXPECT_EQ(vkattn_plan_needs_self_test(by_table), 0U);
  EXPECT_NE(self_test_of(by_table).get(), nullptr);
}

TEST_F(CInterfaceLayers, ProductsTakePushDescriptors) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  vkattn_matmul_desc desc = initial(vkattn_matmul_desc_init);
  desc.rows = 1;
  desc.columns = 3;
  desc.inner = 4;
  desc.a_is_ones = 1;
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.push_descriptors = 1;
  options.inner_splits = 1;
  const OwnedPlan plan = plan_of(vkattn_plan_create_matmul, desc, &options);
  const Buffer all = filled_buffer(runtime(), std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Buffer sums = must(runtime().create_buffer(12));
  ASSERT_TRUE(done(record_push(plan, execution_of(plan, {{VKATTN_TENSOR_B, all.handle(), 0, 48},
                                                         {VKATTN_TENSOR_OUTPUT, sums.handle(), 0, 12}})
                                         .its)));
  EXPECT_EQ(elements_of<float>(runtime(), sums, 3), (std::vector<float>{22, 26, 30}));
}

}  // namespace
}  // namespace vkattn::tests

// The C interface on a device: gradients, products and layers, whose bits are those of the C++ classes.
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

/// What a call does with a tensor that it is given.
enum class TensorUse { kRead, kWritten, kZero };  ///< the last: read as integers, which are 0

/// A tensor of float32 of a test, with the elements that it must have.
struct GivenTensor {
  vkattn_tensor tensor;
  std::size_t elements;
  TensorUse use = TensorUse::kRead;
};

class CInterfaceLayers : public CInterfaceTest {
 protected:
  /// Runs both on the same numbers and compares every byte.
  template <class Plan>
  void expect_the_same(const Plan& plan, const OwnedPlan& c_plan, const std::vector<GivenTensor>& rows) {
    const Buffer buffer = must(runtime().create_buffer(1U << 19U));
    // Small numbers of both signs, each another one.
    std::vector<float> numbers(buffer.size() / 4);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = static_cast<float>((i * 2654435761U >> 8U) % 4001) / 2000 - 1;
    }
    const Execution execution = execution_of(c_plan, placed(c_plan, buffer));
    EXPECT_EQ(execution.its.workspace_size, plan.requirements().workspace_bytes);
    EXPECT_EQ(execution.tensors.size(), rows.size());
    const auto row_of = [&](const vkattn_binding& its) {
      const auto found = std::ranges::find(rows, its.tensor, &GivenTensor::tensor);
      return found != rows.end() ? *found : GivenTensor{its.tensor, 0};
    };
    for (const vkattn_binding& each : execution.tensors) {
      EXPECT_EQ(each.size, row_of(each).elements * 4) << "tensor " << each.tensor;
      if (row_of(each).use == TensorUse::kZero) std::fill_n(&numbers[each.offset / 4], each.size / 4, 0.0F);
    }
    const auto after = [&](const auto& executes) {
      must(runtime().write(buffer, 0, std::as_bytes(std::span(numbers))));
      executes();
      return elements_of<std::uint32_t>(runtime(), buffer, numbers.size());
    };
    const auto expected = after([&] {
      bind_and_execute(runtime(), plan, c::tensors_of<Plan>(execution.its).value(),
                       execution.workspace.range());
    });
    for (const vkattn_binding& each : execution.tensors) {
      const bool has_changed =
          std::memcmp(&expected[each.offset / 4], &numbers[each.offset / 4], each.size) != 0;
      EXPECT_EQ(has_changed, row_of(each).use == TensorUse::kWritten) << "tensor " << each.tensor;
    }
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
  /// One dispatch at a time.
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

// What the C++ plans are made of is what the unit tests of the C interface have compared member by member.

TEST_F(CInterfaceLayers, GradientsAreThoseOfCpp) {
  const Problem problem = parsed("b2 hq4 hkv2 9x20 d16 causal softcap=3 lse");
  vkattn_attention_desc attention = desc_of(problem.desc);
  attention.has_sinks = 1;
  vkattn_backward_desc c_desc = initial(vkattn_backward_desc_init);
  c_desc.attention = &attention;
  c_desc.has_grad_sinks = 1;
  const auto plan = must(BackwardPlan::create(runtime().device(), must(c::backward_desc(&c_desc))));
  const OwnedPlan c_plan = plan_of(vkattn_plan_create_backward, c_desc);
  EXPECT_EQ(choice_of(c_plan).kernel, plan.kernel_name());
  EXPECT_EQ(vkattn_plan_tensor_range(c_plan, VKATTN_TENSOR_BLOCK_MASK, 0), 0U);
  EXPECT_EQ(vkattn_plan_tensor_range(c_plan, VKATTN_TENSOR_GRAD_MASK, 0), 0U);
  EXPECT_NE(self_test_of(c_plan).get(), nullptr);
  constexpr std::size_t kQuery = 2 * 4 * 9 * 16, kKey = 2 * 2 * 20 * 16;
  expect_the_same(plan, c_plan,
                  {{VKATTN_TENSOR_QUERY, kQuery},
                   {VKATTN_TENSOR_KEY, kKey},
                   {VKATTN_TENSOR_VALUE, kKey},
                   {VKATTN_TENSOR_OUTPUT, kQuery},
                   {VKATTN_TENSOR_LSE, 2 * 4 * 9},
                   {VKATTN_TENSOR_SINKS, 4},
                   {VKATTN_TENSOR_GRAD_OUTPUT, kQuery},
                   {VKATTN_TENSOR_GRAD_QUERY, kQuery, TensorUse::kWritten},
                   {VKATTN_TENSOR_GRAD_KEY, kKey, TensorUse::kWritten},
                   {VKATTN_TENSOR_GRAD_VALUE, kKey, TensorUse::kWritten},
                   {VKATTN_TENSOR_GRAD_SINKS, 4, TensorUse::kWritten}});
}

TEST_F(CInterfaceLayers, ProductsAreThoseOfCpp) {
  const vkattn_matrix_strides strides{0, 1, 300};  // a weight, transposed
  vkattn_matmul_desc c_desc = initial(vkattn_matmul_desc_init);
  c_desc.batch = 2;
  c_desc.rows = 13;
  c_desc.columns = 20;
  c_desc.inner = 300;
  c_desc.has_bias = c_desc.accumulates = 1;
  c_desc.b.strides = &strides;
  vkattn_plan_options c_options = initial(vkattn_plan_options_init);
  c_options.inner_splits = 2;
  c_options.kernel = "tile";
  const auto plan = must(MatmulPlan::create(runtime().device(), must(c::matmul_desc(&c_desc)),
                                            {.kernel = "tile", .inner_splits = 2}));
  // Its block sizes, asked for by name.
  vkattn_kernel_choice choice{};
  {
    const OwnedPlan by_table = plan_of(vkattn_plan_create_matmul, c_desc, &c_options);
    choice = choice_of(by_table);
    EXPECT_STREQ(choice.kernel, "tile");
    EXPECT_EQ(text_of(vkattn_plan_get_configuration, by_table), plan.configuration());
    EXPECT_EQ(vkattn_plan_needs_self_test(by_table), 0U);
    EXPECT_NE(self_test_of(by_table).get(), nullptr);
    EXPECT_EQ(choice.tile.keys, plan.tile().inner);
  }
  c_options.tile = &choice.tile;
  expect_the_same(plan, plan_of(vkattn_plan_create_matmul, c_desc, &c_options),
                  {{VKATTN_TENSOR_A, 2 * 13 * 300},
                   {VKATTN_TENSOR_B, 20 * 300},
                   {VKATTN_TENSOR_BIAS, 20},
                   {VKATTN_TENSOR_OUTPUT, 2 * 13 * 20, TensorUse::kWritten}});
}

/// Of 4 heads of 8 dims, two of them of keys and values.
constexpr std::size_t kInputWeight = (32 + 16 + 16) * 32, kInputBias = 64, kOutputWeight = 32 * 32,
                      kOutputBias = 32;

TEST_F(CInterfaceLayers, LayersAndTheirGradientsAreThoseOfCpp) {
  vkattn_attention_desc attention = heads();
  vkattn_multi_head_attention_desc c_desc = whole_layer_of(attention);
  const auto plan =
      must(MultiHeadAttentionPlan::create(runtime().device(), must(c::multi_head_attention_desc(&c_desc))));
  constexpr std::size_t kRows = 2 * 5 * 32;
  const std::vector<GivenTensor> read{{VKATTN_TENSOR_QUERY, kRows},
                                      {VKATTN_TENSOR_ALIBI_SLOPES, 4},
                                      {VKATTN_TENSOR_IN_PROJ_WEIGHT, kInputWeight},
                                      {VKATTN_TENSOR_IN_PROJ_BIAS, kInputBias},
                                      {VKATTN_TENSOR_OUT_PROJ_WEIGHT, kOutputWeight},
                                      {VKATTN_TENSOR_OUT_PROJ_BIAS, kOutputBias}};
  const auto with_read = [&](std::vector<GivenTensor> rows) {
    rows.insert(rows.end(), read.begin(), read.end());
    return rows;
  };
  expect_the_same(plan, plan_of(vkattn_plan_create_multi_head_attention, c_desc),
                  with_read({{VKATTN_TENSOR_OUTPUT, kRows, TensorUse::kWritten},
                             {VKATTN_TENSOR_SAVED, plan.saved_bytes() / 4, TensorUse::kWritten},
                             {VKATTN_TENSOR_WEIGHTS, 2 * 4 * 5 * 5, TensorUse::kWritten},
                             {VKATTN_TENSOR_AVERAGED_WEIGHTS, 2 * 5 * 5, TensorUse::kWritten}}));

  vkattn_multi_head_attention_backward_desc c_backward =
      initial(vkattn_multi_head_attention_backward_desc_init);
  c_backward.forward = &c_desc;
  c_backward.adds_to_parameters = c_backward.has_grad_alibi_slopes = 1;
  const auto gradients = must(MultiHeadAttentionBackwardPlan::create(
      runtime().device(), must(c::multi_head_attention_backward_desc(&c_backward))));
  // What the forward pass wrote beside `saved` is not bound.
  expect_the_same(gradients, plan_of(vkattn_plan_create_multi_head_attention_backward, c_backward),
                  with_read({{VKATTN_TENSOR_SAVED, plan.saved_bytes() / 4},
                             {VKATTN_TENSOR_GRAD_OUTPUT, kRows},
                             {VKATTN_TENSOR_GRAD_QUERY, kRows, TensorUse::kWritten},
                             {VKATTN_TENSOR_GRAD_ALIBI_SLOPES, 4, TensorUse::kWritten},
                             {VKATTN_TENSOR_GRAD_IN_PROJ_WEIGHT, kInputWeight, TensorUse::kWritten},
                             {VKATTN_TENSOR_GRAD_IN_PROJ_BIAS, kInputBias, TensorUse::kWritten},
                             {VKATTN_TENSOR_GRAD_OUT_PROJ_WEIGHT, kOutputWeight, TensorUse::kWritten},
                             {VKATTN_TENSOR_GRAD_OUT_PROJ_BIAS, kOutputBias, TensorUse::kWritten}}));
}

TEST_F(CInterfaceLayers, LayersOverACacheAreThoseOfCpp) {
  vkattn_attention_desc attention = heads();
  attention.query_length = 2;
  attention.kv_length = 7;
  attention.align = VKATTN_ALIGN_BOTTOM_RIGHT;
  vkattn_multi_head_attention_desc c_desc = layer_of(attention);
  c_desc.has_cache = 1;
  const auto plan =
      must(MultiHeadAttentionPlan::create(runtime().device(), must(c::multi_head_attention_desc(&c_desc))));
  expect_the_same(plan, plan_of(vkattn_plan_create_multi_head_attention, c_desc),
                  {{VKATTN_TENSOR_QUERY, 2 * 2 * 32},
                   {VKATTN_TENSOR_ALIBI_SLOPES, 4},
                   {VKATTN_TENSOR_POSITIONS, 2, TensorUse::kZero},
                   {VKATTN_TENSOR_IN_PROJ_WEIGHT, kInputWeight},
                   {VKATTN_TENSOR_IN_PROJ_BIAS, kInputBias},
                   {VKATTN_TENSOR_OUT_PROJ_WEIGHT, kOutputWeight},
                   {VKATTN_TENSOR_OUT_PROJ_BIAS, kOutputBias},
                   {VKATTN_TENSOR_OUTPUT, 2 * 2 * 32, TensorUse::kWritten},
                   {VKATTN_TENSOR_KV_LENGTHS, 2, TensorUse::kWritten},
                   {VKATTN_TENSOR_CACHE_KEY, 2 * 2 * 7 * 8, TensorUse::kWritten},
                   {VKATTN_TENSOR_CACHE_VALUE, 2 * 2 * 7 * 8, TensorUse::kWritten}});
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

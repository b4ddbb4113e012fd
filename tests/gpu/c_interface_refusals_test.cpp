// The C interface on a device: refusals of problems, options and uses of gradients, products and layers.
#include <vector>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

/// Each mistake stands with a word of its sentence.
TEST_F(CInterfaceTest, WrongProblemsOfLayersAreRefusedByName) {
  const OwnedPlan other = plan_of_problem("33x40 d32");
  vkattn_plan* plan = other;
  const auto is_refused = [&](vkattn_result result, const char* words) {
    EXPECT_TRUE(refused(result, words));
    EXPECT_EQ(plan, nullptr) << words;
    plan = other;
  };
  vkattn_attention_desc attention = heads();
  vkattn_backward_desc backward = initial(vkattn_backward_desc_init);
  const auto gradients = [&] {
    return vkattn_plan_create_backward(device_, &backward, nullptr, &plan, &error_);
  };
  is_refused(gradients(), "vkattn_attention_desc is null");
  attention.kv_length = attention.head_dim = 8;
  backward.attention = &attention;
  is_refused(gradients(), "has_lse");
  attention.has_lse = 1;
  const vkattn_tensor_desc block{VKATTN_DATA_TYPE_Q8_0, 0, nullptr};
  backward.grad_key = &block;
  is_refused(gradients(), "grad_key");
  vkattn_matmul_desc product = initial(vkattn_matmul_desc_init);
  is_refused(vkattn_plan_create_matmul(device_, &product, nullptr, &plan, &error_), "rows");
  is_refused(vkattn_plan_create_matmul(device_, nullptr, nullptr, &plan, &error_),
             "vkattn_matmul_desc is null");

  attention = heads();
  vkattn_multi_head_attention_desc layer = layer_of(attention);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  const auto forward = [&] {
    return vkattn_plan_create_multi_head_attention(device_, &layer, &options, &plan, &error_);
  };
  layer.d_model = VKATTN_UNSET;
  is_refused(forward(), "d_model");
  layer.struct_size += 16;
  is_refused(forward(), "vkattn_multi_head_attention_desc::struct_size");
  layer = layer_of(attention);
  vkattn_multi_head_attention_backward_desc layer_gradients =
      initial(vkattn_multi_head_attention_backward_desc_init);
  layer_gradients.forward = &layer;
  is_refused(
      vkattn_plan_create_multi_head_attention_backward(device_, &layer_gradients, nullptr, &plan, &error_),
      "saves_for_gradients");
}

TEST_F(CInterfaceTest, WrongUsesOfLayersAreRefusedByName) {
  const vkattn_attention_desc attention = heads();
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  const OwnedPlan layer = plan_of(vkattn_plan_create_multi_head_attention, layer_of(attention), &options);
  vkattn_matmul_desc sum = initial(vkattn_matmul_desc_init);
  sum.rows = sum.columns = sum.inner = 1;
  sum.a_is_ones = 1;
  const OwnedPlan product = plan_of(vkattn_plan_create_matmul, sum, &options);
  const Buffer buffer = runtime().create_buffer(64).value();
  Execution execution = execution_of(
      product, {{VKATTN_TENSOR_B, buffer.handle(), 0, 4}, {VKATTN_TENSOR_OUTPUT, buffer.handle(), 16, 4}});
  const OwnedBindings bindings = bindings_of_plan(product, execution.its);
  execution.tensors[1].offset = 0;
  EXPECT_TRUE(refused(vkattn_bindings_rewrite(bindings, &execution.its, &error_),
                      "the output tensor, bytes 0 to 3 of its buffer, overlaps the b tensor, bytes 0 to 3"));
  execution.tensors[1].offset = 16;
  EXPECT_TRUE(refused(record(product, bindings), "vkattn_plan_compile"));
  EXPECT_TRUE(refused(record(layer, bindings), "another plan"));
  vkattn_bindings* none = nullptr;
  const auto bind = [&] {
    return vkattn_bindings_create(layer, &execution.its, VK_NULL_HANDLE, &none, &error_);
  };
  EXPECT_TRUE(refused(bind(), "there is no tensor 34 of a layer"));
  execution.tensors[0].tensor = VKATTN_TENSOR_LSE;
  EXPECT_TRUE(refused(bind(), "there is no tensor 4 of a layer"));
  execution.tensors[0].tensor = VKATTN_TENSOR_QUERY;
  EXPECT_TRUE(refused(bind(), "the query tensor of (2, 5, 32) f32 needs 1280 bytes"));
  EXPECT_EQ(none, nullptr);
  std::uint32_t count = 0;
  vkattn_append_desc append = initial(vkattn_append_desc_init);
  append.kv_heads = append.new_length = append.head_dim = append.cache_length = 1;
  const OwnedPlan other = plan_of(vkattn_plan_create_append, append, &options);
  const auto statistics = [&](const vkattn_plan* plan) {
    return vkattn_plan_get_statistics(plan, nullptr, &count, &error_);
  };
  EXPECT_TRUE(refused(statistics(other), "statistics"));
  EXPECT_TRUE(refused(statistics(product), "capture_statistics"));
  EXPECT_TRUE(refused(statistics(layer), "capture_statistics"));
  vkattn_self_test* test = nullptr;
  const auto self_test = [&](const vkattn_plan* plan) {
    return vkattn_self_test_create(device_, plan, VK_NULL_HANDLE, &test, &error_);
  };
  EXPECT_TRUE(refused(self_test(other), "self-tests"));
  EXPECT_TRUE(refused(self_test(nullptr), "plan is null"));
  EXPECT_TRUE(refused(vkattn_self_test_fill(nullptr, nullptr, 0, &error_), "test is null"));
}

TEST_F(CInterfaceTest, BindingsOfALayerThatAreNotRewrittenStayAsTheyAre) {
  vkattn_attention_desc attention = heads();
  attention.alibi = VKATTN_ALIBI_SLOPES_NONE;
  const OwnedPlan plan = plan_of(vkattn_plan_create_multi_head_attention, layer_of(attention));
  const Buffer buffer = runtime().create_buffer(1U << 15U).value();
  Execution execution = execution_of(plan, placed(plan, buffer));
  const OwnedBindings bindings = bindings_of_plan(plan, execution.its);
  const auto rewrite = [&] { return vkattn_bindings_rewrite(bindings, &execution.its, &error_); };
  vkattn_binding& last = execution.tensors.back();
  ASSERT_EQ(last.tensor, static_cast<vkattn_tensor>(VKATTN_TENSOR_OUT_PROJ_BIAS));
  const VkDeviceSize bytes = last.size;
  last.size = bytes - 4;
  EXPECT_EQ(rewrite(), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE(done(record(plan, bindings)));
  last.size = VK_WHOLE_SIZE - 1;
  EXPECT_TRUE(refused(rewrite(), "the out_proj.bias tensor has a range of"));
  EXPECT_TRUE(done(record(plan, bindings)));
  last.size = bytes;
  EXPECT_TRUE(done(rewrite()));
  EXPECT_TRUE(done(record(plan, bindings)));
}

}  // namespace
}  // namespace vkattn::tests

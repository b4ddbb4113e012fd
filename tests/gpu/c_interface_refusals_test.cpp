// The C interface on a device: what it refuses of options and uses of gradients, products and layers.
// Problems that it refuses are in the unit tests of each descriptor (support/rule.hpp).
#include <vector>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

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

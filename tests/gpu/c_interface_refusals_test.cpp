// The C interface on a device: what it refuses of problems, options and uses of gradients, products and
// layers.
#include <array>
#include <cstring>
#include <string>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

/// Each mistake with a word of the sentence that it gives.
TEST_F(CInterfaceTest, WrongProblemsOfLayersAreRefusedByName) {
  vkattn_plan* plan = nullptr;
  const auto refused = [&](vkattn_result result, const char* words) {
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << words;
    EXPECT_EQ(plan, nullptr) << words;
    EXPECT_NE(std::strstr(error_.message, words), nullptr) << error_.message;
  };
  vkattn_attention_desc attention = heads();
  vkattn_backward_desc backward = initial(vkattn_backward_desc_init);
  const auto gradients = [&] {
    return vkattn_plan_create_backward(device_, &backward, nullptr, &plan, &error_);
  };
  refused(gradients(), "vkattn_attention_desc is null");
  attention.kv_length = attention.head_dim = 8;
  backward.attention = &attention;
  refused(gradients(), "has_lse");
  attention.has_lse = 1;
  const vkattn_tensor_desc block{VKATTN_DATA_TYPE_Q8_0, 0, nullptr};
  backward.grad_key = &block;
  refused(gradients(), "grad_key");
  vkattn_matmul_desc product = initial(vkattn_matmul_desc_init);
  refused(vkattn_plan_create_matmul(device_, &product, nullptr, &plan, &error_), "rows");
  refused(vkattn_plan_create_matmul(device_, nullptr, nullptr, &plan, &error_), "vkattn_matmul_desc is null");

  attention = heads();
  vkattn_multi_head_attention_desc layer = layer_of(attention);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.push_descriptors = 1;
  const auto forward = [&] {
    return vkattn_plan_create_multi_head_attention(device_, &layer, &options, &plan, &error_);
  };
  refused(forward(), "push_descriptors");
  options.push_descriptors = 0;
  layer.d_model = VKATTN_UNSET;
  refused(forward(), "d_model");
  layer.struct_size += 16;
  refused(forward(), "vkattn_multi_head_attention_desc::struct_size");
  layer = layer_of(attention);
  vkattn_multi_head_attention_backward_desc layer_gradients =
      initial(vkattn_multi_head_attention_backward_desc_init);
  layer_gradients.forward = &layer;
  refused(
      vkattn_plan_create_multi_head_attention_backward(device_, &layer_gradients, nullptr, &plan, &error_),
      "saves_for_gradients");
}

TEST_F(CInterfaceTest, WrongUsesOfLayersAreRefusedByName) {
  const vkattn_attention_desc attention = heads();
  const vkattn_multi_head_attention_desc desc = layer_of(attention);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  vkattn_plan* layer = nullptr;
  ASSERT_EQ(vkattn_plan_create_multi_head_attention(device_, &desc, &options, &layer, &error_),
            VKATTN_SUCCESS)
      << error_.message;
  vkattn_matmul_desc sum = initial(vkattn_matmul_desc_init);
  sum.rows = sum.columns = sum.inner = 1;
  sum.a_is_ones = 1;
  vkattn_plan* product = nullptr;
  ASSERT_EQ(vkattn_plan_create_matmul(device_, &sum, &options, &product, &error_), VKATTN_SUCCESS)
      << error_.message;
  const Buffer buffer = runtime().create_buffer(64).value();
  vkattn_binding bound[] = {{VKATTN_TENSOR_B, buffer.handle(), 0, 4},
                            {VKATTN_TENSOR_OUTPUT, buffer.handle(), 16, 4}};
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = bound;
  execution.tensor_count = 2;
  vkattn_bindings* bindings = nullptr;
  ASSERT_EQ(vkattn_bindings_create(product, &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
      << error_.message;
  const auto refused = [&](vkattn_result result, const char* words) {
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << words;
    EXPECT_NE(std::strstr(error_.message, words), nullptr) << error_.message;
  };
  vkattn_result by_product = VKATTN_SUCCESS, by_layer = VKATTN_SUCCESS, pushed = VKATTN_SUCCESS;
  std::string first, second;
  ASSERT_TRUE(runtime()
                  .execute([&](VkCommandBuffer commands) {
                    by_product = vkattn_record(product, commands, bindings, nullptr, &error_);
                    first = error_.message;
                    by_layer = vkattn_record(layer, commands, bindings, nullptr, &error_);
                    second = error_.message;
                    pushed = vkattn_record_push(layer, commands, &execution, nullptr, &error_);
                  })
                  .ok());
  EXPECT_EQ(by_product, VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(first.find("vkattn_plan_compile"), std::string::npos) << first;
  EXPECT_EQ(by_layer, VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(second.find("another plan"), std::string::npos) << second;
  refused(pushed, "vkattn_record");
  vkattn_bindings* none = nullptr;
  const auto bind = [&] { return vkattn_bindings_create(layer, &execution, VK_NULL_HANDLE, &none, &error_); };
  refused(bind(), "there is no tensor 34 of a layer");
  bound[0].tensor = VKATTN_TENSOR_LSE;
  refused(bind(), "there is no tensor 4 of a layer");
  bound[0].tensor = VKATTN_TENSOR_QUERY;
  refused(bind(), "query is (2, 5, 32) f32");
  EXPECT_EQ(none, nullptr);
  std::uint32_t count = 0;
  vkattn_append_desc append = initial(vkattn_append_desc_init);
  append.kv_heads = append.new_length = append.head_dim = append.cache_length = 1;
  vkattn_plan* other = nullptr;
  ASSERT_EQ(vkattn_plan_create_append(device_, &append, &options, &other, &error_), VKATTN_SUCCESS)
      << error_.message;
  refused(vkattn_plan_get_statistics(other, nullptr, &count, &error_), "statistics");
  refused(vkattn_plan_get_statistics(product, nullptr, &count, &error_), "capture_statistics");
  refused(vkattn_plan_get_statistics(layer, nullptr, &count, &error_), "capture_statistics");
  vkattn_self_test* test = nullptr;
  refused(vkattn_self_test_create(device_, other, VK_NULL_HANDLE, &test, &error_), "self-tests");
  refused(vkattn_self_test_create(device_, nullptr, VK_NULL_HANDLE, &test, &error_), "plan is null");
  refused(vkattn_self_test_fill(nullptr, nullptr, 0, &error_), "test is null");
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  for (vkattn_plan* const plan : {layer, product, other})
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

// A range that only a step refuses, after those before it were rewritten.
TEST_F(CInterfaceTest, BindingsOfALayerThatAreRewrittenHalfAreNotRecorded) {
  vkattn_attention_desc attention = heads();
  attention.alibi = VKATTN_ALIBI_SLOPES_NONE;
  const vkattn_multi_head_attention_desc desc = layer_of(attention);
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_multi_head_attention(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  vkattn_requirements needs = initial(vkattn_requirements_init);
  ASSERT_EQ(vkattn_plan_get_requirements(plan, &needs, &error_), VKATTN_SUCCESS);
  const Buffer workspace = runtime().create_buffer(needs.workspace_bytes).value();
  const Buffer buffer = runtime().create_buffer(1U << 15U).value();
  std::vector<vkattn_binding> bound;
  VkDeviceSize used = 0;
  for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
    const VkDeviceSize bytes = vkattn_plan_tensor_range(plan, tensor, 0);
    if (bytes == 0) continue;
    bound.push_back({tensor, buffer.handle(), used, bytes});
    used += (bytes + 255) / 256 * 256;
  }
  ASSERT_LE(used, buffer.size());
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = bound.data();
  execution.tensor_count = static_cast<std::uint32_t>(bound.size());
  execution.workspace = workspace.handle();
  execution.workspace_size = needs.workspace_bytes;
  vkattn_bindings* bindings = nullptr;
  ASSERT_EQ(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
      << error_.message;
  const auto record = [&] {
    vkattn_result result = VKATTN_SUCCESS;
    const auto call = [&](VkCommandBuffer commands) {
      result = vkattn_record(plan, commands, bindings, nullptr, &error_);
    };
    EXPECT_TRUE(runtime().execute(call).ok());
    return result;
  };
  vkattn_binding& last = bound.back();
  ASSERT_EQ(last.tensor, static_cast<vkattn_tensor>(VKATTN_TENSOR_OUT_PROJ_BIAS));
  const VkDeviceSize bytes = last.size;
  // Too small is seen before anything is written.
  last.size = bytes - 4;
  EXPECT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(record(), VKATTN_SUCCESS) << error_.message;
  last.size = VK_WHOLE_SIZE - 1;
  EXPECT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "output projection: the bias"), nullptr) << error_.message;
  EXPECT_EQ(record(), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "rewrite them once more"), nullptr) << error_.message;
  last.size = bytes;
  EXPECT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_SUCCESS) << error_.message;
  EXPECT_EQ(record(), VKATTN_SUCCESS) << error_.message;
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

}  // namespace
}  // namespace vkattn::tests

// The C interface on a device: what it computes, with results checked against the reference.
#include <cmath>
#include <cstring>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

// On whatever kernel there is: those on matrix units are the ones that need it.
TEST_F(CInterfaceTest, SelfTestsTellRightFromWrong) {
  const Problem problem = parsed("hq4 hkv2 50x80 d32 f16 causal");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  char configuration[512];
  ASSERT_LT(vkattn_plan_get_configuration(plan, configuration, sizeof(configuration)), sizeof(configuration));
  EXPECT_EQ(vkattn_plan_needs_self_test(plan) != 0, std::strstr(configuration, "matrix") == configuration);
  expect_self_test_tells(plan);
  // A kernel that failed is passed over, with the reason in describe().
  const std::string kernel(configuration, std::strcspn(configuration, ","));
  const vkattn_kernel_refusal refusal{kernel.c_str(), "it was wrong"};
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.refusal_count = 1;
  vkattn_plan* other = nullptr;
  EXPECT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &other, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  const vkattn_kernel_refusal unknown{"tiles", "it was wrong"};
  options.refusals = &unknown;
  EXPECT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &other, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "refusals[0] names 'tiles'"), nullptr) << error_.message;
  options.refusals = &refusal;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &other, &error_), VKATTN_SUCCESS)
      << error_.message;
  char text[4096];
  (void)vkattn_plan_describe(other, text, sizeof(text));
  EXPECT_NE(std::strstr(text, "it was wrong"), nullptr) << text;
  EXPECT_EQ(vkattn_plan_release(other), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TEST_F(CInterfaceTest, SelfTestsAreOfTheDeviceOfTheirPlan) {
  const Problem problem = parsed("33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  RuntimeOptions kept_nowhere;
  kept_nowhere.pipeline_cache = false;
  const auto other = Runtime::create(kept_nowhere);
  ASSERT_TRUE(other.ok()) << other.error().message;
  vkattn_device* const other_device = borrowed(*other);
  ASSERT_NE(other_device, nullptr);
  vkattn_self_test* test = nullptr;
  EXPECT_EQ(vkattn_self_test_create(other_device, plan, VK_NULL_HANDLE, &test, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(test, nullptr);
  EXPECT_NE(std::strstr(error_.message, "another VkDevice"), nullptr) << error_.message;
  EXPECT_EQ(vkattn_device_release(other_device), VKATTN_SUCCESS);
  // Of the same VkDevice borrowed once more.
  vkattn_device* const again = borrowed(runtime());
  EXPECT_EQ(vkattn_self_test_create(again, plan, VK_NULL_HANDLE, &test, &error_), VKATTN_SUCCESS)
      << error_.message;
  EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_device_release(again), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
// Where it was compiled, and where its bytes were loaded.
TEST_F(CInterfaceTest, AScoreFunctionWithoutACompiler) {
  const vkattn_score_buffer buffer{"bias", VKATTN_SCORE_BUFFER_FLOAT};
  vkattn_score_function_desc source = initial(vkattn_score_function_desc_init);
  source.source = "float score(float s, Position p) { return s + bias(p.key); }";
  source.buffers = &buffer;
  source.buffer_count = 1;
  vkattn_score_function* compiled = nullptr;
  const auto refused = [&](const vkattn_score_function_desc& wrong, const char* sentence) {
    EXPECT_EQ(vkattn_score_function_compile(&wrong, &compiled, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error_.message, sentence);
    EXPECT_EQ(compiled, nullptr);
  };
  vkattn_score_function_desc wrong = source;
  const vkattn_score_buffer no_such_type{"bias", 9};
  wrong.buffer_count = 1;
  wrong.buffers = nullptr;
  refused(wrong, "vkattn_score_function_desc::buffers is null, but its count is 1");
  wrong.buffers = &no_such_type;
  refused(wrong, "buffers[0].type is 9; the largest there is is 2");
  wrong.source = nullptr;
  refused(wrong, "vkattn_score_function_desc::source is null");
  ASSERT_EQ(vkattn_score_function_compile(&source, &compiled, &error_), VKATTN_SUCCESS) << error_.message;
  std::size_t bytes = 0;
  const char* const shaders[] = {"attention_lane_features", "attention_lane_wide_features",
                                 "attention_lane_words_features"};
  ASSERT_EQ(vkattn_score_function_save(compiled, shaders, 3, nullptr, &bytes, &error_), VKATTN_SUCCESS)
      << error_.message;
  std::vector<std::byte> blob(bytes);
  ASSERT_EQ(vkattn_score_function_save(compiled, shaders, 3, blob.data(), &bytes, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_score_function_release(compiled), VKATTN_SUCCESS);
  vkattn_score_function* loaded = nullptr;
  ASSERT_EQ(vkattn_score_function_load(blob.data(), blob.size(), &loaded, &error_), VKATTN_SUCCESS)
      << error_.message;

  // Two keys of equal scores, of which the first has log(3) more: weights 3/4 and 1/4.
  const Problem problem = parsed("1x2 d1");
  vkattn_attention_desc desc = desc_of(problem.desc);
  desc.score_function = loaded;
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kernel = "tile";  // left out of the bytes
  vkattn_plan* plan = nullptr;
  EXPECT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_ERROR_UNSUPPORTED);
  EXPECT_NE(std::strstr(error_.message, "saved without the shader attention_tile"), nullptr)
      << error_.message;
  options.kernel = "lane";
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  EXPECT_EQ(vkattn_score_function_release(loaded), VKATTN_SUCCESS);  // the plan has it
  const Buffer all = runtime().create_buffer(1024).value();
  const float query = 1, keys[] = {0, 0}, values[] = {4, 8}, bias[] = {std::log(3.0F), 0};
  const auto write = [&](VkDeviceSize at, const auto& value) {
    ASSERT_TRUE(runtime().write(all, at, std::as_bytes(std::span(&value, 1))).ok());
  };
  write(0, query);
  write(64, keys);
  write(128, values);
  write(256, bias);
  const vkattn_binding tensors[] = {{VKATTN_TENSOR_QUERY, all.handle(), 0, 4},
                                    {VKATTN_TENSOR_KEY, all.handle(), 64, 8},
                                    {VKATTN_TENSOR_VALUE, all.handle(), 128, 8},
                                    {VKATTN_TENSOR_OUTPUT, all.handle(), 512, 4}};
  const vkattn_binding table{0, all.handle(), 256, 8};
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  execution.score_buffers = &table;
  execution.score_buffer_count = 1;
  execute(plan, execution);
  float output = 0;
  ASSERT_TRUE(runtime().read(all, 512, std::as_writable_bytes(std::span(&output, 1))).ok());
  EXPECT_NEAR(output, 5.0F, 1e-5F);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}
#endif

TEST_F(CInterfaceTest, AttentionIsRight) {
  const UnrolledLoops unrolled;
  for (const char* text : {"b2 hq4 hkv2 33x40 d32 f16 causal lse", "h2 9x700 d32 softcap=5 kv_lengths=600"}) {
    const Problem problem = parsed(text);
    harness::ProblemRun run = ready_run(problem);
    const vkattn_attention_desc desc = desc_of(problem.desc);
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.max_dispatch_ns = 1;
    options.deferred_compilation = 1;
    vkattn_plan* plan = nullptr;
    ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
        << error_.message;
    vkattn_requirements needs = initial(vkattn_requirements_init);
    ASSERT_EQ(vkattn_plan_get_requirements(plan, &needs, &error_), VKATTN_SUCCESS) << error_.message;
    EXPECT_GT(needs.dispatches, 1U);
    Buffer workspace;
    if (needs.workspace_bytes != 0) workspace = runtime().create_buffer(needs.workspace_bytes).value();
    run.set_probability_type(std::get<AttentionPlan>(plan->plan).probability_type());
    const std::vector<vkattn_binding> tensors = bindings_of(run.tensors());
    for (const vkattn_binding& tensor : tensors) {
      EXPECT_LE(vkattn_plan_tensor_range(plan, tensor.tensor, tensor.offset), tensor.size);
    }
    EXPECT_EQ(vkattn_plan_tensor_range(plan, VKATTN_TENSOR_CACHE_KEY, 0), 0U);
    vkattn_execution execution = initial(vkattn_execution_init);
    execution.tensors = tensors.data();
    execution.tensor_count = static_cast<std::uint32_t>(tensors.size());
    execution.workspace = workspace.handle();
    execution.workspace_size = needs.workspace_bytes;
    vkattn_bindings* bindings = nullptr;
    ASSERT_EQ(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
        << error_.message;
    ASSERT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_SUCCESS) << error_.message;
    const auto record = [&](const vkattn_record_options* how) {
      vkattn_result result = VKATTN_SUCCESS;
      EXPECT_TRUE(
          runtime()
              .execute([&](VkCommandBuffer c) { result = vkattn_record(plan, c, bindings, how, &error_); })
              .ok());
      return result;
    };
    EXPECT_EQ(record(nullptr), VKATTN_ERROR_INVALID_ARGUMENT) << "not compiled yet";
    EXPECT_NE(std::string(error_.message).find("vkattn_plan_compile"), std::string::npos);
    ASSERT_EQ(vkattn_plan_compile(plan, &error_), VKATTN_SUCCESS) << error_.message;
    EXPECT_EQ(vkattn_plan_is_compiled(plan), 1U);
    std::uint32_t count = 0;
    ASSERT_EQ(vkattn_plan_get_estimates(plan, nullptr, &count, &error_), VKATTN_SUCCESS);
    ASSERT_EQ(count, needs.dispatches);
    std::vector<double> estimates(count);
    ASSERT_EQ(vkattn_plan_get_estimates(plan, estimates.data(), &count, &error_), VKATTN_SUCCESS);
    EXPECT_GT(estimates.front(), 0.0);
    // In two slices.
    vkattn_record_options slice = initial(vkattn_record_options_init);
    slice.dispatch_count = 1;
    ASSERT_EQ(record(&slice), VKATTN_SUCCESS) << error_.message;
    slice.first_dispatch = 1;
    slice.dispatch_count = count - 1;
    ASSERT_EQ(record(&slice), VKATTN_SUCCESS) << error_.message;
    EXPECT_STREQ(error_.message, "");
    expect_right(run);
    std::string described(vkattn_plan_describe(plan, nullptr, 0), ' ');
    EXPECT_EQ(vkattn_plan_describe(plan, described.data(), described.size()), described.size());
    EXPECT_EQ(described.find("attention: batch"), 0U);
    EXPECT_EQ(described.back(), 0);
    EXPECT_EQ(vkattn_plan_retain(plan), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS) << "the bindings keep what they need";
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_ERROR_INVALID_ARGUMENT) << "once too often";
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_ERROR_INVALID_ARGUMENT) << "once too often";
  }
}

TEST_F(CInterfaceTest, PushDescriptors) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no VK_KHR_push_descriptor";
  const Problem problem = parsed("h2 33x40 d32 causal lse");
  harness::ProblemRun run = ready_run(problem);
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.push_descriptors = 1;
  options.kv_splits = 1;
  options.kernel = "tile";
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  const std::vector<vkattn_binding> tensors = bindings_of(run.tensors());
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors.data();
  execution.tensor_count = static_cast<std::uint32_t>(tensors.size());
  vkattn_result result = VKATTN_SUCCESS;
  ASSERT_TRUE(runtime()
                  .execute([&](VkCommandBuffer c) {
                    result = vkattn_record_push(plan, c, &execution, nullptr, &error_);
                  })
                  .ok());
  ASSERT_EQ(result, VKATTN_SUCCESS) << error_.message;
  expect_right(run);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

// Two parts of one row: the second has three times the weight.
TEST_F(CInterfaceTest, AMergeIsRight) {
  vkattn_merge_desc desc = initial(vkattn_merge_desc_init);
  desc.rows = 1;
  desc.value_dim = 1;
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_merge(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  const Buffer all = runtime().create_buffer(1024).value();
  const float parts[] = {4, 8}, part_lse[] = {2, 2 + std::log(3.0F)};
  ASSERT_TRUE(runtime().write(all, 0, std::as_bytes(std::span(parts))).ok());
  ASSERT_TRUE(runtime().write(all, 64, std::as_bytes(std::span(part_lse))).ok());
  const vkattn_binding tensors[] = {{VKATTN_TENSOR_PARTS, all.handle(), 0, 8},
                                    {VKATTN_TENSOR_PART_LSE, all.handle(), 64, 8},
                                    {VKATTN_TENSOR_OUTPUT, all.handle(), 256, 4},
                                    {VKATTN_TENSOR_LSE, all.handle(), 512, 4}};
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  execute(plan, execution);
  float output = 0, lse = 0;
  ASSERT_TRUE(runtime().read(all, 256, std::as_writable_bytes(std::span(&output, 1))).ok());
  ASSERT_TRUE(runtime().read(all, 512, std::as_writable_bytes(std::span(&lse, 1))).ok());
  EXPECT_NEAR(output, 7.0F, 1e-5F);
  EXPECT_NEAR(lse, 2 + std::log(4.0F), 1e-5F);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

/// One row after another into a contiguous cache, read back.
TEST_F(CInterfaceTest, AnAppendIsRight) {
  constexpr std::int64_t kDim = 8, kSlots = 4;
  vkattn_append_desc desc = initial(vkattn_append_desc_init);
  desc.kv_heads = desc.new_length = 1;
  desc.head_dim = kDim;
  desc.cache_length = kSlots;
  desc.position = 2;
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_append(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  const Buffer rows = runtime().create_buffer(2 * kDim * 4).value();
  const Buffer cache = runtime().create_buffer(2 * kSlots * kDim * 4).value();
  std::vector<float> given(2 * kDim);
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i + 1);
  std::vector<float> kept(2 * kSlots * kDim, -1);
  ASSERT_TRUE(runtime().write(rows, 0, std::as_bytes(std::span(given))).ok());
  ASSERT_TRUE(runtime().write(cache, 0, std::as_bytes(std::span(kept))).ok());
  const vkattn_binding tensors[] = {
      {VKATTN_TENSOR_CACHE_VALUE, cache.handle(), kSlots * kDim * 4, kSlots * kDim * 4},
      {VKATTN_TENSOR_CACHE_KEY, cache.handle(), 0, kSlots * kDim * 4},
      {VKATTN_TENSOR_KEY, rows.handle(), 0, kDim * 4},
      {VKATTN_TENSOR_VALUE, rows.handle(), kDim * 4, kDim * 4}};
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  execute(plan, execution);
  ASSERT_TRUE(runtime().read(cache, 0, std::as_writable_bytes(std::span(kept))).ok());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t tensor = i / (kSlots * kDim), row = i / kDim % kSlots, dim = i % kDim;
    EXPECT_EQ(kept[i], row == 2 ? static_cast<float>(tensor * kDim + dim + 1) : -1.0F) << i;
  }
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

}  // namespace
}  // namespace vkattn::tests

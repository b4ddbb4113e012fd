// The C interface on a device: what it computes, with results checked against the reference.
#include <cmath>
#include <cstring>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

// With any kernel: kernels on matrix units need it most.
TEST_F(CInterfaceTest, SelfTestsTellRightFromWrong) {
  const Problem problem = parsed("hq4 hkv2 50x80 d32 f16 causal");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  const OwnedPlan plan = plan_of(vkattn_plan_create_attention, desc);
  const std::string configuration = text_of(vkattn_plan_get_configuration, plan);
  EXPECT_EQ(vkattn_plan_needs_self_test(plan) != 0, configuration.starts_with("matrix"));
  expect_self_test_tells(plan);
  // A kernel that failed is passed over. describe() has the reason.
  const std::string kernel = configuration.substr(0, configuration.find(','));
  const vkattn_kernel_refusal refusal{kernel.c_str(), "it was wrong"}, unknown{"tiles", "it was wrong"};
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.refusal_count = 1;
  vkattn_plan* none = nullptr;
  const auto create = [&] { return vkattn_plan_create_attention(device_, &desc, &options, &none, &error_); };
  EXPECT_TRUE(refused(create(), "vkattn_plan_options::refusals is null"));
  options.refusals = &unknown;
  EXPECT_TRUE(refused(create(), "refusals[0] names 'tiles'"));
  options.refusals = &refusal;
  const OwnedPlan other = plan_of(vkattn_plan_create_attention, desc, &options);
  const std::string text = text_of(vkattn_plan_describe, other);
  EXPECT_TRUE(has(text, "it was wrong"));
}

TEST_F(CInterfaceTest, SelfTestsAreOfTheDeviceOfTheirPlan) {
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  const OwnedPlan plan = plan_of_problem("33x40 d32", &options);
  RuntimeOptions kept_nowhere;
  kept_nowhere.pipeline_cache = false;
  const auto other = must(Runtime::create(kept_nowhere));
  // Devices of another runtime, and of the same VkDevice borrowed again.
  using OwnedDevice = Owned<vkattn_device, &vkattn_device_release>;
  const OwnedDevice other_device(borrowed(other)), again(borrowed(runtime()));
  vkattn_self_test* test = nullptr;
  EXPECT_TRUE(refused(vkattn_self_test_create(other_device, plan, VK_NULL_HANDLE, &test, &error_),
                      "another VkDevice"));
  EXPECT_EQ(test, nullptr);
  EXPECT_TRUE(done(vkattn_self_test_create(again, plan, VK_NULL_HANDLE, &test, &error_)));
  EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_ERROR_INVALID_ARGUMENT) << "once too often";
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
// The function is compiled, saved and released. Its loaded bytes then work without a compiler.
TEST_F(CInterfaceTest, AScoreFunctionWithoutACompiler) {
  const vkattn_score_buffer buffer{"bias", VKATTN_SCORE_BUFFER_FLOAT};
  vkattn_score_function_desc source = initial(vkattn_score_function_desc_init);
  source.source = "float score(float s, Position p) { return s + bias(p.key); }";
  source.buffers = &buffer;
  source.buffer_count = 1;
  vkattn_score_function* compiled = nullptr;
  const auto is_refused = [&](const vkattn_score_function_desc& wrong, const char* sentence) {
    EXPECT_EQ(vkattn_score_function_compile(&wrong, &compiled, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_STREQ(error_.message, sentence);
    EXPECT_EQ(compiled, nullptr);
  };
  vkattn_score_function_desc wrong = source;
  const vkattn_score_buffer no_such_type{"bias", 9};
  wrong.buffer_count = 1;
  wrong.buffers = nullptr;
  is_refused(wrong, "vkattn_score_function_desc::buffers is null, but its count is 1");
  wrong.buffers = &no_such_type;
  is_refused(wrong, "buffers[0].type is 9; the largest there is is 2");
  wrong.source = nullptr;
  is_refused(wrong, "vkattn_score_function_desc::source is null");
  ASSERT_TRUE(done(vkattn_score_function_compile(&source, &compiled, &error_)));
  std::size_t bytes = 0;
  const char* const shaders[] = {"attention_lane_features", "attention_lane_wide_features",
                                 "attention_lane_words_features"};
  ASSERT_TRUE(done(vkattn_score_function_save(compiled, shaders, 3, nullptr, &bytes, &error_)));
  std::vector<std::byte> blob(bytes);
  ASSERT_TRUE(done(vkattn_score_function_save(compiled, shaders, 3, blob.data(), &bytes, &error_)));
  EXPECT_EQ(vkattn_score_function_release(compiled), VKATTN_SUCCESS);
  vkattn_score_function* loaded = nullptr;
  ASSERT_TRUE(done(vkattn_score_function_load(blob.data(), blob.size(), &loaded, &error_)));

  // Two keys have equal scores, and the first gets a bias of log(3). So the weights are 3/4 and 1/4.
  const Problem problem = parsed("1x2 d1");
  vkattn_attention_desc desc = desc_of(problem.desc);
  desc.score_function = loaded;
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kernel = "tile";  // a kernel that is left out of the bytes
  vkattn_plan* none = nullptr;
  EXPECT_TRUE(refused(vkattn_plan_create_attention(device_, &desc, &options, &none, &error_),
                      "saved without the shader attention_tile", VKATTN_ERROR_UNSUPPORTED));
  options.kernel = "lane";
  const OwnedPlan plan = plan_of(vkattn_plan_create_attention, desc, &options);
  EXPECT_EQ(vkattn_score_function_release(loaded), VKATTN_SUCCESS);  // the plan keeps it
  std::vector<float> elements(256);
  elements[0] = 1;                     // the query; the keys are 0
  elements[32] = 4, elements[33] = 8;  // values
  elements[64] = std::log(3.0F);       // biases
  const Buffer all = filled_buffer(runtime(), elements);
  const vkattn_binding table{0, all.handle(), 256, 8};
  Execution execution = execution_of(plan, {{VKATTN_TENSOR_QUERY, all.handle(), 0, 4},
                                            {VKATTN_TENSOR_KEY, all.handle(), 64, 8},
                                            {VKATTN_TENSOR_VALUE, all.handle(), 128, 8},
                                            {VKATTN_TENSOR_OUTPUT, all.handle(), 512, 4}});
  execution.its.score_buffers = &table;
  execution.its.score_buffer_count = 1;
  execute(plan, execution.its);
  EXPECT_NEAR(elements_of<float>(runtime(), all, 1, 512)[0], 5.0F, 1e-5F);
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
    ASSERT_TRUE(done(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_)));
    const std::uint32_t dispatches = requirements_of(plan).dispatches;
    EXPECT_GT(dispatches, 1U);
    run.set_probability_type(std::get<AttentionPlan>(plan->plan).probability_type());
    const Execution execution = execution_of(plan, bindings_of(run.tensors()));
    for (const vkattn_binding& tensor : execution.tensors) {
      EXPECT_LE(vkattn_plan_tensor_range(plan, tensor.tensor, tensor.offset), tensor.size);
    }
    EXPECT_EQ(vkattn_plan_tensor_range(plan, VKATTN_TENSOR_CACHE_KEY, 0), 0U);
    vkattn_bindings* bindings = nullptr;
    ASSERT_TRUE(done(vkattn_bindings_create(plan, &execution.its, VK_NULL_HANDLE, &bindings, &error_)));
    EXPECT_TRUE(refused(record(plan, bindings), "vkattn_plan_compile")) << "not compiled yet";
    ASSERT_TRUE(done(vkattn_plan_compile(plan, &error_)));
    EXPECT_EQ(vkattn_plan_is_compiled(plan), 1U);
    const auto estimates = list_of<double>(vkattn_plan_get_estimates, plan);
    ASSERT_EQ(estimates.size(), dispatches);
    EXPECT_GT(estimates.front(), 0.0);
    // Records it in two slices.
    vkattn_record_options slice = initial(vkattn_record_options_init);
    slice.dispatch_count = 1;
    ASSERT_TRUE(done(record(plan, bindings, &slice)));
    slice.first_dispatch = 1;
    slice.dispatch_count = dispatches - 1;
    ASSERT_TRUE(done(record(plan, bindings, &slice)));
    EXPECT_STREQ(error_.message, "");
    expect_right(run);
    EXPECT_TRUE(text_of(vkattn_plan_describe, plan).starts_with("attention: batch"));
    EXPECT_EQ(vkattn_plan_retain(plan), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS) << "the bindings keep what they need";
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_ERROR_INVALID_ARGUMENT) << "once too often";
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_ERROR_INVALID_ARGUMENT) << "once too often";
  }
}

}  // namespace
}  // namespace vkattn::tests

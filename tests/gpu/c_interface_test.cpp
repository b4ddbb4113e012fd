// The C interface on a device: every kind of call, with results checked against the reference.
#include <vkattn/vkattn.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "gpu/any_kernel.hpp"
#include "runtime/runtime_state.hpp"

namespace vkattn::tests {
namespace {

template <class Struct>
Struct initial(void (*init)(Struct*)) {
  Struct made;
  init(&made);
  return made;
}

class CInterfaceTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const detail::RuntimeState& state = detail::RuntimeState::of(runtime());
    vkattn_physical_device physical = initial(vkattn_physical_device_init);
    physical.instance = state.instance->handle;
    physical.physical_device = state.physical_device;
    physical.get_instance_proc_addr = state.instance->loader.vkGetInstanceProcAddr;
    physical.api_version = state.instance->api_version;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    ASSERT_EQ(vkattn_enable_wanted(&physical, &info, &memory_, &error_), VKATTN_SUCCESS) << error_.message;
    // The runtime's device, on which the same is enabled.
    vkattn_device_desc desc = initial(vkattn_device_desc_init);
    desc.instance = physical.instance;
    desc.physical_device = physical.physical_device;
    desc.device = state.handle;
    desc.get_instance_proc_addr = physical.get_instance_proc_addr;
    desc.api_version = physical.api_version;
    desc.enabled_extensions = info.ppEnabledExtensionNames;
    desc.enabled_extension_count = info.enabledExtensionCount;
    desc.enabled_features = info.pNext;
    ASSERT_EQ(vkattn_device_create(&desc, &device_, &error_), VKATTN_SUCCESS) << error_.message;
  }
  void TearDown() override {
    EXPECT_EQ(vkattn_device_release(device_), VKATTN_SUCCESS);
    GpuTest::TearDown();
  }

  static std::vector<vkattn_binding> bindings_of(const AttentionTensors& tensors) {
    std::vector<vkattn_binding> all;
    for (const c::TensorMembers& members : c::tensor_members()) {
      if (members.attention == nullptr) continue;
      const BufferRange& range = tensors.*members.attention;
      if (range.buffer != VK_NULL_HANDLE)
        all.push_back({members.tensor, range.buffer, range.offset, range.size});
    }
    return all;
  }
  /// Problem strings as structures, which point at the strides of `desc`.
  static vkattn_attention_desc desc_of(AttentionDesc&& desc) = delete;
  static vkattn_attention_desc desc_of(const AttentionDesc& desc) {
    vkattn_attention_desc c = initial(vkattn_attention_desc_init);
    c.batch = desc.batch;
    c.query_heads = desc.query_heads;
    c.kv_heads = desc.kv_heads;
    c.query_length = desc.query_length;
    c.kv_length = desc.kv_length;
    c.head_dim = desc.head_dim;
    c.value_dim = desc.value_dim;
    c.layout = static_cast<vkattn_layout>(desc.layout);
    const auto tensor = [](const TensorDesc& t) {
      return vkattn_tensor_desc{static_cast<vkattn_data_type>(t.type), t.alignment_bytes,
                                t.strides ? reinterpret_cast<const vkattn_strides*>(&*t.strides) : nullptr};
    };
    static_assert(sizeof(Strides) == sizeof(vkattn_strides));
    c.query = tensor(desc.query);
    c.key = tensor(desc.key);
    c.value = tensor(desc.value);
    c.output = tensor(desc.output);
    c.causal = desc.causal ? 1 : 0;
    c.softcap = desc.softcap;
    c.has_lse = desc.has_lse ? 1 : 0;
    c.kv_lengths = static_cast<vkattn_lengths>(desc.kv_lengths);
    c.window_left = desc.window.left;
    c.window_right = desc.window.right;
    return c;
  }

  /// Binds, records and executes a plan, and destroys its bindings.
  void execute(vkattn_plan* plan, const vkattn_execution& execution) {
    vkattn_bindings* bindings = nullptr;
    ASSERT_EQ(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
        << error_.message;
    ASSERT_EQ(vkattn_bindings_rewrite(bindings, &execution, &error_), VKATTN_SUCCESS) << error_.message;
    vkattn_result recorded = VKATTN_SUCCESS;
    ASSERT_TRUE(runtime()
                    .execute([&](VkCommandBuffer commands) {
                      recorded = vkattn_record(plan, commands, bindings, nullptr, &error_);
                    })
                    .ok());
    ASSERT_EQ(recorded, VKATTN_SUCCESS) << error_.message;
    EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  }

  vkattn_enable_memory memory_{};
  vkattn_error error_ = initial(vkattn_error_init);
  vkattn_device* device_ = nullptr;
};

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
  vkattn_self_test* test = nullptr;
  ASSERT_EQ(vkattn_self_test_create(device_, plan, VK_NULL_HANDLE, &test, &error_), VKATTN_SUCCESS)
      << error_.message;
  std::vector<std::byte> memory(vkattn_self_test_buffer_bytes(test));
  const auto buffer = runtime().create_buffer(memory.size());
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(vkattn_self_test_fill(test, memory.data(), memory.size() - 1, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(vkattn_self_test_fill(test, memory.data(), memory.size(), &error_), VKATTN_SUCCESS);
  char difference[256] = "untouched";
  // Before anything ran the outputs are no results.
  ASSERT_EQ(
      vkattn_self_test_check(test, memory.data(), memory.size(), difference, sizeof(difference), &error_),
      VKATTN_SUCCESS);
  EXPECT_NE(std::string(difference), "");
  ASSERT_TRUE(runtime().write(*buffer, 0, memory).ok());
  vkattn_result recorded = VKATTN_SUCCESS;
  ASSERT_TRUE(runtime()
                  .execute([&](VkCommandBuffer commands) {
                    recorded = vkattn_self_test_record(test, commands, buffer->handle(), 0, &error_);
                  })
                  .ok());
  ASSERT_EQ(recorded, VKATTN_SUCCESS) << error_.message;
  ASSERT_TRUE(runtime().read(*buffer, 0, memory).ok());
  ASSERT_EQ(
      vkattn_self_test_check(test, memory.data(), memory.size(), difference, sizeof(difference), &error_),
      VKATTN_SUCCESS);
  EXPECT_EQ(std::string(difference), "");
  EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_self_test_destroy(test), VKATTN_ERROR_INVALID_ARGUMENT);
  // A kernel that failed is passed over, with the reason in describe().
  const std::string kernel(configuration, std::strcspn(configuration, ","));
  const vkattn_kernel_refusal refusal{kernel.c_str(), "it was wrong"};
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.refusal_count = 1;
  vkattn_plan* other = nullptr;
  EXPECT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &other, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  options.refusals = &refusal;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &other, &error_), VKATTN_SUCCESS)
      << error_.message;
  char text[4096];
  (void)vkattn_plan_describe(other, text, sizeof(text));
  EXPECT_NE(std::strstr(text, "it was wrong"), nullptr) << text;
  EXPECT_EQ(vkattn_plan_release(other), VKATTN_SUCCESS);
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
  constexpr std::int64_t kDim = 8, kRows = 4;
  vkattn_append_desc desc = initial(vkattn_append_desc_init);
  desc.kv_heads = desc.new_length = 1;
  desc.head_dim = kDim;
  desc.cache_length = kRows;
  desc.position = 2;
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_append(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
      << error_.message;
  const Buffer rows = runtime().create_buffer(2 * kDim * 4).value();
  const Buffer cache = runtime().create_buffer(2 * kRows * kDim * 4).value();
  std::vector<float> given(2 * kDim);
  for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<float>(i + 1);
  std::vector<float> kept(2 * kRows * kDim, -1);
  ASSERT_TRUE(runtime().write(rows, 0, std::as_bytes(std::span(given))).ok());
  ASSERT_TRUE(runtime().write(cache, 0, std::as_bytes(std::span(kept))).ok());
  const vkattn_binding tensors[] = {
      {VKATTN_TENSOR_CACHE_VALUE, cache.handle(), kRows * kDim * 4, kRows * kDim * 4},
      {VKATTN_TENSOR_CACHE_KEY, cache.handle(), 0, kRows * kDim * 4},
      {VKATTN_TENSOR_KEY, rows.handle(), 0, kDim * 4},
      {VKATTN_TENSOR_VALUE, rows.handle(), kDim * 4, kDim * 4}};
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors;
  execution.tensor_count = 4;
  execute(plan, execution);
  ASSERT_TRUE(runtime().read(cache, 0, std::as_writable_bytes(std::span(kept))).ok());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t tensor = i / (kRows * kDim), row = i / kDim % kRows, dim = i % kDim;
    EXPECT_EQ(kept[i], row == 2 ? static_cast<float>(tensor * kDim + dim + 1) : -1.0F) << i;
  }
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TEST_F(CInterfaceTest, ManyPlansAreCompiledByTheCallersWorkers) {
  std::vector<vkattn_plan*> plans;
  for (const char* text :
       {"33x40 d32", "33x40 d32 causal", "h2 1x64 d32", "9x20 d64 f16", "9x20 d64 softcap=3"}) {
    const Problem problem = parsed(text);
    const vkattn_attention_desc desc = desc_of(problem.desc);
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.deferred_compilation = 1;
    plans.push_back(nullptr);
    ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plans.back(), &error_), VKATTN_SUCCESS)
        << error_.message;
  }
  struct Workers {
    std::vector<std::thread> threads;
  } workers;
  const auto submit = [](void* user, vkattn_job job, void* data) {
    static_cast<Workers*>(user)->threads.emplace_back(job, data);
  };
  const auto count = static_cast<std::uint32_t>(plans.size());
  EXPECT_EQ(vkattn_prewarm(plans.data(), count, submit, &workers, &error_), VKATTN_SUCCESS) << error_.message;
  for (std::thread& thread : workers.threads) thread.join();
  EXPECT_EQ(workers.threads.size(), plans.size());
  for (vkattn_plan* const plan : plans) EXPECT_EQ(vkattn_plan_is_compiled(plan), 1U);
  // At once, by the calling thread.
  const auto at_once = [](void*, vkattn_job job, void* data) { job(data); };
  EXPECT_EQ(vkattn_prewarm(plans.data(), count, at_once, nullptr, &error_), VKATTN_SUCCESS);
  for (vkattn_plan* const plan : plans) EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TEST_F(CInterfaceTest, PipelinesAreKeptAsBytes) {
  const auto create = [&](const std::vector<std::byte>& blob, std::string& ignored) {
    std::array<char, 256> why{};
    vkattn_pipeline_cache* cache = nullptr;
    EXPECT_EQ(vkattn_pipeline_cache_create(device_, blob.data(), blob.size(), why.data(), why.size(), &cache,
                                           &error_),
              VKATTN_SUCCESS)
        << error_.message;
    ignored = why.data();
    return cache;
  };
  std::string ignored;
  vkattn_pipeline_cache* const first = create({}, ignored);
  EXPECT_EQ(ignored, "");
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.pipeline_cache = vkattn_pipeline_cache_handle(first);
  const Problem problem = parsed("33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS);
  size_t bytes = 0;
  ASSERT_EQ(vkattn_pipeline_cache_save(first, nullptr, &bytes, &error_), VKATTN_SUCCESS) << error_.message;
  std::vector<std::byte> blob(bytes);
  size_t too_few = bytes - 1;
  EXPECT_EQ(vkattn_pipeline_cache_save(first, blob.data(), &too_few, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(too_few, bytes);
  ASSERT_EQ(vkattn_pipeline_cache_save(first, blob.data(), &bytes, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_pipeline_cache_destroy(first), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_pipeline_cache_destroy(first), VKATTN_ERROR_INVALID_ARGUMENT);
  vkattn_pipeline_cache* const again = create(blob, ignored);
  EXPECT_EQ(ignored, "");
  EXPECT_EQ(vkattn_pipeline_cache_destroy(again), VKATTN_SUCCESS);
  struct Damage {
    const char* word;
    std::function<void(std::vector<std::byte>&)> change;
  };
  const auto flip = [](std::size_t at) { return [at](std::vector<std::byte>& b) { b[at] ^= std::byte{1}; }; };
  const Damage kDamages[] = {{"too few", [](auto& b) { b.resize(20); }},
                             {"bytes of data in place of", [](auto& b) { b.pop_back(); }},
                             {"no pipeline cache of this library", flip(0)},
                             {"another device", flip(8)},
                             {"another driver", flip(16)},
                             {"another driver", flip(24)},
                             {"checksum", flip(blob.size() - 1)}};
  for (const Damage& damage : kDamages) {
    std::vector<std::byte> damaged = blob;
    damage.change(damaged);
    vkattn_pipeline_cache* const cache = create(damaged, ignored);
    EXPECT_NE(ignored.find(damage.word), std::string::npos) << ignored;
    EXPECT_EQ(vkattn_pipeline_cache_destroy(cache), VKATTN_SUCCESS);
  }
}

TEST_F(CInterfaceTest, WhatIsWantedIsListed) {
  const detail::RuntimeState& state = detail::RuntimeState::of(runtime());
  vkattn_physical_device physical = initial(vkattn_physical_device_init);
  physical.instance = state.instance->handle;
  physical.physical_device = state.physical_device;
  physical.get_instance_proc_addr = state.instance->loader.vkGetInstanceProcAddr;
  physical.api_version = state.instance->api_version;
  std::uint32_t count = 0;
  ASSERT_EQ(vkattn_query_wanted(&physical, nullptr, &count, &error_), VKATTN_SUCCESS) << error_.message;
  ASSERT_GT(count, 5U);
  std::vector<vkattn_wanted_feature> all(count);
  ASSERT_EQ(vkattn_query_wanted(&physical, all.data(), &count, &error_), VKATTN_SUCCESS) << error_.message;
  for (const vkattn_wanted_feature& each : all) {
    EXPECT_NE(std::strlen(each.gain), 0U);
    EXPECT_NE(std::strlen(each.name) + std::strlen(each.extension), 0U);
  }
  // What the program does without is not supported; and it is left out of what is enabled.
  const auto push = [&] {
    return *std::ranges::find_if(all, [](const vkattn_wanted_feature& each) {
      return std::string_view(each.extension) == "VK_KHR_push_descriptor";
    });
  };
  const char* const kDisabled[] = {"VK_KHR_push_descriptor"};
  physical.disabled_extension_count = 1;
  EXPECT_EQ(vkattn_query_wanted(&physical, all.data(), &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  physical.disabled_extensions = kDisabled;
  ASSERT_EQ(vkattn_query_wanted(&physical, all.data(), &count, &error_), VKATTN_SUCCESS) << error_.message;
  EXPECT_EQ(push().is_supported, 0U);
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  ASSERT_EQ(vkattn_enable_wanted(&physical, &info, &memory_, &error_), VKATTN_SUCCESS) << error_.message;
  for (const char* name : std::span(info.ppEnabledExtensionNames, info.enabledExtensionCount)) {
    EXPECT_STRNE(name, kDisabled[0]);
  }
}

TEST_F(CInterfaceTest, EveryChoiceCanBeHad) {
  const Problem problem = parsed("h2 33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  std::uint32_t count = 0;
  ASSERT_EQ(vkattn_query_choices(device_, &desc, nullptr, &count, &error_), VKATTN_SUCCESS) << error_.message;
  ASSERT_GT(count, 1U);
  std::vector<vkattn_kernel_choice> choices(count);
  ASSERT_EQ(vkattn_query_choices(device_, &desc, choices.data(), &count, &error_), VKATTN_SUCCESS);
  for (const vkattn_kernel_choice& choice : {choices.front(), choices.back()}) {
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.kernel = choice.kernel;
    options.tile = &choice.tile;
    options.deferred_compilation = 1;
    vkattn_plan* plan = nullptr;
    ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
        << error_.message;
    vkattn_kernel_choice made{};
    ASSERT_EQ(vkattn_plan_get_choice(plan, &made, &error_), VKATTN_SUCCESS);
    EXPECT_EQ(std::memcmp(&made.tile, &choice.tile, sizeof(choice.tile)), 0);
    EXPECT_STREQ(made.kernel, choice.kernel);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  }
  vkattn_attention_desc wrong = desc;
  wrong.head_dim = 0;
  EXPECT_EQ(vkattn_query_choices(device_, &wrong, nullptr, &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_F(CInterfaceTest, TheDriverTellsOfPipelines) {
  const Problem problem = parsed("h2 33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS);
  std::uint32_t count = 0;
  EXPECT_NE(vkattn_plan_get_statistics(plan, nullptr, &count, &error_), VKATTN_SUCCESS) << "not asked for";
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  if (!capabilities().pipeline_statistics) GTEST_SKIP() << "the device tells nothing of its pipelines";
  options.capture_statistics = 1;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS);
  ASSERT_EQ(vkattn_plan_get_statistics(plan, nullptr, &count, &error_), VKATTN_SUCCESS) << error_.message;
  std::vector<vkattn_statistic> all(count);
  ASSERT_EQ(vkattn_plan_get_statistics(plan, all.data(), &count, &error_), VKATTN_SUCCESS);
  vkattn_kernel_choice choice{};
  ASSERT_EQ(vkattn_plan_get_choice(plan, &choice, &error_), VKATTN_SUCCESS);
  for (const vkattn_statistic& each : all) {
    EXPECT_STREQ(each.pipeline, choice.kernel);
    EXPECT_STRNE(each.name, "");
  }
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TEST_F(CInterfaceTest, BlockMasksHaveALayout) {
  const Problem problem = parsed("h2 70x300 d32");
  vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan* plan = nullptr;
  vkattn_block_mask_layout layout{1, 1, 1, 1, 1};
  for (const bool has : {false, true}) {
    desc.mask = has ? VKATTN_MASK_TYPE_BYTES : VKATTN_MASK_TYPE_NONE;
    ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS)
        << error_.message;
    ASSERT_EQ(vkattn_plan_get_block_mask_layout(plan, &layout, &error_), VKATTN_SUCCESS);
    EXPECT_EQ(layout.rows != 0, has);
    EXPECT_EQ(layout.row_stride * layout.keys >= 300, has);
    EXPECT_EQ(vkattn_plan_tensor_range(plan, VKATTN_TENSOR_BLOCK_MASK, 0) != 0, has);
    EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  }
}

TEST_F(CInterfaceTest, SlicesForFrames) {
  const Problem problem = parsed("h8 33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.max_dispatch_ns = 1;
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS);
  std::uint32_t dispatches = 0;
  ASSERT_EQ(vkattn_plan_get_estimates(plan, nullptr, &dispatches, &error_), VKATTN_SUCCESS);
  ASSERT_GT(dispatches, 3U);
  vkattn_frame_budget* budget = nullptr;
  ASSERT_EQ(vkattn_frame_budget_create(plan, &budget, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS) << "it has its own estimates";
  vkattn_record_options slice = initial(vkattn_record_options_init);
  ASSERT_EQ(vkattn_frame_budget_next(budget, 1e6, &slice, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(slice.dispatch_count, 1U);
  ASSERT_EQ(vkattn_frame_budget_measured(budget, &slice, 1e6, &error_), VKATTN_SUCCESS);
  EXPECT_DOUBLE_EQ(vkattn_frame_budget_estimate(budget, &slice), 1e6);
  EXPECT_LT(vkattn_frame_budget_estimate(budget, nullptr), 0);
  // All that is left in a frame that is long enough, and then none.
  ASSERT_EQ(vkattn_frame_budget_next(budget, 1e12, &slice, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(slice.first_dispatch, 1U);
  EXPECT_EQ(slice.dispatch_count, dispatches - 1);
  EXPECT_EQ(vkattn_frame_budget_is_done(budget), 1U);
  EXPECT_EQ(vkattn_frame_budget_restart(budget), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_frame_budget_is_done(budget), 0U);
  slice.struct_size = 1;
  EXPECT_EQ(vkattn_frame_budget_next(budget, 1e6, &slice, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_frame_budget_destroy(budget), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_frame_budget_destroy(budget), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_F(CInterfaceTest, PlansKeepTheirDevice) {
  const Problem problem = parsed("33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  EXPECT_EQ(vkattn_device_retain(device_), VKATTN_SUCCESS);
  vkattn_plan* plan = nullptr;
  ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, nullptr, &plan, &error_), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_device_release(device_), VKATTN_SUCCESS);
  vkattn_plan* none = plan;
  vkattn_attention_desc wrong = desc;
  wrong.head_dim = -1;
  EXPECT_EQ(vkattn_plan_create_attention(device_, &wrong, nullptr, &none, &error_),
            VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_NE(std::string(error_.message).find("head_dim"), std::string::npos);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

}  // namespace
}  // namespace vkattn::tests

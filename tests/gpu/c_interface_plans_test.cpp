// The C interface on a device: making, keeping and asking plans and other objects.
#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

TEST_F(CInterfaceTest, ManyPlansAreCompiledByTheCallersWorkers) {
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.deferred_compilation = 1;
  std::vector<OwnedPlan> owned;
  std::vector<vkattn_plan*> plans;
  for (const char* text :
       {"33x40 d32", "33x40 d32 causal", "h2 1x64 d32", "9x20 d64 f16", "9x20 d64 softcap=3"}) {
    plans.push_back(owned.emplace_back(plan_of_problem(text, &options)));
  }
  std::vector<std::thread> threads;
  const auto submit = [](void* user, vkattn_job job, void* data) {
    static_cast<std::vector<std::thread>*>(user)->emplace_back(job, data);
  };
  const auto count = static_cast<std::uint32_t>(plans.size());
  EXPECT_TRUE(done(vkattn_prewarm(plans.data(), count, submit, &threads, &error_)));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(threads.size(), plans.size());
  for (vkattn_plan* const plan : plans) EXPECT_EQ(vkattn_plan_is_compiled(plan), 1U);
  // The calling thread does each job at once.
  const auto at_once = [](void*, vkattn_job job, void* data) { job(data); };
  EXPECT_TRUE(done(vkattn_prewarm(plans.data(), count, at_once, nullptr, &error_)));
}

TEST_F(CInterfaceTest, PipelinesAreKeptAsBytes) {
  using OwnedCache = Owned<vkattn_pipeline_cache, &vkattn_pipeline_cache_destroy>;
  const auto create = [&](const std::vector<std::byte>& blob, std::string& ignored) {
    std::array<char, 256> why{};
    vkattn_pipeline_cache* cache = nullptr;
    EXPECT_TRUE(done(vkattn_pipeline_cache_create(device_, blob.data(), blob.size(), why.data(), why.size(),
                                                  &cache, &error_)));
    ignored = why.data();
    return cache;
  };
  std::string ignored;
  vkattn_pipeline_cache* const first = create({}, ignored);
  EXPECT_EQ(ignored, "");
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.pipeline_cache = vkattn_pipeline_cache_handle(first);
  const OwnedPlan plan = plan_of_problem("33x40 d32", &options);
  std::size_t bytes = 0;
  ASSERT_TRUE(done(vkattn_pipeline_cache_save(first, nullptr, &bytes, &error_)));
  std::vector<std::byte> blob(bytes);
  std::size_t too_few = bytes - 1;
  EXPECT_EQ(vkattn_pipeline_cache_save(first, blob.data(), &too_few, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(too_few, bytes);
  ASSERT_TRUE(done(vkattn_pipeline_cache_save(first, blob.data(), &bytes, &error_)));
  EXPECT_EQ(vkattn_pipeline_cache_destroy(first), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_pipeline_cache_destroy(first), VKATTN_ERROR_INVALID_ARGUMENT);
  const OwnedCache again(create(blob, ignored));
  EXPECT_EQ(ignored, "");
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
    const OwnedCache cache(create(damaged, ignored));
    EXPECT_TRUE(has(ignored, damage.word));
  }
}

TEST_F(CInterfaceTest, WhatIsWantedIsListed) {
  vkattn_physical_device physical = physical_device(runtime());
  const auto all = list_of<vkattn_wanted_feature>(vkattn_query_wanted, &physical);
  ASSERT_GT(all.size(), 5U);
  for (const vkattn_wanted_feature& each : all) {
    EXPECT_NE(std::strlen(each.gain), 0U);
    EXPECT_NE(std::strlen(each.name) + std::strlen(each.extension), 0U);
  }
  // A feature that the program does without is not supported, and is missing among the enabled ones.
  const char* const kDisabled[] = {"VK_KHR_push_descriptor"};
  physical.disabled_extension_count = 1;
  std::uint32_t count = 0;
  EXPECT_EQ(vkattn_query_wanted(&physical, nullptr, &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  physical.disabled_extensions = kDisabled;
  const auto less = list_of<vkattn_wanted_feature>(vkattn_query_wanted, &physical);
  const auto push = std::ranges::find_if(less, [&](const vkattn_wanted_feature& each) {
    return std::string_view(each.extension) == kDisabled[0];
  });
  ASSERT_NE(push, less.end());
  EXPECT_EQ(push->is_supported, 0U);
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  vkattn_enable_memory memory{};
  ASSERT_TRUE(done(vkattn_enable_wanted(&physical, &info, &memory, &error_)));
  for (const char* name : std::span(info.ppEnabledExtensionNames, info.enabledExtensionCount)) {
    EXPECT_STRNE(name, kDisabled[0]);
  }
}

TEST_F(CInterfaceTest, EveryChoiceCanBeHad) {
  const Problem problem = parsed("h2 33x40 d32");
  vkattn_attention_desc desc = desc_of(problem.desc);
  const vkattn_attention_desc* const asked = &desc;
  const auto choices = list_of<vkattn_kernel_choice>(vkattn_query_choices, device_, asked);
  ASSERT_GT(choices.size(), 1U);
  for (const vkattn_kernel_choice& choice : {choices.front(), choices.back()}) {
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.kernel = choice.kernel;
    options.tile = &choice.tile;
    options.deferred_compilation = 1;
    const vkattn_kernel_choice made = choice_of(plan_of(vkattn_plan_create_attention, desc, &options));
    EXPECT_EQ(std::memcmp(&made.tile, &choice.tile, sizeof(choice.tile)), 0);
    EXPECT_STREQ(made.kernel, choice.kernel);
  }
  desc.head_dim = 0;
  std::uint32_t count = 0;
  EXPECT_EQ(vkattn_query_choices(device_, &desc, nullptr, &count, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
}

/// One problem of each kind of plan that has several kernels.
struct SmallProblems {
  explicit SmallProblems(const vkattn_attention_desc& heads) : attention(heads) {
    attention.kv_length = attention.head_dim = 8;
    attention.has_lse = 1;
    backward.attention = &attention;
    product.rows = product.columns = product.inner = 4;
  }
  SmallProblems(const SmallProblems&) = delete;
  SmallProblems& operator=(const SmallProblems&) = delete;

  vkattn_attention_desc attention;
  vkattn_backward_desc backward = initial(vkattn_backward_desc_init);
  vkattn_matmul_desc product = initial(vkattn_matmul_desc_init);
};

/// A plan takes the first kernel without a reason against it. This holds for each kind of plan with several
/// kernels.
TEST_F(CInterfaceTest, KernelsAreListedWithReasonsAgainstThem) {
  const SmallProblems small(heads());
  const vkattn_attention_desc& attention = small.attention;
  const vkattn_backward_desc& backward = small.backward;
  const vkattn_matmul_desc& product = small.product;
  const auto check = [&](auto* query, const auto& desc, auto* create) {
    const auto* const asked = &desc;
    const auto all = list_of<vkattn_kernel_support>(query, device_, asked);
    const auto first = std::ranges::find_if(all, [](const auto& each) { return each.reason[0] == '\0'; });
    ASSERT_NE(first, all.end());
    EXPECT_STREQ(choice_of(plan_of(create, desc)).kernel, first->kernel);
    EXPECT_EQ(query(nullptr, asked, nullptr, nullptr, &error_), VKATTN_ERROR_INVALID_ARGUMENT);
  };
  check(vkattn_query_kernels_attention, attention, vkattn_plan_create_attention);
  check(vkattn_query_kernels_backward, backward, vkattn_plan_create_backward);
  check(vkattn_query_kernels_matmul, product, vkattn_plan_create_matmul);
  const vkattn_attention_desc* const asked = &attention;
  for (const auto& each : list_of<vkattn_kernel_support>(vkattn_query_kernels_attention, device_, asked)) {
    if (std::string_view(each.kernel) != "matrix") continue;
    EXPECT_TRUE(has(each.reason, "takes float16"));
  }
}

/// Attention, gradients and products have statistics of the driver, or a sentence says why there are none.
TEST_F(CInterfaceTest, TheDriverTellsOfPipelines) {
  const SmallProblems small(heads());
  const vkattn_attention_desc& attention = small.attention;
  const vkattn_backward_desc& backward = small.backward;
  const vkattn_matmul_desc& product = small.product;
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  std::uint32_t count = 0;
  const OwnedPlan unasked = plan_of(vkattn_plan_create_attention, attention);
  EXPECT_NE(vkattn_plan_get_statistics(unasked, nullptr, &count, &error_), VKATTN_SUCCESS) << "not asked for";
  options.capture_statistics = 1;
  if (!capabilities().pipeline_statistics) {
    constexpr const char* kMissing = "VK_KHR_pipeline_executable_properties";
    vkattn_plan* none = nullptr;
    EXPECT_TRUE(refused(vkattn_plan_create_attention(device_, &attention, &options, &none, &error_), kMissing,
                        VKATTN_ERROR_UNSUPPORTED));
    EXPECT_TRUE(refused(vkattn_plan_create_backward(device_, &backward, &options, &none, &error_), kMissing,
                        VKATTN_ERROR_UNSUPPORTED));
    EXPECT_TRUE(refused(vkattn_plan_create_matmul(device_, &product, &options, &none, &error_), kMissing,
                        VKATTN_ERROR_UNSUPPORTED));
    return;
  }
  const OwnedPlan plans[] = {plan_of(vkattn_plan_create_attention, attention, &options),
                             plan_of(vkattn_plan_create_backward, backward, &options),
                             plan_of(vkattn_plan_create_matmul, product, &options)};
  for (const OwnedPlan& plan : plans) {
    for (const vkattn_statistic& each : list_of<vkattn_statistic>(vkattn_plan_get_statistics, plan.get())) {
      if (&plan == plans) {
        EXPECT_STREQ(each.pipeline, choice_of(plan).kernel);
      }
      EXPECT_STRNE(each.name, "");
    }
  }
}

TEST_F(CInterfaceTest, BlockMasksHaveALayout) {
  const Problem problem = parsed("h2 70x300 d32");
  vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_block_mask_layout layout{1, 1, 1, 1, 1};
  for (const bool has : {false, true}) {
    desc.mask = has ? VKATTN_MASK_TYPE_BYTES : VKATTN_MASK_TYPE_NONE;
    const OwnedPlan plan = plan_of(vkattn_plan_create_attention, desc);
    ASSERT_TRUE(done(vkattn_plan_get_block_mask_layout(plan, &layout, &error_)));
    EXPECT_EQ(layout.rows != 0, has);
    EXPECT_EQ(layout.row_stride * layout.keys >= 300, has);
    EXPECT_EQ(vkattn_plan_tensor_range(plan, VKATTN_TENSOR_BLOCK_MASK, 0) != 0, has);
  }
}

TEST_F(CInterfaceTest, SlicesForFrames) {
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.max_dispatch_ns = 1;
  vkattn_frame_budget* budget = nullptr;
  std::uint32_t dispatches = 0;
  {
    const OwnedPlan plan = plan_of_problem("h8 33x40 d32", &options);
    dispatches = requirements_of(plan).dispatches;
    ASSERT_GT(dispatches, 3U);
    ASSERT_TRUE(done(vkattn_frame_budget_create(plan, &budget, &error_)));
  }
  // The budget has its own estimates.
  vkattn_record_options slice = initial(vkattn_record_options_init);
  ASSERT_TRUE(done(vkattn_frame_budget_next(budget, 1e6, &slice, &error_)));
  EXPECT_EQ(slice.dispatch_count, 1U);
  ASSERT_TRUE(done(vkattn_frame_budget_measured(budget, &slice, 1e6, &error_)));
  EXPECT_DOUBLE_EQ(vkattn_frame_budget_estimate(budget, &slice), 1e6);
  EXPECT_LT(vkattn_frame_budget_estimate(budget, nullptr), 0);
  // A frame that is long enough takes all remaining dispatches. Then none remain.
  ASSERT_TRUE(done(vkattn_frame_budget_next(budget, 1e12, &slice, &error_)));
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

TEST_F(CInterfaceTest, ParametersTakeMemoryOfTheCallers) {
  const Problem problem = parsed("h2 33x40 d32 softcap=5");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  const std::uint32_t bytes = requirements_of(plan_of(vkattn_plan_create_attention, desc)).parameter_bytes;
  ASSERT_GT(bytes, 0U);
  const detail::ParameterPiece memory = runtime().device().state().parameters->take(bytes).value();
  vkattn_device* const device = borrowed_with(memory, bytes);
  vkattn_plan* made = nullptr;
  ASSERT_TRUE(done(vkattn_plan_create_attention(device, &desc, nullptr, &made, &error_)));
  const OwnedPlan plan(made);
  EXPECT_EQ(vkattn_device_release(device), VKATTN_SUCCESS);
  const harness::ProblemRun run = ready_run(problem);
  const Execution execution = execution_of(plan, bindings_of(run.tensors()));
  const OwnedBindings bindings = bindings_of_plan(plan, execution.its);
  vkattn_bindings* more = nullptr;
  EXPECT_TRUE(refused(vkattn_bindings_create(plan, &execution.its, VK_NULL_HANDLE, &more, &error_),
                      "parameter_size", VKATTN_ERROR_OUT_OF_MEMORY));
  ASSERT_TRUE(done(record(plan, bindings)));
  expect_right(run);
}

TEST_F(CInterfaceTest, WrongUsesAreSentences) {
  const Problem problem = parsed("h2 33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kv_splits = 2;  // so that the plan needs a workspace
  const OwnedPlan other = plan_of(vkattn_plan_create_attention, desc, &options);
  vkattn_plan* plan = nullptr;
  ASSERT_TRUE(done(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_)));
  const harness::ProblemRun run = ready_run(problem);
  Execution good = execution_of(plan, bindings_of(run.tensors()));
  ASSERT_GT(good.its.workspace_size, 4U);
  vkattn_bindings* bindings = nullptr;
  const auto is_refused = [&](const vkattn_execution& execution, const char* words) {
    bindings = nullptr;
    EXPECT_TRUE(refused(vkattn_bindings_create(plan, &execution, VK_NULL_HANDLE, &bindings, &error_), words));
    EXPECT_EQ(bindings, nullptr) << words;
  };
  vkattn_execution wrong = good.its;
  wrong.workspace_size -= 4;
  is_refused(wrong, "workspace");
  wrong.workspace = VK_NULL_HANDLE;
  is_refused(wrong, "workspace");
  const vkattn_binding query = good.tensors[0];
  good.tensors[0].offset += 2;
  is_refused(good.its, "query");
  good.tensors[0] = query;
  good.tensors[0].size = 4;
  is_refused(good.its, "query");
  good.tensors[0] = query;
  wrong = good.its;
  --wrong.tensor_count;
  is_refused(wrong, "its buffer is null");
  wrong = good.its;
  wrong.struct_size += 8;
  is_refused(wrong, "struct_size");
  ASSERT_TRUE(done(vkattn_bindings_create(plan, &good.its, VK_NULL_HANDLE, &bindings, &error_)));
  EXPECT_TRUE(refused(record(other, bindings), "another plan"));
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_retain(plan), VKATTN_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vkattn::tests

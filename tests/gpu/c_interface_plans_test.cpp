// The C interface on a device: what is made, kept and asked beside computing.
#include <array>
#include <cstring>
#include <string>
#include <thread>

#include "gpu/c_interface.hpp"

namespace vkattn::tests {
namespace {

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
  vkattn_physical_device physical = physical_device(runtime());
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
  vkattn_enable_memory memory{};
  ASSERT_EQ(vkattn_enable_wanted(&physical, &info, &memory, &error_), VKATTN_SUCCESS) << error_.message;
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

TEST_F(CInterfaceTest, WrongUsesAreSentences) {
  const Problem problem = parsed("h2 33x40 d32");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kv_splits = 2;  // so that there is a workspace
  std::array<vkattn_plan*, 2> plans{};
  for (vkattn_plan*& plan : plans) {
    ASSERT_EQ(vkattn_plan_create_attention(device_, &desc, &options, &plan, &error_), VKATTN_SUCCESS)
        << error_.message;
  }
  vkattn_requirements needs = initial(vkattn_requirements_init);
  ASSERT_EQ(vkattn_plan_get_requirements(plans[0], &needs, &error_), VKATTN_SUCCESS);
  ASSERT_GT(needs.workspace_bytes, 4U);
  const harness::ProblemRun run = ready_run(problem);
  const Buffer workspace = runtime().create_buffer(needs.workspace_bytes).value();
  std::vector<vkattn_binding> tensors = bindings_of(run.tensors());
  vkattn_execution execution = initial(vkattn_execution_init);
  execution.tensors = tensors.data();
  execution.tensor_count = static_cast<std::uint32_t>(tensors.size());
  execution.workspace = workspace.handle();
  execution.workspace_size = needs.workspace_bytes;
  vkattn_bindings* bindings = nullptr;
  const auto refused = [&](const char* words) {
    bindings = nullptr;
    const vkattn_result result =
        vkattn_bindings_create(plans[0], &execution, VK_NULL_HANDLE, &bindings, &error_);
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << words;
    EXPECT_EQ(bindings, nullptr) << words;
    EXPECT_NE(std::strstr(error_.message, words), nullptr) << error_.message;
  };
  execution.workspace_size -= 4;
  refused("workspace");
  execution.workspace = VK_NULL_HANDLE;
  refused("workspace");
  execution.workspace = workspace.handle();
  execution.workspace_size += 4;
  const vkattn_binding query = tensors[0];
  tensors[0].offset += 2;
  refused("query");
  tensors[0] = query;
  tensors[0].size = 4;
  refused("query");
  tensors[0] = query;
  --execution.tensor_count;
  refused("its buffer is null");
  ++execution.tensor_count;
  execution.struct_size += 8;
  refused("struct_size");
  execution.struct_size -= 8;
  ASSERT_EQ(vkattn_bindings_create(plans[0], &execution, VK_NULL_HANDLE, &bindings, &error_), VKATTN_SUCCESS)
      << error_.message;
  vkattn_result recorded = VKATTN_SUCCESS;
  ASSERT_TRUE(runtime()
                  .execute([&](VkCommandBuffer commands) {
                    recorded = vkattn_record(plans[1], commands, bindings, nullptr, &error_);
                  })
                  .ok());
  EXPECT_EQ(recorded, VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(error_.message, "another plan"), nullptr) << error_.message;
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_ERROR_INVALID_ARGUMENT);
  for (vkattn_plan* const plan : plans) EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plans[0]), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_retain(plans[0]), VKATTN_ERROR_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace vkattn::tests

// supports() tells without a device what a plan is on a device. Plans are made on a Vulkan without a device,
// seen through made-up capabilities.
#include <vkattn/vkattn.h>
#include <vkattn/attention_plan.hpp>
#include <vkattn/operations.hpp>
#include <vkattn/runtime.hpp>
#include <vkattn/supports.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.hpp"
#include "support/c_problem.hpp"
#include "support/host_vulkan.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/small_problems.hpp"
#include "unit/families.hpp"
#include "unit/made_up_device.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

std::vector<std::string> names_of(const std::vector<WantedFeature>& features) {
  std::vector<std::string> names;
  for (const WantedFeature& feature : features) names.emplace_back(feature.name);
  return names;
}

bool is_in(std::string_view name, const std::vector<WantedFeature>& features) {
  return std::ranges::find(features, name, &WantedFeature::name) != features.end();
}

class Supports : public testing::Test {
 protected:
  template <class Desc>
  void expect_like_plan(const Desc& desc, const Capabilities& device,
                        const typename Desc::Plan::Options& options = {}) {
    const Result<Support> support = supports(desc, device, options);
    const auto plan = Desc::Plan::create(device_->device.state().seen_through(device), desc, options);
    ASSERT_EQ(support.ok(), plan.ok()) << message_of(support) << message_of(plan);
    if (!plan) {
      EXPECT_EQ(support.error().message, plan.error().message);
      EXPECT_EQ(support.error().code, plan.error().code);
      return;
    }
    const PlanRequirements needs = plan->requirements();
    EXPECT_EQ(support->kernel, plan->kernel_name());
    EXPECT_EQ(support->storage_buffers, needs.storage_buffers);
    EXPECT_EQ(support->push_constant_bytes, needs.push_constant_bytes);
    EXPECT_EQ(support->workspace_bytes, needs.workspace_bytes);
    EXPECT_EQ(support->dispatches, needs.dispatches);
    EXPECT_TRUE(has(plan->describe(), support->summary));
    for (const KernelSupport& kernel : support->kernels) {
      if (kernel.reason.empty()) continue;
      EXPECT_TRUE(
          has(plan->describe(), "refused: " + std::string(kernel.kernel) + ": " + kernel.reason + "\n"));
    }
  }

  HostVulkan vulkan_{HostSettings{}};
  std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device_{HostVulkan::borrow(),
                                                                           &vkattn_device_release};
};

TEST_F(Supports, TellWhatThePlanIsOnEveryFamily) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const Capabilities device = device_of(family);
    for (const char* const problem :
         {"h8 1024x1024 d128 f16", "hq32 hkv8 1x4096 d128 f16", "h4 100x70 d64 mask=f32 alibi sinks lse",
          "h2 40x90 d40 bf16 dropout=0.1", "h2 70x4096 d64 cache=q8_0", "b0 8x8 d8"}) {
      SCOPED_TRACE(problem);
      expect_like_plan(desc_of(problem), device);
    }
    expect_like_plan(backward_of("h8 512x512 d64 f16"), device);
    expect_like_plan(product_of(500, 600, 700), device);
    expect_like_plan(small_append(), device);
    expect_like_plan(small_merge(), device);
  }
}

TEST_F(Supports, RefuseLikeThePlan) {
  Capabilities device = small_device(DeviceType::kDiscreteGpu);
  device.max_stage_storage_buffers = 4;
  const AttentionDesc of_five = desc_of("h4 100x70 d64 weights=probabilities lse");
  EXPECT_TRUE(has(message_of(supports(of_five, device)), "storage buffers"));
  expect_like_plan(of_five, device);
  expect_like_plan(desc_of("h4 100x70 d64 mask=f32 alibi=given sinks lse"), device);
  expect_like_plan(desc_of("h4 100x70 d64"), device, {.kernel = "matrix"});
  expect_like_plan(desc_of("h4 100x70 d64"), device, {.kernel = "none"});
  expect_like_plan(desc_of("h4 100x70 d64 f16"), device, {.arithmetic_type = DataType::kFloat16});
  expect_like_plan(desc_of("h4 100x70 d64"), device, {.chunk_keys = 64});
  expect_like_plan(desc_of("h4 100x70 d64"), device, {.push_descriptors = true});
  expect_like_plan(desc_of("h4 100x70 d64"), device, {.capture_statistics = true});
  expect_like_plan(AttentionDesc{}, device);
}

TEST_F(Supports, ALayerIsToBeAskedStepByStep) {
  EXPECT_TRUE(has(message_of(supports(small_layer(), made_up_gpu())), "one by one"));
  EXPECT_TRUE(has(message_of(supports(small_layer_gradients(), made_up_gpu())), "one by one"));
}

/// A device that reports nothing as enabled runs everything that needs few buffers.
TEST_F(Supports, NothingThatIsEnabledStillRuns) {
  const Support support = must(supports(desc_of("h8 512x512 d64 f16"), Capabilities{}));
  EXPECT_TRUE(support.uses.empty());
  EXPECT_LE(support.storage_buffers, 4U);
  EXPECT_TRUE(is_in("storageBuffer16BitAccess", support.lacks));
  EXPECT_FALSE(support.better.empty());
}

/// Turns features off.
Capabilities without(Capabilities device, const std::vector<std::string>& names) {
  for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
    if (std::ranges::find(names, row.name) != names.end()) device.*row.member = false;
  }
  device.required_subgroup_size &= device.subgroup_size_control;
  return device;
}

/// Natively built shaders may lack the kernels on matrix units, so other features are used.
TEST_F(Supports, UsesAreTheFeaturesWithoutWhichThereIsAnotherForm) {
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    const Capabilities device = device_of(family);
    const AttentionDesc desc = desc_of("h8 1024x1024 d128 f16");
    const Support support = must(supports(desc, device));
    EXPECT_TRUE(is_in("storageBuffer16BitAccess", support.uses));
    EXPECT_EQ(is_in("vulkanMemoryModel", support.uses), support.kernel == "matrix");
    std::vector<std::string> others;
    for (const detail::DeviceFeatureRow& row : detail::device_feature_table()) {
      if (device.*row.member && !is_in(row.name, support.uses)) others.emplace_back(row.name);
    }
    const Support same = must(supports(desc, without(device, others)));
    EXPECT_EQ(same.kernel, support.kernel);
    EXPECT_EQ(same.summary, support.summary);
    EXPECT_EQ(names_of(same.uses), names_of(support.uses));
    for (const WantedFeature& feature : support.uses) {
      EXPECT_TRUE(feature.is_supported) << feature.name;
      const std::vector<std::string> name{std::string(feature.name)};
      const Support lacking = must(supports(desc, without(device, name)));
      EXPECT_TRUE(is_in(feature.name, lacking.lacks)) << feature.name;
      EXPECT_TRUE(has(lacking.better, support.kernel));
      for (const WantedFeature& lacked : lacking.lacks) EXPECT_FALSE(lacked.is_supported);
    }
  }
}

/// With this feature decode merges its parts in its own dispatch.
TEST_F(Supports, TheScopeOfTheDeviceMergesParts) {
  constexpr const char* kScope = "vulkanMemoryModelDeviceScope";
  const AttentionDesc desc = desc_of("b2 hq32 hkv8 1x4096 d128 f16");
  const Capabilities device = changed(matrix_gpu(), [](Capabilities& c) {
    c.compute_units = 132;
    c.vulkan_memory_model_device_scope = c.mapped_device_memory = true;
  });
  const Support whole = must(supports(desc, device));
  EXPECT_EQ(whole.kernel, "decode");
  EXPECT_EQ(whole.dispatches, 1U);
  EXPECT_TRUE(is_in(kScope, whole.uses));
  const Support lacking = must(supports(desc, without(device, {kScope})));
  EXPECT_EQ(lacking.dispatches, 2U);
  EXPECT_FALSE(is_in(kScope, lacking.uses));
  EXPECT_TRUE(is_in(kScope, lacking.lacks));
  EXPECT_TRUE(has(lacking.better, "parts merged in the kernel"));
  const Support one_part = must(supports(desc, device, {.kv_splits = 1}));
  EXPECT_FALSE(is_in(kScope, one_part.uses));
}

TEST_F(Supports, TellTheExtensionThatAVersionNeeds) {
  const AttentionDesc desc = desc_of("h8 512x512 d64 f16");
  Capabilities device = without(device_of(kFamilies[0]), {"subgroupSizeControl", "computeFullSubgroups"});
  const auto extension_of_sizes = [&] {
    const Support support = must(supports(desc, device));
    const auto row = std::ranges::find(support.lacks, "subgroupSizeControl", &WantedFeature::name);
    return row != support.lacks.end() ? std::string(row->extension) : "not lacking";
  };
  EXPECT_EQ(extension_of_sizes(), "VK_EXT_subgroup_size_control");
  device.api_version = VK_API_VERSION_1_3;
  EXPECT_EQ(extension_of_sizes(), "");
}

/// No feature gives a device sizes of subgroups that its pipelines may not ask for.
TEST_F(Supports, AMissingPropertyIsNoMissingFeature) {
  Capabilities device = device_of(kFamilies[0]);
  ASSERT_TRUE(device.subgroup_size_control);
  device.required_subgroup_size = false;
  const Support support = must(supports(desc_of("h8 512x512 d64 f16"), device));
  EXPECT_EQ(support.lacks.empty(), support.better.empty()) << support.better;
  EXPECT_FALSE(is_in("subgroupSizeControl", support.lacks));
}

TEST_F(Supports, AKernelThatWasAskedForLacksNothing) {
  EXPECT_TRUE(
      must(supports(desc_of("h8 100x100 d64 f16"), Capabilities{}, {.kernel = "lane"})).lacks.empty());
}

class SupportsInC : public Supports {
 protected:
  void SetUp() override {
    const std::vector<Capabilities> devices = {small_device(DeviceType::kCpu), ampere_};
    const std::string text = capabilities_text(devices);
    ASSERT_EQ(vkattn_capabilities_create(text.data(), text.size(), 1, &capabilities_, &error_),
              VKATTN_SUCCESS)
        << error_.message;
  }
  void TearDown() override { EXPECT_EQ(vkattn_capabilities_destroy(capabilities_), VKATTN_SUCCESS); }

  template <class Desc, class Ask>
  void expect_same(const Desc& desc, const Ask& ask) {
    const Support expected = must(supports(desc, ampere_));
    vkattn_support told = initial(vkattn_support_init);
    const CProblem<Desc> problem(desc);
    ASSERT_EQ(ask(capabilities_, &problem.structure, nullptr, &told, &error_), VKATTN_SUCCESS)
        << error_.message;
    EXPECT_EQ(told.kernel, expected.kernel);
    EXPECT_EQ(told.summary, expected.summary);
    EXPECT_EQ(told.storage_buffers, expected.storage_buffers);
    EXPECT_EQ(told.push_constant_bytes, expected.push_constant_bytes);
    EXPECT_EQ(told.workspace_bytes, expected.workspace_bytes);
    EXPECT_EQ(told.dispatches, expected.dispatches);
    EXPECT_EQ(told.better, expected.better);
    const auto joined = [](const std::vector<WantedFeature>& features) {
      std::string text;
      for (const std::string& name : names_of(features)) text += (text.empty() ? "" : ", ") + name;
      return text;
    };
    EXPECT_EQ(told.uses, joined(expected.uses));
    EXPECT_EQ(told.lacks, joined(expected.lacks));
  }

  Capabilities ampere_ = changed(device_of(kFamilies[6]), [](Capabilities& c) { c.device_name = "Ampere"; });
  vkattn_capabilities* capabilities_ = nullptr;
  vkattn_error error_ = initial(vkattn_error_init);
};

TEST_F(SupportsInC, AreThoseOfCpp) {
  expect_same(desc_of("h8 1024x1024 d128 f16"), vkattn_supports_attention);
  expect_same(desc_of("hq32 hkv8 1x4096 d128"), vkattn_supports_attention);
  expect_same(backward_of("h8 512x512 d64 f16"), vkattn_supports_backward);
  expect_same(product_of(500, 600, 700), vkattn_supports_matmul);
  expect_same(small_append(), vkattn_supports_append);
  expect_same(small_merge(), vkattn_supports_merge);
  char name[32];
  EXPECT_EQ(vkattn_capabilities_get_name(capabilities_, name, sizeof(name)), 7U);
  EXPECT_STREQ(name, "Ampere");
}

TEST_F(SupportsInC, RefuseWhatIsWrong) {
  const auto refused = [&](vkattn_result result, const char* words) {
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT);
    EXPECT_TRUE(has(error_.message, words));
  };
  vkattn_capabilities* none = capabilities_;
  const std::string text = capabilities_text({&ampere_, 1});
  refused(vkattn_capabilities_create(text.data(), text.size(), 1, &none, &error_),
          "device is 1, but the text has 1 that can be used");
  EXPECT_EQ(none, nullptr);
  refused(vkattn_capabilities_create(text.data(), text.size() / 2, 0, &none, &error_), "it is torn");
  refused(vkattn_capabilities_create(nullptr, 3, 0, &none, &error_), "text is null");
  refused(vkattn_capabilities_create(text.data(), text.size(), 0, nullptr, &error_), "capabilities is null");
  vkattn_support support = initial(vkattn_support_init);
  const CProblem<AttentionDesc> problem(desc_of("h8 100x100 d64"));
  const auto ask = [&](const vkattn_capabilities* device, const vkattn_attention_desc* desc,
                       vkattn_support* target, const vkattn_plan_options* options = nullptr) {
    return vkattn_supports_attention(device, desc, options, target, &error_);
  };
  refused(ask(nullptr, &problem.structure, &support), "capabilities is null");
  refused(ask(capabilities_, nullptr, &support), "vkattn_attention_desc is null");
  refused(ask(capabilities_, &problem.structure, nullptr), "vkattn_support is null");
  support.struct_size = 4;
  refused(ask(capabilities_, &problem.structure, &support), "vkattn_support::struct_size is 4");
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.chunk_keys = 64;
  support = initial(vkattn_support_init);
  refused(ask(capabilities_, &problem.structure, &support, &options), "chunk_keys");
  options = initial(vkattn_plan_options_init);
  options.kernel = "decode";
  EXPECT_EQ(ask(capabilities_, &problem.structure, &support, &options), VKATTN_ERROR_UNSUPPORTED);
  EXPECT_EQ(vkattn_capabilities_destroy(nullptr), VKATTN_SUCCESS);
}

}  // namespace
}  // namespace vkattn::tests

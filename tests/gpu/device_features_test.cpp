// Enabling features on a device: everything that the library wants is enabled, in any chain of the caller,
// and describe() names the rest.
#include <vkattn/backward.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/matmul.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "gpu/support.hpp"
#include "harness/backward_run.hpp"
#include "runtime/runtime_state.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

class DeviceFeaturesTest : public GpuTest {
 protected:
  static const detail::RuntimeState& state() { return detail::RuntimeState::of(runtime()); }
  static PhysicalDeviceDesc physical() {
    return {state().instance->handle,
            state().physical_device,
            state().instance->loader.vkGetInstanceProcAddr,
            state().instance->api_version,
            {}};
  }

  static const void* find(const void* chain, VkStructureType type) {
    for (const auto* base = static_cast<const VkBaseInStructure*>(chain); base; base = base->pNext) {
      if (base->sType == type) return base;
    }
    return nullptr;
  }
  static std::multiset<std::string> extensions(const VkDeviceCreateInfo& info) {
    return {info.ppEnabledExtensionNames, info.ppEnabledExtensionNames + info.enabledExtensionCount};
  }

  /// Makes a VkDevice from the info and borrows it, as a program would.
  static void with_device(VkDeviceCreateInfo info, const std::function<void(const Device&)>& use) {
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = state().queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    VkDevice handle = VK_NULL_HANDLE;
    ASSERT_EQ(state().instance->vk.vkCreateDevice(state().physical_device, &info, nullptr, &handle),
              VK_SUCCESS);
    {
      DeviceDesc desc;
      desc.instance = physical().instance;
      desc.physical_device = physical().physical_device;
      desc.device = handle;
      desc.get_instance_proc_addr = physical().get_instance_proc_addr;
      desc.api_version = physical().api_version;
      desc.enabled_extensions = {info.ppEnabledExtensionNames, info.enabledExtensionCount};
      desc.enabled_features = info.pNext;
      desc.enabled_core_features = info.pEnabledFeatures;
      const auto device = must(Device::borrow(desc));
      use(device);
    }
    const auto destroy = reinterpret_cast<PFN_vkDestroyDevice>(
        state().instance->loader.vkGetInstanceProcAddr(state().instance->handle, "vkDestroyDevice"));
    destroy(handle, nullptr);
  }

  static void expect_everything(const Device& device) {
    const Capabilities& c = device.capabilities();
    const Capabilities& all = capabilities();
    for (const detail::DeviceFeatureRow& row : detail::device_feature_table())
      EXPECT_EQ(c.*row.member, all.*row.member) << row.name;
    EXPECT_EQ(c.required_subgroup_size, all.required_subgroup_size);
    EXPECT_EQ(c.push_descriptors, all.push_descriptors);
    EXPECT_EQ(c.matrix_shapes.size(), all.matrix_shapes.size());
    EXPECT_EQ(c.flexible_matrices.size(), all.flexible_matrices.size());
  }
};

TEST_F(DeviceFeaturesTest, TheListSaysWhatIsSupportedAndWhatItIsFor) {
  const auto wanted = must(wanted_features(physical()));
  std::set<std::string> names;
  bool has_16bit = false;
  for (const WantedFeature& each : wanted) {
    EXPECT_FALSE(each.gain.empty());
    EXPECT_FALSE(each.name.empty() && each.extension.empty());
    const std::string name(each.name.empty() ? each.extension : each.name);
    EXPECT_TRUE(names.insert(name).second) << name << " is listed twice";
    if (each.name == "storageBuffer16BitAccess") has_16bit = each.is_supported;
  }
  EXPECT_EQ(has_16bit, capabilities().storage_buffer_16bit);
}

TEST_F(DeviceFeaturesTest, EverythingIsEnabledFromNothing) {
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  EnableMemory memory;
  ASSERT_TRUE(enable_wanted(physical(), info, memory).ok());
  with_device(info, expect_everything);
  // A second call changes nothing.
  const void* const chain = info.pNext;
  const auto before = extensions(info);
  EnableMemory more;
  ASSERT_TRUE(enable_wanted(physical(), info, more).ok());
  EXPECT_EQ(info.pNext, chain);
  EXPECT_EQ(extensions(info), before);
}

TEST_F(DeviceFeaturesTest, StructuresThatAreThereAreAddedTo) {
  if (state().instance->api_version < VK_API_VERSION_1_3 || capabilities().api_version < VK_API_VERSION_1_3) {
    GTEST_SKIP() << "the device has no Vulkan 1.3";
  }
  VkPhysicalDeviceVulkan13Features v13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  v13.synchronization2 = VK_TRUE;
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v13};
  v12.timelineSemaphore = VK_TRUE;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &v11};
  VkPhysicalDeviceFeatures core{};
  core.robustBufferAccess = VK_TRUE;
  info.pEnabledFeatures = &core;
  const char* const mine[] = {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME};
  info.ppEnabledExtensionNames = mine;
  info.enabledExtensionCount = 1;
  EnableMemory memory;
  ASSERT_TRUE(enable_wanted(physical(), info, memory).ok());
  EXPECT_EQ(v11.storageBuffer16BitAccess == VK_TRUE, capabilities().storage_buffer_16bit);
  EXPECT_EQ(v12.shaderFloat16 == VK_TRUE, capabilities().shader_float16);
  EXPECT_EQ(v13.subgroupSizeControl == VK_TRUE, capabilities().subgroup_size_control);
  EXPECT_EQ(core.shaderInt64 == VK_TRUE, capabilities().shader_int64);
  EXPECT_EQ(core.robustBufferAccess, VK_TRUE);
  EXPECT_EQ(v12.timelineSemaphore, VK_TRUE);
  for (const VkStructureType type : {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES,
                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2}) {
    EXPECT_EQ(find(info.pNext, type), nullptr) << "what a chain must not have twice";
  }
  const auto names = extensions(info);
  EXPECT_EQ(names.count(mine[0]), 1U);
  for (const std::string& name : names) EXPECT_EQ(names.count(name), 1U) << name;
  with_device(info, expect_everything);
}

/// A plan on a device with nothing enabled names the features that would give it the shader of the whole
/// device.
template <class Plan, class Options, class Desc>
void expect_hint(const Device& whole, const Device& bare, const Desc& desc) {
  const auto all = must(Plan::create(whole, desc));
  EXPECT_FALSE(has(all.describe(), "not enabled: ")) << all.describe();
  const auto plan = must(Plan::create(bare, desc));
  const std::string text = plan.describe();
  const std::size_t line = text.find("not enabled: ");
  ASSERT_NE(line, std::string::npos) << text;
  EXPECT_NE(text.find("storageBuffer16BitAccess", line), std::string::npos) << text;
  EXPECT_NE(text.find(all.pipelines().front().shader, line), std::string::npos) << text;
  EXPECT_EQ(text.find("pipelineExecutableInfo", line), std::string::npos) << "which changes nothing";
  Options asked;
  asked.kernel = "lane";
  const auto lane = must(Plan::create(bare, desc, asked));
  EXPECT_FALSE(has(lane.describe(), "not enabled: ")) << "the caller has chosen";
}

TEST_F(DeviceFeaturesTest, APlanTellsWhatWouldGiveItAnotherForm) {
  if (!capabilities().storage_buffer_16bit) GTEST_SKIP() << "the device has no 16-bit storage";
  const AttentionDesc desc = parsed("h2 64x64 d64 f16").desc;
  MatmulDesc product;
  product.rows = product.columns = product.inner = 64;
  product.a.type = product.b.type = product.output.type = DataType::kFloat16;
  const VkDeviceCreateInfo nothing{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  with_device(nothing, [&](const Device& bare) {
    const Device& whole = runtime().device();
    expect_hint<AttentionPlan, PlanOptions>(whole, bare, desc);
    expect_hint<BackwardPlan, PlanOptions>(whole, bare, harness::with_all_gradients(desc));
    expect_hint<MatmulPlan, PlanOptions>(whole, bare, product);
  });
}

TEST_F(DeviceFeaturesTest, MistakesAreRefused) {
  PhysicalDeviceDesc desc = physical();
  desc.api_version = 0;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  EnableMemory memory;
  EXPECT_TRUE(names(enable_wanted(desc, info, memory).error(), ErrorCode::kInvalidArgument, {"api_version"}));
  desc.api_version = VK_API_VERSION_1_0;
  EXPECT_TRUE(names(wanted_features(desc).error(), ErrorCode::kUnsupported, {"1.1"}));
  DeviceDesc borrowed;
  borrowed.instance = desc.instance;
  borrowed.physical_device = desc.physical_device;
  borrowed.device = runtime().device().handle();
  borrowed.get_instance_proc_addr = desc.get_instance_proc_addr;
  EXPECT_TRUE(names(Device::borrow(borrowed).error(), ErrorCode::kInvalidArgument, {"api_version is 0"}));
}

// All or nothing: a feature bit without its extension would make an invalid device.
TEST_F(DeviceFeaturesTest, WithoutRoomNothingIsWritten) {
  const auto wanted = must(wanted_features(physical()));
  const std::size_t named =
      static_cast<std::size_t>(std::count_if(wanted.begin(), wanted.end(), [](const auto& each) {
        return each.is_supported && !each.extension.empty();
      }));
  const std::vector<const char*> many(2000, "VK_KHR_something");
  VkPhysicalDeviceFeatures features{};
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.ppEnabledExtensionNames = many.data();
  info.enabledExtensionCount = 2000;
  info.pEnabledFeatures = &features;
  EnableMemory memory;
  const Result<void> result = enable_wanted(physical(), info, memory);
  if (named == 0) {  // the caller's list stays where it is
    EXPECT_TRUE(result.ok());
    EXPECT_EQ(info.ppEnabledExtensionNames, many.data());
    return;
  }
  EXPECT_TRUE(names(result.error(), ErrorCode::kLimitExceeded, {"8192"}));
  EXPECT_EQ(info.enabledExtensionCount, 2000U);
  EXPECT_EQ(info.pNext, nullptr);
  const VkPhysicalDeviceFeatures none{};
  EXPECT_EQ(std::memcmp(&features, &none, sizeof(none)), 0);
}

}  // namespace
}  // namespace vkattn::tests

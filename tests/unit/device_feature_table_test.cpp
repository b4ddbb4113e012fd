// Reads which features a program says that it enabled: each feature from each structure that has it, with
// made-up chains.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "vulkan/device_feature_table.hpp"

namespace vkattn::detail {
namespace {

// The names of the table's rows that are enabled.
std::vector<std::string> enabled(const Capabilities& capabilities) {
  std::vector<std::string> names;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    if (capabilities.*row.member) names.emplace_back(row.name);
  }
  return names;
}

// Reads a structure that is zero except for its sType and one bit.
std::vector<std::string> read_from(const FeaturePlace& place, VkBool32 value) {
  std::vector<std::uint64_t> words((place.bytes + 7) / 8);  // the type gives the alignment
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  std::memcpy(bytes, &place.type, sizeof(place.type));
  std::memcpy(bytes + place.byte, &value, sizeof(value));
  VkPhysicalDeviceFeatures2 first{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, words.data()};
  Capabilities capabilities;
  read_features(&first, capabilities);
  return enabled(capabilities);
}

TEST(DeviceFeatureTable, EachPlaceSetsItsOwnFeature) {
  for (const DeviceFeatureRow& row : device_feature_table()) {
    for (const FeaturePlace& place : {row.place, row.core_place}) {
      if (!place.is_somewhere()) continue;
      EXPECT_EQ(read_from(place, VK_TRUE), std::vector<std::string>{std::string(row.name)});
      EXPECT_TRUE(read_from(place, VK_FALSE).empty()) << row.name;
    }
  }
}

TEST(DeviceFeatureTable, StructuresOfVersionsAreRead) {
  VkPhysicalDeviceVulkan13Features v13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  v13.subgroupSizeControl = v13.computeFullSubgroups = v13.maintenance4 = VK_TRUE;
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v13};
  v12.shaderFloat16 = VK_TRUE;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  v11.storageBuffer16BitAccess = VK_TRUE;
  Capabilities capabilities;
  read_features(&v11, capabilities);
  EXPECT_TRUE(capabilities.subgroup_size_control && capabilities.compute_full_subgroups);
  EXPECT_TRUE(capabilities.maintenance4 && capabilities.shader_float16 && capabilities.storage_buffer_16bit);
  EXPECT_EQ(enabled(capabilities).size(), 5U);
}

// Without the extension: push descriptors belong to Vulkan 1.4.
TEST(DeviceFeatureTable, PushDescriptorsOfVulkan14AreRead) {
#ifdef VK_VERSION_1_4
  VkPhysicalDeviceVulkan14Features v14{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES};
  v14.hostImageCopy = v14.maintenance5 = VK_TRUE;
  VkPhysicalDeviceVulkan13Features v13{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, &v14};
  Capabilities capabilities;
  read_features(&v13, capabilities);
  EXPECT_FALSE(capabilities.push_descriptors);
  v14.pushDescriptor = VK_TRUE;
  read_features(&v13, capabilities);
  EXPECT_EQ(enabled(capabilities), std::vector<std::string>{"pushDescriptor"});
#else
  GTEST_SKIP() << "the Vulkan headers are older than 1.4";
#endif
}

TEST(DeviceFeatureTable, FeaturesCountWithTheirExtensionOrVersion) {
  Capabilities all;
  for (const DeviceFeatureRow& row : device_feature_table()) all.*row.member = true;
  for (const DeviceFeatureRow& row : device_feature_table()) {
    const std::vector<const char*> one{row.extension != nullptr ? row.extension : "VK_KHR_none_of_these"};
    for (const std::uint32_t version : {VK_API_VERSION_1_1, row.core_version}) {
      const bool is_in_core =
          row.extension == nullptr || (row.core_version != 0 && version >= row.core_version);
      Capabilities without = all, with = all;
      drop_features_without_extension({}, version, without);
      drop_features_without_extension(one, version, with);
      EXPECT_EQ(without.*row.member, is_in_core) << row.name;
      EXPECT_TRUE(with.*row.member) << row.name;
    }
  }
}

TEST(DeviceFeatureTable, StructuresOfOthersArePassedOver) {
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  timeline.timelineSemaphore = VK_TRUE;
  Capabilities capabilities;
  read_features(&timeline, capabilities);
  read_features(nullptr, capabilities);
  EXPECT_TRUE(enabled(capabilities).empty());
  VkPhysicalDeviceFeatures core{};
  core.shaderInt64 = VK_TRUE;
  read_features(core, capabilities);
  EXPECT_EQ(enabled(capabilities), std::vector<std::string>{"shaderInt64"});
}

}  // namespace
}  // namespace vkattn::detail

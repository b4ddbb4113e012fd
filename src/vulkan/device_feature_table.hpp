// The table of device features that the library gains from: reading what is enabled, enabling it, and saying
// what would be faster with it all walk its rows.
#pragma once

#include <vulkan/vulkan_core.h>

#include <vkattn/capabilities.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace vkattn::detail {

/// Where a feature's VkBool32 lies in a chain of feature structures.
struct FeaturePlace {
  VkStructureType type = VK_STRUCTURE_TYPE_APPLICATION_INFO;  ///< which is no such structure: nowhere
  std::size_t bytes = 0;                                      ///< of the structure
  std::size_t byte = 0;

  [[nodiscard]] bool is_somewhere() const { return bytes != 0; }
};

struct DeviceFeatureRow {
  std::string_view name;       ///< of the member, as Vulkan has it
  const char* extension;       ///< null: of Vulkan 1.0
  std::uint32_t core_version;  ///< that took the extension in; 0: none has
  bool as_extension;           ///< of use before that version
  bool Capabilities::*member;
  FeaturePlace place;
  FeaturePlace core_place;                      ///< in a structure of all features of a version
  std::string_view gain;                        ///< for a person
  const char* needs = nullptr;                  ///< another extension that this one builds on
  bool Capabilities::*needs_feature = nullptr;  ///< without which it is of no use
};

/// An extension without a feature of its own.
struct DeviceExtensionRow {
  const char* extension;
  std::uint32_t core_version;  ///< from which on it need not be enabled; 0: none
  bool may_be_disabled;
  std::string_view gain;
};

[[nodiscard]] std::span<const DeviceFeatureRow> device_feature_table();
[[nodiscard]] std::span<const DeviceExtensionRow> device_extension_table();
/// Extensions whose rows of the feature table are left out where Vulkan's headers do not know them.
[[nodiscard]] std::span<const std::string_view> extensions_of_newer_headers();

/// Adds what a chain of feature structures enables.
void read_features(const void* chain, Capabilities& capabilities);
/// Likewise of VkDeviceCreateInfo::pEnabledFeatures.
void read_features(const VkPhysicalDeviceFeatures& features, Capabilities& capabilities);
/// Takes those away whose extension is not enabled: programs pass structures on that they have queried, and a
/// feature of an extension is there only with it.
void drop_features_without_extension(std::span<const char* const> enabled_extensions,
                                     std::uint32_t api_version, Capabilities& capabilities);

}  // namespace vkattn::detail

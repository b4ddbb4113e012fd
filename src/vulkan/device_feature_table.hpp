// The table of device features that the library gains from. Its rows are walked to read the enabled features,
// to enable them, and to say what they would make faster.
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
/// Extensions whose rows the feature table lacks if Vulkan's headers do not know them.
[[nodiscard]] std::span<const std::string_view> extensions_of_newer_headers();

/// Adds the features that a chain of structures enables.
void read_features(const void* chain, Capabilities& capabilities);
/// Adds the features of VkDeviceCreateInfo::pEnabledFeatures.
void read_features(const VkPhysicalDeviceFeatures& features, Capabilities& capabilities);
/// Takes features away whose extension is not enabled. Programs may pass on structures that they have
/// queried, but a feature needs its extension.
void drop_features_without_extension(std::span<const char* const> enabled_extensions,
                                     std::uint32_t api_version, Capabilities& capabilities);

}  // namespace vkattn::detail

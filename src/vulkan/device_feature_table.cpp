// The table of device features: see device_feature_table.hpp.
#include "vulkan/device_feature_table.hpp"

#include <cstring>
#include <string_view>

#include "vulkan/functions.hpp"

namespace vkattn::detail {

namespace {

#define VKATTN_PLACE(TYPE, STRUCTURE, MEMBER)            \
  FeaturePlace {                                         \
    TYPE, sizeof(STRUCTURE), offsetof(STRUCTURE, MEMBER) \
  }
#define VKATTN_IN_16BIT(MEMBER)                                          \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES, \
               VkPhysicalDevice16BitStorageFeatures, MEMBER)
#define VKATTN_IN_FLOAT16(MEMBER)                                              \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, \
               VkPhysicalDeviceShaderFloat16Int8Features, MEMBER)
#define VKATTN_IN_MEMORY_MODEL(MEMBER)                                         \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, \
               VkPhysicalDeviceVulkanMemoryModelFeatures, MEMBER)
#define VKATTN_IN_SUBGROUP_SIZE(MEMBER)                                          \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES, \
               VkPhysicalDeviceSubgroupSizeControlFeatures, MEMBER)
#define VKATTN_IN_MATRIX2(MEMBER)                                                  \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV, \
               VkPhysicalDeviceCooperativeMatrix2FeaturesNV, MEMBER)
#define VKATTN_IN_1_1(MEMBER)                                                                           \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, VkPhysicalDeviceVulkan11Features, \
               MEMBER)
#define VKATTN_IN_1_2(MEMBER)                                                                           \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, VkPhysicalDeviceVulkan12Features, \
               MEMBER)
#define VKATTN_IN_1_3(MEMBER)                                                                           \
  VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, VkPhysicalDeviceVulkan13Features, \
               MEMBER)

constexpr FeaturePlace in_core(std::size_t byte) {
  return {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, sizeof(VkPhysicalDeviceFeatures2),
          offsetof(VkPhysicalDeviceFeatures2, features) + byte};
}

using C = Capabilities;

constexpr std::string_view kSixteenBit = "float16 and bfloat16 tensors are read as such, not by 32-bit words";
constexpr std::string_view kMatrixUnits = "the kernel matrix, on matrix units";
constexpr std::string_view kMatrix2 = "the kernel matrix2, whose scores stay in matrices";
constexpr std::string_view kSubgroups = "tile and matrix choose the size of subgroups";
constexpr std::string_view kReconvergence =
    "subgroups that are together again where shaders take it for granted";

[[maybe_unused]] constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";

// A feature of Vulkan 1.0.
constexpr DeviceFeatureRow of_core(std::string_view name, bool C::*member, std::size_t byte,
                                   std::string_view gain) {
  return {name, nullptr, VK_API_VERSION_1_0, true, member, in_core(byte), {}, gain};
}

// A feature of an extension that no version has taken in.
constexpr DeviceFeatureRow of_extension(std::string_view name, const char* extension, bool C::*member,
                                        const FeaturePlace& place, std::string_view gain,
                                        const char* needs = nullptr, bool C::*needs_feature = nullptr) {
  return {name, extension, 0, true, member, place, {}, gain, needs, needs_feature};
}

#define VKATTN_MATRIX2_FEATURE(NAME, MEMBER)                                                          \
  of_extension(#NAME, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME, &C::MEMBER, VKATTN_IN_MATRIX2(NAME), \
               kMatrix2, kMatrixExtension, &C::cooperative_matrix)

constexpr DeviceFeatureRow kFeatures[] = {
    {"storageBuffer16BitAccess", VK_KHR_16BIT_STORAGE_EXTENSION_NAME, VK_API_VERSION_1_1, true,
     &C::storage_buffer_16bit, VKATTN_IN_16BIT(storageBuffer16BitAccess),
     VKATTN_IN_1_1(storageBuffer16BitAccess), kSixteenBit},
    of_core("shaderInt16", &C::shader_int16, offsetof(VkPhysicalDeviceFeatures, shaderInt16),
            "16-bit integers in shaders"),
    of_core("shaderInt64", &C::shader_int64, offsetof(VkPhysicalDeviceFeatures, shaderInt64),
            "wide loads, on CPUs"),
    {"shaderFloat16", VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2, true, &C::shader_float16,
     VKATTN_IN_FLOAT16(shaderFloat16), VKATTN_IN_1_2(shaderFloat16),
     "the kernel matrix, on matrix units, and float16 arithmetic"},
    {"vulkanMemoryModel", VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2, true,
     &C::vulkan_memory_model, VKATTN_IN_MEMORY_MODEL(vulkanMemoryModel), VKATTN_IN_1_2(vulkanMemoryModel),
     kMatrixUnits},
    // If the memory model is enabled without it, atomics of any shader must not be visible to the device.
    {"vulkanMemoryModelDeviceScope", VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME, VK_API_VERSION_1_2, true,
     &C::vulkan_memory_model_device_scope, VKATTN_IN_MEMORY_MODEL(vulkanMemoryModelDeviceScope),
     VKATTN_IN_1_2(vulkanMemoryModelDeviceScope),
     "decode in one dispatch, and atomics, of which 16-bit elements are made without 16-bit storage"},
    {"shaderInt8", VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_API_VERSION_1_2, true, &C::shader_int8,
     VKATTN_IN_FLOAT16(shaderInt8), VKATTN_IN_1_2(shaderInt8), "measuring matrix units of 8 bits"},
    {"subgroupSizeControl", VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3, true,
     &C::subgroup_size_control, VKATTN_IN_SUBGROUP_SIZE(subgroupSizeControl),
     VKATTN_IN_1_3(subgroupSizeControl), kSubgroups},
    {"computeFullSubgroups", VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME, VK_API_VERSION_1_3, true,
     &C::compute_full_subgroups, VKATTN_IN_SUBGROUP_SIZE(computeFullSubgroups),
     VKATTN_IN_1_3(computeFullSubgroups), kSubgroups},
    // Not as an extension, whose function has another name.
    {"bufferDeviceAddress", VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_API_VERSION_1_2, false,
     &C::buffer_device_address,
     VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES,
                  VkPhysicalDeviceBufferDeviceAddressFeatures, bufferDeviceAddress),
     VKATTN_IN_1_2(bufferDeviceAddress),
     "loads without checks of bounds, on CPUs (DeviceDesc::buffer_addresses)"},
    // Not as an extension: its users need SPIR-V 1.6 too.
    {"maintenance4", VK_KHR_MAINTENANCE_4_EXTENSION_NAME, VK_API_VERSION_1_3, false, &C::maintenance4,
     VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_FEATURES,
                  VkPhysicalDeviceMaintenance4Features, maintenance4),
     VKATTN_IN_1_3(maintenance4), kMatrix2},
    of_extension(
        "pipelineExecutableInfo", VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME,
        &C::pipeline_statistics,
        VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR,
                     VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR, pipelineExecutableInfo),
        "statistics of pipelines"),
#ifdef VK_KHR_shader_maximal_reconvergence
    of_extension(
        "shaderMaximalReconvergence", VK_KHR_SHADER_MAXIMAL_RECONVERGENCE_EXTENSION_NAME,
        &C::maximal_reconvergence,
        VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_MAXIMAL_RECONVERGENCE_FEATURES_KHR,
                     VkPhysicalDeviceShaderMaximalReconvergenceFeaturesKHR, shaderMaximalReconvergence),
        kReconvergence),
#endif
    of_extension(
        "shaderSubgroupUniformControlFlow", VK_KHR_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_EXTENSION_NAME,
        &C::subgroup_uniform_control_flow,
        VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SUBGROUP_UNIFORM_CONTROL_FLOW_FEATURES_KHR,
                     VkPhysicalDeviceShaderSubgroupUniformControlFlowFeaturesKHR,
                     shaderSubgroupUniformControlFlow),
        kReconvergence),
#ifdef VK_VERSION_1_4
    // Read, but never enabled: the structure could collide with others of a chain. The extension cannot.
    {"pushDescriptor",
     nullptr,
     0,
     false,
     &C::push_descriptors,
     VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_4_FEATURES, VkPhysicalDeviceVulkan14Features,
                  pushDescriptor),
     {},
     "plans without bindings"},
#endif
#ifdef VK_KHR_cooperative_matrix
    of_extension("cooperativeMatrix", VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, &C::cooperative_matrix,
                 VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
                              VkPhysicalDeviceCooperativeMatrixFeaturesKHR, cooperativeMatrix),
                 kMatrixUnits, nullptr, &C::vulkan_memory_model),
#endif
#ifdef VK_KHR_shader_bfloat16
    of_extension("shaderBFloat16Type", VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME, &C::bfloat16_type,
                 VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
                              VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16Type),
                 "bfloat16 on matrix units", kMatrixExtension, &C::cooperative_matrix),
    of_extension("shaderBFloat16CooperativeMatrix", VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME,
                 &C::bfloat16_matrix,
                 VKATTN_PLACE(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR,
                              VkPhysicalDeviceShaderBfloat16FeaturesKHR, shaderBFloat16CooperativeMatrix),
                 "bfloat16 on matrix units", kMatrixExtension, &C::cooperative_matrix),
#endif
#ifdef VK_NV_cooperative_matrix2
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixWorkgroupScope, matrix2_workgroup_scope),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixFlexibleDimensions, matrix2_flexible_dimensions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixReductions, matrix2_reductions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixConversions, matrix2_conversions),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixPerElementOperations, matrix2_per_element_operations),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixTensorAddressing, matrix2_tensor_addressing),
    VKATTN_MATRIX2_FEATURE(cooperativeMatrixBlockLoads, matrix2_block_loads),
#endif
};

constexpr std::string_view kNewerExtensions[] = {"VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16",
                                                 "VK_NV_cooperative_matrix2",
                                                 "VK_KHR_shader_maximal_reconvergence"};

constexpr DeviceExtensionRow kExtensions[] = {
    {VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME, 0, true, "plans without bindings"},
    {VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_API_VERSION_1_2, false,
     "whether NaN is kept, which strict results depend on, and how float16 is rounded"},
    {VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME, VK_API_VERSION_1_2, false, "the driver's name, in reports"},
    {"VK_KHR_portability_subset", 0, false, "must be enabled where it is there"},
};

bool is_set(const VkBaseInStructure* structure, const FeaturePlace& place) {
  if (structure->sType != place.type || !place.is_somewhere()) return false;
  VkBool32 value = VK_FALSE;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(structure) + place.byte, sizeof(value));
  return value == VK_TRUE;
}

}  // namespace

std::span<const DeviceFeatureRow> device_feature_table() {
  return kFeatures;
}

std::span<const DeviceExtensionRow> device_extension_table() {
  return kExtensions;
}

std::span<const std::string_view> extensions_of_newer_headers() {
  return kNewerExtensions;
}

void read_features(const void* chain, Capabilities& capabilities) {
  for (const auto* base = static_cast<const VkBaseInStructure*>(chain); base != nullptr; base = base->pNext) {
    for (const DeviceFeatureRow& row : kFeatures) {
      if (is_set(base, row.place) || is_set(base, row.core_place)) capabilities.*row.member = true;
    }
  }
}

void read_features(const VkPhysicalDeviceFeatures& features, Capabilities& capabilities) {
  VkPhysicalDeviceFeatures2 chain{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  chain.features = features;
  read_features(&chain, capabilities);
}

void drop_features_without_extension(std::span<const char* const> enabled_extensions,
                                     std::uint32_t api_version, Capabilities& capabilities) {
  for (const DeviceFeatureRow& row : kFeatures) {
    const bool is_in_core = row.core_version != 0 && api_version >= row.core_version;
    if (row.extension == nullptr || is_in_core) continue;
    if (!has_extension(enabled_extensions, row.extension)) capabilities.*row.member = false;
  }
}

}  // namespace vkattn::detail

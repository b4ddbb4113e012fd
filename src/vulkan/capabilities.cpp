// Reading Capabilities: properties from the physical device, features from the chain that was enabled.
#include <algorithm>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "common/message.hpp"
#include "vulkan/device_feature_table.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::detail {

namespace {

void read_limits(const VkPhysicalDeviceLimits& limits, Capabilities& capabilities) {
  capabilities.max_shared_memory_bytes = limits.maxComputeSharedMemorySize;
  capabilities.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  std::copy_n(limits.maxComputeWorkGroupSize, 3, capabilities.max_workgroup_size.begin());
  std::copy_n(limits.maxComputeWorkGroupCount, 3, capabilities.max_workgroup_count.begin());
  capabilities.max_storage_buffer_range = limits.maxStorageBufferRange;
  capabilities.max_push_constants_bytes = limits.maxPushConstantsSize;
  capabilities.max_stage_storage_buffers = limits.maxPerStageDescriptorStorageBuffers;
  capabilities.min_storage_offset_alignment = limits.minStorageBufferOffsetAlignment;
}

// Such memory is what the parameters of bindings get (parameter_memory.cpp). Null hardware, which only
// compiles, lists no memory at all. It stands for a GPU that has such memory (docs/compilers.txt).
bool has_mapped_device_memory(const VkPhysicalDeviceMemoryProperties& memory) {
  constexpr VkMemoryPropertyFlags kWanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                            VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  const std::span types = std::span(memory.memoryTypes).first(memory.memoryTypeCount);
  return types.empty() || std::ranges::any_of(types, [](const VkMemoryType& type) {
           return (type.propertyFlags & kWanted) == kWanted;
         });
}

// Property structures are queried only if the version or an extension defines them. Properties that hold
// whatever is enabled (driver, subgroup sizes, buffers) only need a supported extension.
Result<void> read_properties(const CapabilitySource& source, const InstanceFunctions& vk,
                             std::uint32_t version, Capabilities& capabilities) {
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  const auto chain = [&](auto& structure) {
    structure.pNext = properties.pNext;
    properties.pNext = &structure;
  };
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties maintenance3{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties floats{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
  floats.roundingModeIndependence = VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  VkPhysicalDeviceSubgroupSizeControlProperties sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceMaintenance4Properties maintenance4{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES};
  VkPhysicalDevicePushDescriptorPropertiesKHR push{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR};
  const auto known = [&](std::uint32_t core, const char* extension) {
    return version >= core || has_extension(source.extensions, extension);
  };
  const auto supported = device_extensions(vk, source.physical_device);
  if (!supported) return supported.error();
  constexpr std::uint32_t kNever = ~std::uint32_t{0};
  const auto can_be_known = [&](std::uint32_t core, const char* extension) {
    return known(core, extension) || has_extension(*supported, extension);
  };
  chain(subgroup);
  chain(maintenance3);
  if (can_be_known(VK_API_VERSION_1_2, VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) chain(driver);
  if (known(VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) chain(floats);
  if (can_be_known(VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) chain(sizes);
  if (can_be_known(VK_API_VERSION_1_3, VK_KHR_MAINTENANCE_4_EXTENSION_NAME)) chain(maintenance4);
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV multiprocessors{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  if (can_be_known(kNever, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME)) chain(multiprocessors);
  VkPhysicalDeviceShaderCorePropertiesAMD cores{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  if (can_be_known(kNever, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME)) chain(cores);
#ifdef VK_NV_cooperative_matrix2
  VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV};
  if (has_extension(source.extensions, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME)) chain(matrix2);
#endif
  const bool push_extension = has_extension(source.extensions, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME);
#ifdef VK_VERSION_1_4
  constexpr std::uint32_t kPushDescriptorsInCore = VK_API_VERSION_1_4;
#else
  constexpr std::uint32_t kPushDescriptorsInCore = kNever;
#endif
  if (can_be_known(kPushDescriptorsInCore, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME)) chain(push);
  vk.vkGetPhysicalDeviceProperties2(source.physical_device, &properties);

  const VkPhysicalDeviceProperties& core = properties.properties;
  capabilities.device_name = core.deviceName;
  capabilities.driver_name = driver.driverName;
  capabilities.driver_info = driver.driverInfo;
  capabilities.device_type = static_cast<DeviceType>(core.deviceType);
  capabilities.vendor_id = core.vendorID;
  capabilities.device_id = core.deviceID;
  capabilities.driver_version = core.driverVersion;
  // llvmpipe ends long loops silently, with wrong results: gallivm's LP_MAX_TGSI_LOOP_ITERATIONS. Mesa 22.3
  // does, 25.0 does not; versions in between are untried and count as if they did.
  if (driver.driverID == VK_DRIVER_ID_MESA_LLVMPIPE && VK_API_VERSION_MAJOR(core.driverVersion) < 25) {
    capabilities.max_loop_iterations = 65535;
  }
  capabilities.api_version = version;
  capabilities.compute_units = multiprocessors.shaderSMCount;
  if (cores.shaderEngineCount != 0) {
    capabilities.compute_units =
        cores.shaderEngineCount * cores.shaderArraysPerEngineCount * cores.computeUnitsPerShaderArray;
  }
  if (core.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
    capabilities.compute_units = std::thread::hardware_concurrency();
  }
  read_limits(core.limits, capabilities);
  VkPhysicalDeviceMemoryProperties memory{};
  vk.vkGetPhysicalDeviceMemoryProperties(source.physical_device, &memory);
  capabilities.mapped_device_memory = has_mapped_device_memory(memory);
  capabilities.subgroup_size = subgroup.subgroupSize;
  capabilities.min_subgroup_size = sizes.minSubgroupSize != 0 ? sizes.minSubgroupSize : subgroup.subgroupSize;
  capabilities.max_subgroup_size = sizes.maxSubgroupSize != 0 ? sizes.maxSubgroupSize : subgroup.subgroupSize;
  if ((subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    capabilities.subgroup_arithmetic =
        (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT) != 0;
    capabilities.subgroup_shuffle = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0;
    capabilities.subgroup_vote = (subgroup.supportedOperations & VK_SUBGROUP_FEATURE_VOTE_BIT) != 0;
  }
  // Counts once the feature is known to be enabled.
  capabilities.required_subgroup_size = (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0;
  if (sizes.maxComputeWorkgroupSubgroups != 0) {
    capabilities.max_workgroup_subgroups = sizes.maxComputeWorkgroupSubgroups;
  }
  capabilities.max_memory_allocation_bytes = maintenance3.maxMemoryAllocationSize;
  if (maintenance4.maxBufferSize != 0) capabilities.max_buffer_size = maintenance4.maxBufferSize;
  capabilities.preserves_nan_float32 = floats.shaderSignedZeroInfNanPreserveFloat32 == VK_TRUE;
  capabilities.rounds_float16_to_nearest =
      floats.shaderRoundingModeRTEFloat16 == VK_TRUE &&
      floats.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE;
  capabilities.push_descriptors = push_extension;  // or by a feature of Vulkan 1.4
  capabilities.max_push_descriptors = push.maxPushDescriptors;
#ifdef VK_NV_cooperative_matrix2
  capabilities.max_flexible_matrix_dimension = matrix2.cooperativeMatrixFlexibleDimensionsMaxDimension;
  capabilities.max_matrix_workgroup_size = matrix2.cooperativeMatrixWorkgroupScopeMaxWorkgroupSize;
  capabilities.matrix_reserved_shared_bytes = matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
#endif
  return {};
}

#ifdef VK_KHR_cooperative_matrix
std::string component_name(VkComponentTypeKHR type) {
  // By its number: headers older than VK_KHR_shader_bfloat16 have no name for it, but drivers list it.
  constexpr auto kBfloat16 = static_cast<VkComponentTypeKHR>(1000141000);
  if (type == kBfloat16) return "bf16";
  switch (type) {
    case VK_COMPONENT_TYPE_FLOAT16_KHR:
      return "f16";
    case VK_COMPONENT_TYPE_FLOAT32_KHR:
      return "f32";
    case VK_COMPONENT_TYPE_SINT8_KHR:
      return "s8";
    case VK_COMPONENT_TYPE_UINT8_KHR:
      return "u8";
    case VK_COMPONENT_TYPE_SINT32_KHR:
      return "s32";
    case VK_COMPONENT_TYPE_UINT32_KHR:
      return "u32";
    default:
      return "other";
  }
}

std::string scope_name(VkScopeKHR scope) {
  return scope == VK_SCOPE_SUBGROUP_KHR    ? "subgroup"
         : scope == VK_SCOPE_WORKGROUP_KHR ? "workgroup"
                                           : "other";
}

Result<void> read_matrix_shapes(const CapabilitySource& source, Capabilities& capabilities) {
  const auto query = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
      source.get_instance_proc_addr(source.instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  if (query == nullptr) return {};
  const auto shapes =
      read_list("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR",
                VkCooperativeMatrixPropertiesKHR{VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR},
                [&](auto... out) { return query(source.physical_device, out...); });
  if (!shapes) return shapes.error();
  for (const VkCooperativeMatrixPropertiesKHR& shape : *shapes) {
    capabilities.matrix_shapes.push_back({shape.MSize, shape.NSize, shape.KSize, component_name(shape.AType),
                                          component_name(shape.BType), component_name(shape.CType),
                                          component_name(shape.ResultType), scope_name(shape.scope)});
  }
  return {};
}
#endif

#ifdef VK_NV_cooperative_matrix2
Result<void> read_flexible_matrices(const CapabilitySource& source, Capabilities& capabilities) {
  const auto query = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV>(
      source.get_instance_proc_addr(source.instance,
                                    "vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV"));
  if (query == nullptr) return {};
  const auto entries = read_list("vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV",
                                 VkCooperativeMatrixFlexibleDimensionsPropertiesNV{
                                     VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV},
                                 [&](auto... out) { return query(source.physical_device, out...); });
  if (!entries) return entries.error();
  for (const VkCooperativeMatrixFlexibleDimensionsPropertiesNV& entry : *entries) {
    capabilities.flexible_matrices.push_back({entry.MGranularity, entry.NGranularity, entry.KGranularity,
                                              component_name(entry.AType), component_name(entry.BType),
                                              component_name(entry.CType), component_name(entry.ResultType),
                                              scope_name(entry.scope), entry.workgroupInvocations});
  }
  return {};
}
#endif

}  // namespace

Result<Capabilities> read_capabilities(const CapabilitySource& source) {
  auto loaded = load_instance_functions(source.instance, source.get_instance_proc_addr);
  if (!loaded) return loaded.error();
  const InstanceFunctions& vk = *loaded;
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  vk.vkGetPhysicalDeviceProperties2(source.physical_device, &properties);
  const std::uint32_t version = std::min(source.api_version, properties.properties.apiVersion);
  if (version < VK_API_VERSION_1_1) {
    return Error{
        ErrorCode::kUnsupported, VK_ERROR_INCOMPATIBLE_DRIVER,
        message(properties.properties.deviceName, " offers Vulkan ", VK_API_VERSION_MAJOR(version), ".",
                VK_API_VERSION_MINOR(version),
                version == source.api_version ? " to this instance (VkApplicationInfo::apiVersion)" : "",
                "; vkattn needs 1.1")};
  }
  Capabilities capabilities;
  if (Result<void> s = read_properties(source, vk, version, capabilities); !s) return s.error();
  // Before, it left arrays at their default sizes, whatever the specialization constants say (MoltenVK#2423).
  constexpr std::uint32_t kMoltenVk1_3 = 10300;
  if (capabilities.driver_name == "MoltenVK" && capabilities.driver_version < kMoltenVk1_3) {
    return Error{ErrorCode::kUnsupported, VK_ERROR_INCOMPATIBLE_DRIVER,
                 message("MoltenVK ", capabilities.driver_info,
                         " ignores the sizes of specialized arrays; vkattn needs MoltenVK 1.3")};
  }
  if (source.core_features != nullptr) read_features(*source.core_features, capabilities);
  read_features(source.features, capabilities);
  drop_features_without_extension(source.extensions, version, capabilities);
  capabilities.bfloat16_matrix &= capabilities.bfloat16_type;
  capabilities.required_subgroup_size &= capabilities.subgroup_size_control;
#ifdef VK_KHR_cooperative_matrix
  if (capabilities.cooperative_matrix) {
    if (Result<void> s = read_matrix_shapes(source, capabilities); !s) return s.error();
  }
#endif
#ifdef VK_NV_cooperative_matrix2
  if (capabilities.matrix2_flexible_dimensions) {
    if (Result<void> s = read_flexible_matrices(source, capabilities); !s) return s.error();
  }
#endif
  return capabilities;
}

}  // namespace vkattn::detail

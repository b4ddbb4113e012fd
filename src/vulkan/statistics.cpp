// What drivers say of compiled pipelines: VK_KHR_pipeline_executable_properties.
#include "common/message.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

namespace {

// The driver of NVIDIA's own, as VkPhysicalDeviceDriverProperties::driverName has it on every system.
constexpr std::string_view kNvidiaDriver = "NVIDIA";

VkResult read_entries(const DeviceState& device, const VkPipelineExecutableInfoKHR& info,
                      PipelineStatistics& result) {
  const DeviceFunctions& vk = device.vk;
  std::uint32_t count = 0;
  VkResult status = vk.vkGetPipelineExecutableStatisticsKHR(device.device, &info, &count, nullptr);
  if (status != VK_SUCCESS) return status;
  std::vector<VkPipelineExecutableStatisticKHR> statistics(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
  status = vk.vkGetPipelineExecutableStatisticsKHR(device.device, &info, &count, statistics.data());
  if (status < VK_SUCCESS) return status;
  for (const auto& statistic : statistics) {
    result.entries.push_back({statistic.name, as_number(statistic, device.capabilities.driver_name)});
  }
  return VK_SUCCESS;
}

VkResult read_listings(const DeviceState& device, const VkPipelineExecutableInfoKHR& info,
                       PipelineStatistics& result) {
  const auto query = device.vk.vkGetPipelineExecutableInternalRepresentationsKHR;
  std::uint32_t count = 0;
  VkResult status = query(device.device, &info, &count, nullptr);
  if (status != VK_SUCCESS) return status;
  std::vector<VkPipelineExecutableInternalRepresentationKHR> forms(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR});
  status = query(device.device, &info, &count, forms.data());  // sizes
  if (status < VK_SUCCESS) return status;
  std::vector<std::string> texts(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    texts[i].resize(forms[i].dataSize);
    forms[i].pData = texts[i].data();
  }
  status = query(device.device, &info, &count, forms.data());
  if (status < VK_SUCCESS) return status;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (forms[i].isText != VK_TRUE) continue;
    while (!texts[i].empty() && texts[i].back() == '\0') texts[i].pop_back();
    result.listings.push_back({forms[i].name, std::move(texts[i])});
  }
  return VK_SUCCESS;
}

}  // namespace

double as_number(const VkPipelineExecutableStatisticKHR& statistic, std::string_view driver_name) {
  // It writes 32 bits and leaves the upper half of a value of 64 as it was: 580.159.04 tells of no local
  // memory as 2^36 bytes. None of its statistics needs more.
  const std::uint64_t written = driver_name == kNvidiaDriver ? 0xffffffffU : ~std::uint64_t{0};
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return statistic.value.b32 == VK_TRUE ? 1 : 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<double>(static_cast<std::int64_t>(statistic.value.u64 & written));
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return static_cast<double>(statistic.value.u64 & written);
    default:
      return statistic.value.f64;
  }
}

Result<std::vector<PipelineStatistics>> read_statistics(const DeviceState& device, VkPipeline pipeline,
                                                        std::string_view name, bool isa) {
  VkPipelineInfoKHR pipeline_info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  pipeline_info.pipeline = pipeline;
  const auto query = device.vk.vkGetPipelineExecutablePropertiesKHR;
  std::uint32_t count = 0;
  VkResult status = query(device.device, &pipeline_info, &count, nullptr);
  if (status != VK_SUCCESS) return vulkan_error(status, "vkGetPipelineExecutablePropertiesKHR");
  std::vector<VkPipelineExecutablePropertiesKHR> executables(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR});
  status = query(device.device, &pipeline_info, &count, executables.data());
  if (status < VK_SUCCESS) return vulkan_error(status, "vkGetPipelineExecutablePropertiesKHR");
  std::vector<PipelineStatistics> results;
  for (std::uint32_t i = 0; i < count; ++i) {
    PipelineStatistics result;
    result.pipeline = name;
    result.executable = executables[i].name;
    result.subgroup_size = executables[i].subgroupSize;
    VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
    info.pipeline = pipeline;
    info.executableIndex = i;
    status = read_entries(device, info, result);
    if (status == VK_SUCCESS && isa) status = read_listings(device, info, result);
    if (status != VK_SUCCESS) return vulkan_error(status, "reading pipeline statistics");
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace vkattn::detail

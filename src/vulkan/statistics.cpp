// What drivers say of compiled pipelines: VK_KHR_pipeline_executable_properties.
#include "common/message.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

namespace {

double as_number(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      return statistic.value.b32 == VK_TRUE ? 1 : 0;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<double>(statistic.value.i64);
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return static_cast<double>(statistic.value.u64);
    default:
      return statistic.value.f64;
  }
}

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
  for (const auto& statistic : statistics) result.entries.push_back({statistic.name, as_number(statistic)});
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

// Statistics of compiled pipelines: VK_KHR_pipeline_executable_properties.
#include <algorithm>
#include <string_view>

#include "common/message.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {

namespace {

// The driver of NVIDIA's own, as VkPhysicalDeviceDriverProperties::driverName has it on every system.
constexpr std::string_view kNvidiaDriver = "NVIDIA";

constexpr const char* kReading = "reading pipeline statistics";

Result<void> read_entries(const DeviceState& device, const VkPipelineExecutableInfoKHR& info,
                          PipelineStatistics& result) {
  const auto statistics = read_list(
      kReading, VkPipelineExecutableStatisticKHR{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR},
      [&](auto... out) {
        return device.vk.vkGetPipelineExecutableStatisticsKHR(device.device, &info, out...);
      });
  if (!statistics) return statistics.error();
  for (const auto& statistic : *statistics) {
    result.entries.push_back({statistic.name, as_number(statistic, device.capabilities.driver_name)});
  }
  return {};
}

Result<void> read_listings(const DeviceState& device, const VkPipelineExecutableInfoKHR& info,
                           PipelineStatistics& result) {
  using Form = VkPipelineExecutableInternalRepresentationKHR;
  const auto query = [&](std::uint32_t* count, Form* forms) {
    return device.vk.vkGetPipelineExecutableInternalRepresentationsKHR(device.device, &info, count, forms);
  };
  auto forms =
      read_list(kReading, Form{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR}, query);
  if (!forms) return forms.error();
  auto count = static_cast<std::uint32_t>(forms->size());
  std::vector<std::string> texts(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    texts[i].resize((*forms)[i].dataSize);
    (*forms)[i].pData = texts[i].data();
  }
  const VkResult status = query(&count, forms->data());
  if (status < VK_SUCCESS) return vulkan_error(status, kReading);
  for (std::uint32_t i = 0; i < count; ++i) {
    if ((*forms)[i].isText != VK_TRUE) continue;
    while (!texts[i].empty() && texts[i].back() == '\0') texts[i].pop_back();
    result.listings.push_back({(*forms)[i].name, std::move(texts[i])});
  }
  return {};
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

std::uint64_t code_bytes(const PipelineStatistics& executable) {
  const auto is_one_of = [](std::string_view name, auto... words) {
    const auto is_same = [&](std::string_view word) {
      return std::ranges::equal(name, word, [](char a, char b) { return (a | 0x20) == (b | 0x20); });
    };
    return (is_same(words) || ...);
  };
  for (const PipelineStatistics::Entry& entry : executable.entries) {
    // Of Mesa's drivers, and of NVIDIA's.
    if (is_one_of(entry.name, "code size", "binary size")) return static_cast<std::uint64_t>(entry.value);
  }
  return 0;
}

Result<std::vector<PipelineStatistics>> read_statistics(const DeviceState& device, VkPipeline pipeline,
                                                        std::string_view name, bool isa) {
  VkPipelineInfoKHR pipeline_info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR};
  pipeline_info.pipeline = pipeline;
  const auto executables = read_list(
      "vkGetPipelineExecutablePropertiesKHR",
      VkPipelineExecutablePropertiesKHR{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR},
      [&](auto... out) {
        return device.vk.vkGetPipelineExecutablePropertiesKHR(device.device, &pipeline_info, out...);
      });
  if (!executables) return executables.error();
  std::vector<PipelineStatistics> results;
  for (std::uint32_t i = 0; i < executables->size(); ++i) {
    PipelineStatistics result;
    result.pipeline = name;
    result.executable = (*executables)[i].name;
    result.subgroup_size = (*executables)[i].subgroupSize;
    VkPipelineExecutableInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
    info.pipeline = pipeline;
    info.executableIndex = i;
    if (Result<void> s = read_entries(device, info, result); !s) return s.error();
    if (isa) {
      if (Result<void> s = read_listings(device, info, result); !s) return s.error();
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace vkattn::detail

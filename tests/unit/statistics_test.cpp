// The statistics that drivers report about pipelines.
#include <vkattn/matmul.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>

#include "c/handles.hpp"
#include "support/host_vulkan.hpp"
#include "support/must.hpp"
#include "support/small_problems.hpp"
#include "vulkan/device_state.hpp"
#include "vulkan/pipeline.hpp"

namespace vkattn::detail {
namespace {

VkPipelineExecutableStatisticKHR unsigned_statistic(std::uint64_t value) {
  VkPipelineExecutableStatisticKHR statistic{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
  statistic.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR;
  statistic.value.u64 = value;
  return statistic;
}

TEST(Statistics, OfNvidiasDriverHave32Bits) {
  constexpr std::uint64_t kNoise = std::uint64_t{16} << 32;
  EXPECT_EQ(as_number(unsigned_statistic(kNoise), "NVIDIA"), 0);
  EXPECT_EQ(as_number(unsigned_statistic(kNoise + 144), "NVIDIA"), 144);
  EXPECT_EQ(as_number(unsigned_statistic(40), "NVIDIA"), 40);
  EXPECT_EQ(as_number(unsigned_statistic(kNoise + 144), "radv"), static_cast<double>(kNoise + 144));
  EXPECT_EQ(as_number(unsigned_statistic(kNoise), "NVK"), static_cast<double>(kNoise));
}

TEST(Statistics, HaveAFormat) {
  VkPipelineExecutableStatisticKHR statistic = unsigned_statistic(0);
  statistic.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR;
  statistic.value.i64 = -3;
  EXPECT_EQ(as_number(statistic, "radv"), -3);
  statistic.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR;
  statistic.value.f64 = 0.75;
  EXPECT_EQ(as_number(statistic, "NVIDIA"), 0.75);
  statistic.format = VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR;
  statistic.value.b32 = VK_TRUE;
  EXPECT_EQ(as_number(statistic, "NVIDIA"), 1);
}

TEST(Statistics, TellTheBytesOfCodeByTheNamesOfDrivers) {
  const auto bytes = [](const char* name) {
    return code_bytes({.entries = {{"VGPRs", 40}, {name, 2340}, {"Spilled SGPRs", 7}}});
  };
  EXPECT_EQ(bytes("Code size"), 2340U) << "RADV and turnip";
  EXPECT_EQ(bytes("Code Size"), 2340U) << "NVK";
  EXPECT_EQ(bytes("Binary Size"), 2340U) << "NVIDIA";
  EXPECT_EQ(bytes("Code sizes"), 0U);
  EXPECT_EQ(code_bytes({}), 0U);
}

/// A driver that tells a code size of 1000 bytes for each of two executables of a pipeline.
TEST(Statistics, OfCodeArePartOfThePlansMemory) {
  const tests::HostVulkan vulkan{tests::HostSettings{}};
  const std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device{tests::HostVulkan::borrow(),
                                                                                &vkattn_device_release};
  auto& state = const_cast<DeviceState&>(device->device.state());
  state.capabilities.pipeline_statistics = true;
  state.vk.vkGetPipelineExecutablePropertiesKHR = [](VkDevice, const VkPipelineInfoKHR*, std::uint32_t* count,
                                                     VkPipelineExecutablePropertiesKHR*) {
    *count = 2;
    return VK_SUCCESS;
  };
  state.vk.vkGetPipelineExecutableStatisticsKHR = [](VkDevice, const VkPipelineExecutableInfoKHR*,
                                                     std::uint32_t* count,
                                                     VkPipelineExecutableStatisticKHR* statistics) {
    *count = 1;
    if (statistics == nullptr) return VK_SUCCESS;
    *statistics = unsigned_statistic(1000);
    std::strcpy(statistics->name, "Code size");
    return VK_SUCCESS;
  };
  const MatmulDesc product = tests::small_product();
  PlanOptions options{.kernel = "tile", .inner_splits = 2, .capture_statistics = true};
  const MatmulPlan plan = tests::must(MatmulPlan::create(device->device, product, options));
  ASSERT_EQ(plan.pipelines().size(), 2U) << "the product of parts, and their sum";
  const PlanMemory memory = tests::must(plan.memory());
  EXPECT_EQ(memory.code_bytes, 4000U);
  EXPECT_EQ(memory.total_bytes(), memory.workspace_bytes + memory.parameter_bytes + 4000);
  options.deferred_compilation = true;
  EXPECT_EQ(
      tests::must(tests::must(MatmulPlan::create(device->device, product, options)).memory()).code_bytes, 0U)
      << "nothing is compiled yet";
}

}  // namespace
}  // namespace vkattn::detail

// The statistics that drivers report about pipelines.
#include <gtest/gtest.h>

#include <cstdint>

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

}  // namespace
}  // namespace vkattn::detail

// The tile table, and what was measured in its place.
#include <vkattn/plan.hpp>

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

#include "kernels/select.hpp"
#include "made_up_device.hpp"

namespace vkattn::tests {
namespace {

Capabilities device_of(VkPhysicalDeviceType type) {
  Capabilities capabilities = with_lanes(made_up_gpu(), 8);
  capabilities.device_type = type;
  capabilities.max_stage_storage_buffers = 16;
  return capabilities;
}

TunedProblem tuned(const char* problem, const char* kernel, const TileShape& tile) {
  return {problem, desc_of(problem), {kernel, tile}, 0};
}

TEST(TileTable, TheMostSpecificEntryComesFirst) {
  for (const auto& [problem, rows, keys] :
       {std::tuple{"512x512 d64", 4U, 32U},
        {"512x40 d64", 4U, 16U},
        {"1x4096 d64", 1U, 32U},
        {"hq32 hkv1 1x4096 d64", 4U, 32U}}) {  // heads of a group are rows
    const auto tiles = detail::table_tiles("lane", desc_of(problem), device_of(VK_PHYSICAL_DEVICE_TYPE_CPU));
    EXPECT_EQ(tiles.front().rows, rows) << problem;
    EXPECT_EQ(tiles.front().keys, keys) << problem;
  }
}

using detail::Architecture;
using detail::DeviceClass;

/// Threads name the entry.
TileShape named(std::uint32_t threads) {
  return {threads, 0, 0, 1, 8, 0};
}

/// For each column an entry that asks for nothing else, most specific first, then one for all.
std::vector<detail::TileEntry> table_of_all_columns() {
  return {{"lane", {DeviceClass::kGpu, Architecture::kAmdRdna, 2, 128, 64, 1024}, named(1)},
          {"lane", {DeviceClass::kAny, Architecture::kAmdRdna}, named(2)},
          {"lane", {DeviceClass::kAny, Architecture::kSwiftShader}, named(3)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 2}, named(4)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 0, 128}, named(5)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 0, 0, 64}, named(6)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 0, 0, 0, 1024}, named(7)},
          {"lane", {DeviceClass::kCpu}, named(8)},
          {"tile", {}, named(9)},
          {"lane", {}, named(10)}};
}

TEST(TileTable, EachColumnDecidesAndTheGeneralEntryComesLast) {
  const Capabilities cpu = device_of(VK_PHYSICAL_DEVICE_TYPE_CPU);
  const Capabilities swiftshader = changed(cpu, [](auto& c) { c.driver_name = "SwiftShader driver"; });
  Capabilities rdna = device_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  rdna.vendor_id = 0x1002;
  const Capabilities gcn = with_lanes(rdna, 64);
  using Found = std::vector<std::uint32_t>;
  for (const auto& [problem, device, expected] :
       {std::tuple{"63x1023 d127", rdna, Found{2, 10}},
        {"63x1023 d127", gcn, {10}},
        {"63x1023 d127", cpu, {8, 10}},
        {"63x1023 d127", swiftshader, {3, 8, 10}},
        {"63x1023 d127 bf16", gcn, {4, 10}},    // keys of 2 bytes
        {"63x1023 d127 query=f16", gcn, {10}},  // other elements do not count
        {"63x1023 d128", gcn, {5, 10}},
        {"64x1023 d127", gcn, {6, 10}},
        {"63x1024 d127", gcn, {7, 10}},
        {"64x1024 d128 f16", rdna, {1, 2, 4, 5, 6, 7, 10}},
        {"64x1024 d128", rdna, {2, 5, 6, 7, 10}}}) {  // one column of the first is not met
    Found found;
    for (const TileShape& tile :
         detail::matching_tiles(table_of_all_columns(), "lane", desc_of(problem), device))
      found.push_back(tile.threads);
    EXPECT_EQ(found, expected) << problem;
  }
}

TEST(TileTable, EveryDeviceHasBlockSizesAndCandidatesThatBeginWithTheDefault) {
  for (const auto type : {VK_PHYSICAL_DEVICE_TYPE_CPU, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                          VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU, VK_PHYSICAL_DEVICE_TYPE_OTHER}) {
    const Capabilities device = device_of(type);
    for (const char* problem : {"1x1 d1", "512x512 d64", "hq8 hkv1 1x4096 d64 f16", "4096x4096 d576 dv512"}) {
      const AttentionDesc desc = desc_of(problem);
      for (const detail::Kernel& kernel : detail::ordered_kernels(desc, device)) {
        EXPECT_FALSE(detail::table_tiles(kernel.name, desc, device).empty()) << kernel.name;
      }
      const auto selection = detail::select_kernel(desc, device, {});
      ASSERT_TRUE(selection.ok());
      const auto candidates = tuning_candidates(desc, device);
      ASSERT_GT(candidates.size(), 3U);
      EXPECT_EQ(candidates.front().kernel, selection->kernel.name);
      EXPECT_EQ(candidates.front().tile, selection->config.tile);
    }
  }
}

TEST(TileTable, SenselessBlockSizesAreRefused) {
  const Capabilities gpu = device_of(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
  for (const char* kernel : {"lane", "tile", "decode"}) {
    for (const TileShape& tile : {TileShape{}, TileShape{8, 0, 0, 1, 24, 0}, TileShape{0, 0, 0, 0, 0, 0},
                                  TileShape{~0U, ~0U, ~0U, ~0U, ~0U, ~0U}, TileShape{100, 3, 7, 5, 11, 13},
                                  TileShape{1U << 31U, 0, 16, 1U << 31U, 1U << 30U, 32}}) {
      const auto selection = detail::select_kernel(desc_of("4x64 d64"), gpu, {kernel, &tile, {}});
      ASSERT_FALSE(selection.ok()) << kernel << ": " << to_string(tile);
      EXPECT_TRUE(has(selection.error().message, "block sizes"));
    }
  }
}

TEST(Tuning, TheNearestMeasuredProblemCounts) {
  Tuning tuning;
  tuning.problems = {tuned("h8 512x512 d64 f16", "tile", {256, 0, 16, 4, 4, 32}),
                     tuned("h8 2048x2048 d64 f16", "tile", {128, 0, 16, 4, 2, 32}),
                     tuned("hq8 hkv2 1x4096 d64 f16", "lane", {64, 0, 0, 1, 8, 0})};
  const auto nearest = [&](const char* problem) { return tuning.nearest(desc_of(problem)); };
  EXPECT_EQ(nearest("h8 600x600 d64 f16"), &tuning.problems[0]);
  EXPECT_EQ(nearest("b4 h1 3000x1500 d64 f16"), &tuning.problems[1]);
  EXPECT_EQ(nearest("hq16 hkv4 1x2048 d64 f16"), &tuning.problems[2]);
  EXPECT_EQ(nearest("h8 512x512 d128 f16"), nullptr) << "another head_dim";
  EXPECT_EQ(nearest("h8 512x512 d64"), nullptr) << "another type";
  EXPECT_EQ(nearest("h8 512x512 d64 f16 causal"), nullptr) << "another mask";
  EXPECT_EQ(nearest("hq8 hkv2 512x512 d64 f16"), nullptr) << "other groups";
  EXPECT_EQ(nearest("h8 16384x16384 d64 f16"), nullptr) << "too far";
  tuning.problems.push_back(tuned("h8 512x512 d64 f16 mask=bits hidden=0.75 block=128", "tile", {128}));
  EXPECT_EQ(nearest("h8 512x512 d64 f16 mask=bits"), &tuning.problems[3])
      << "another mask is nearer than none";
  EXPECT_EQ(nearest("h8 600x700 d64 f16 mask=f16"), &tuning.problems[3]);
}

}  // namespace
}  // namespace vkattn::tests

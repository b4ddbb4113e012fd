// Splits keys over workgroups, on made-up devices.
#include "kernels/split.hpp"

#include <vkattn/attention_plan.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "attention/tensor_table.hpp"
#include "common/checked.hpp"
#include "forward/layout.hpp"
#include "kernels/kernel.hpp"
#include "kernels/select.hpp"
#include "shared/attention_constants.h"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

AttentionDesc with_keys(std::int64_t kv_length) {
  return parsed("q1 kv" + std::to_string(kv_length) + " d64").desc;
}

Capabilities gpu_of_units(std::uint32_t compute_units) {
  Capabilities capabilities;
  capabilities.device_type = DeviceType::kDiscreteGpu;
  capabilities.compute_units = compute_units;
  return capabilities;
}

KernelConfig steps_of(std::uint32_t keys) {
  KernelConfig config;
  config.key_step = keys;
  return config;
}

TEST(KvSplit, LeavesBusyDevicesAndShortKeysAlone) {
  for (const auto& [keys, tiles] : {std::pair{65536, 120}, {65536, 5000}, {0, 1}, {256, 1}}) {
    EXPECT_EQ(choose_kv_split(with_keys(keys), gpu_of_units(60), steps_of(32), tiles, false, 0).splits, 1)
        << keys;
  }
}

/// Fills at least 85 % of the workgroups of one wave. Small workgroups are more numerous.
TEST(KvSplit, FillsAnIdleDevice) {
  for (const std::uint32_t per_unit : {2U, 4U}) {
    KernelConfig config = steps_of(32);
    config.workgroups_per_unit = per_unit;
    const KvSplit split = choose_kv_split(with_keys(131072), gpu_of_units(60), config, 8, false, 0);
    EXPECT_GE(split.splits * 8, 51 * per_unit);
    EXPECT_LE(split.splits * 8, 60 * per_unit);
  }
}

TEST(KvSplit, PartsCoverAllKeysInWholeSteps) {
  for (const std::int64_t kv_length : {1, 31, 32, 33, 1000, 4096, 4097}) {
    for (std::int64_t wanted = 1; wanted <= 97; ++wanted) {
      const KvSplit split =
          choose_kv_split(with_keys(kv_length), gpu_of_units(60), steps_of(32), 1, false, wanted);
      EXPECT_LE(split.splits, wanted);
      if (split.splits == 1) continue;
      EXPECT_EQ(split.keys % 32, 0);
      EXPECT_GE(split.splits * split.keys, kv_length);
      EXPECT_LT((split.splits - 1) * split.keys, kv_length);
    }
  }
}

// With 64 rows in a tile a part has at least 128 keys, so that it writes no more than it reads.
TEST(KvSplit, PartsAreAsLargeAsTheTileHasRows) {
  KernelConfig config = steps_of(32);
  for (const auto& [rows, keys] : {std::pair{16U, 64}, {64U, 128}, {128U, 256}}) {
    config.rows_per_workgroup = rows;
    const KvSplit split = choose_kv_split(with_keys(4096), gpu_of_units(132), config, 1, false, 0);
    EXPECT_GE(split.keys, keys) << rows;
    EXPECT_LT(split.keys, 2 * keys) << rows;
  }
}

TEST(KvSplit, CountsWhatATileOfRowsMaySee) {
  AttentionDesc desc = with_keys(16384);
  desc.query_length = 10;
  EXPECT_EQ(most_visible_keys(desc, 4), 16384);
  desc.window.left = 511;
  EXPECT_EQ(most_visible_keys(desc, 4), 16384) << "no end to the right";
  desc.causal = true;
  EXPECT_EQ(most_visible_keys(desc, 1), 512);
  EXPECT_EQ(most_visible_keys(desc, 4), 515);
  EXPECT_EQ(most_visible_keys(desc, 64), 521) << "of 10 rows";
  desc.causal = false;
  desc.window.right = 100;
  EXPECT_EQ(most_visible_keys(desc, 1), 612);
  desc.window.left = kMaxInt64;
  EXPECT_EQ(most_visible_keys(desc, 1), 16384);
  desc.window = {};
  desc.cache.mapping = KeyMapping::kRing;
  desc.cache.ring_length = 300;
  EXPECT_EQ(most_visible_keys(desc, 64), 300);
}

// If the keys fill the device, parts have 128 keys or more. Otherwise they have 64 or more.
TEST(KvSplit, PartsAreAsSmallAsTheDeviceIsLarge) {
  KernelConfig config = steps_of(16);
  config.workgroups_per_unit = 8;
  EXPECT_EQ(choose_kv_split(with_keys(4096), gpu_of_units(132), config, 8, false, 0).keys, 80);
  EXPECT_EQ(choose_kv_split(with_keys(4096), gpu_of_units(20), config, 8, false, 0).keys, 256);
  EXPECT_EQ(choose_kv_split(with_keys(511), gpu_of_units(132), config, 8, false, 0).splits, 1);
  EXPECT_EQ(choose_kv_split(with_keys(512), gpu_of_units(132), config, 8, false, 0).keys, 80);
}

/// If a driver ends loops early, each part stays below its limit, however busy the device is.
TEST(KvSplit, PartsKeepWithinALoopLimit) {
  const Capabilities limited = changed(made_up_gpu(), [](Capabilities& c) {
    c.device_type = DeviceType::kCpu;
    c.max_stage_storage_buffers = 32;
    c.max_loop_iterations = 65535;
  });
  const auto layout = [](const char* problem, const Capabilities& device, std::uint32_t kv_splits) {
    const AttentionDesc desc = parsed(problem).desc.resolved();
    PlanOptions options;
    options.kernel = "lane";
    options.kv_splits = kv_splits;
    auto chosen = select_kernel(desc, device, options);
    if (!chosen.ok()) return Result<ForwardLayout>(chosen.error());
    return lay_out({desc, device, chosen->config, options});
  };
  for (const char* problem :
       {"h1 512x32768 d128", "h64 64x131072 d128 f16", "h64 64x131072 d64 window=90000,0",
        "h64 64x40000 d64 dropout=0.1 mask=f32:k"}) {
    SCOPED_TRACE(problem);
    Capabilities unlimited = limited;
    unlimited.max_loop_iterations = 0;
    EXPECT_EQ(must(layout(problem, unlimited, 0)).split.splits, 1);
    const KvSplit split = must(layout(problem, limited, 0)).split;
    EXPECT_GT(split.splits, 1);
    EXPECT_TRUE(layout(problem, limited, static_cast<std::uint32_t>(split.splits)).ok());
    EXPECT_FALSE(layout(problem, limited, 1).ok());
  }
  EXPECT_EQ(must(layout("h64 64x4096 d64", limited, 0)).split.splits, 1) << "where one part is short enough";
}

/// Each number of parts in flight is a pipeline of its own, so few numbers are used.
TEST(KvSplit, NumbersOfPartsShareACombinePipeline) {
  const AttentionDesc desc = parsed("h8 1x4096 d64").desc.resolved();
  const auto in_flight = [&](const Capabilities& device, std::int64_t parts) {
    const SpecializationValues constants = configure_combine(desc, device, parts).constants;
    EXPECT_EQ(constants.size(), 1U);
    EXPECT_EQ(constants.front().id, static_cast<std::uint32_t>(VKATTN_SPEC_COMBINE_PARTS));
    return constants.front().value;
  };
  const Capabilities gpu = made_up_gpu();
  for (const std::int64_t parts : {5, 6, 7, 8}) EXPECT_EQ(in_flight(gpu, parts), 8U) << parts;
  EXPECT_EQ(in_flight(gpu, 2), 2U);
  EXPECT_EQ(in_flight(gpu, 9), 16U);
  EXPECT_EQ(in_flight(gpu, 1000), 32U);
  const Capabilities cpu = changed(gpu, [](Capabilities& c) { c.device_type = DeviceType::kCpu; });
  for (const std::int64_t parts : {5, 8, 9, 1000}) EXPECT_EQ(in_flight(cpu, parts), 8U) << parts;
}

/// Partial results and a block mask take a storage buffer each, if the device has these beside the tensors.
/// If it has none, partial results share one with small tensors.
TEST(KvSplit, BindsNoMoreBuffersThanAStageMayHave) {
  const AttentionDesc desc = parsed("h8 64x4096 d64 mask=bits").desc.resolved();
  for (const std::uint32_t kv_splits : {0U, 1U, 3U}) {
    PlanOptions options;
    options.kernel = "lane";
    options.kv_splits = kv_splits;
    for (const std::uint32_t spare : {0U, 1U, 2U}) {
      const Capabilities device = changed(with_lanes(made_up_gpu(), 8), [&](Capabilities& c) {
        c.device_type = DeviceType::kCpu;
        c.max_stage_storage_buffers = storage_buffers(desc) + spare;
      });
      const KernelConfig config = must(select_kernel(desc, device, options)).config;
      const auto made = lay_out({desc, device, config, options});
      const ForwardLayout layout = must(made);
      EXPECT_EQ(layout.gathers, spare == 0 && layout.split.splits > 1);
      EXPECT_TRUE(layout.gathers ||
                  int{layout.has_partials} + int{layout.has_block_mask} <= static_cast<int>(spare))
          << kv_splits << " parts, " << spare << " buffers";
      EXPECT_TRUE(spare < 2 || layout.has_block_mask);
      EXPECT_FALSE(layout.gathers && layout.has_block_mask);
    }
  }
}

/// The kernel combines the parts itself where all of a tile lie in one dispatch, few enough for one
/// workgroup, and the device says that workgroups see each other's writes.
TEST(KvSplit, PartsAreCombinedInTheKernelWherePossible) {
  const Capabilities whole = changed(matrix_gpu(), [](Capabilities& c) {
    c.compute_units = 132;
    c.vulkan_memory_model_device_scope = c.mapped_device_memory = true;
  });
  const auto counted = [](const char* problem, const Capabilities& device, const PlanOptions& given = {}) {
    const AttentionDesc desc = parsed(problem).desc.resolved();
    PlanOptions options = given;
    if (options.kernel.empty()) options.kernel = "decode";
    const KernelConfig config = must(select_kernel(desc, device, options)).config;
    const ForwardLayout layout = must(lay_out({desc, device, config, options}));
    EXPECT_GT(layout.split.splits, 1) << problem;
    return layout.counted_tiles;
  };
  constexpr const char* kStep = "b2 hq32 hkv8 1x4096 d128 f16";
  EXPECT_EQ(counted(kStep, whole), 16) << "one for each KV head and batch entry";
  EXPECT_EQ(counted("b2 hq32 hkv8 1x4096 d128 f16 softcap=5", whole), 16);
  for (bool Capabilities::*needed :
       {&Capabilities::vulkan_memory_model, &Capabilities::vulkan_memory_model_device_scope,
        &Capabilities::mapped_device_memory}) {
    EXPECT_EQ(counted(kStep, changed(whole, [&](Capabilities& c) { c.*needed = false; })), 0);
  }
  const auto with_buffers = [&](std::uint32_t count) {
    return changed(whole, [&](Capabilities& c) { c.max_stage_storage_buffers = count; });
  };
  EXPECT_EQ(counted(kStep, with_buffers(6)), 16);
  EXPECT_EQ(counted(kStep, with_buffers(5)), 0) << "Q, K, V, the output and the parts";
  EXPECT_EQ(counted(kStep, whole, {.push_descriptors = true}), 0);
  EXPECT_EQ(counted(kStep, whole, {.kernel = "tile"}), 0) << "which has no such form";
  EXPECT_EQ(counted(kStep, whole, {.max_dispatch_ns = 100}), 0) << "in several dispatches";
  EXPECT_EQ(counted("hq16 hkv1 1x65536 d16 f16", whole, {.kv_splits = 1000}), 0) << "too many parts";
  const auto narrow = changed(whole, [](Capabilities& c) { c.max_storage_buffer_range = 1U << 21U; });
  EXPECT_EQ(counted(kStep, narrow), 0) << "in several windows";
}

/// Of what tiles have to themselves, nothing lies where partial results do or beyond the area.
TEST(KvSplit, TilesHaveTheirMemoryBehindThePartialResults) {
  Capabilities cpu = changed(with_lanes(made_up_gpu(), 8), [](Capabilities& c) {
    c.device_type = DeviceType::kCpu;
    c.compute_units = 2;
    c.subgroup_shuffle = c.shader_int64 = c.shader_float16 = c.buffer_addresses = true;
    c.max_push_constants_bytes = 256;
  });
  for (const std::uint32_t range : {1U << 27U, 1U << 18U}) {
    cpu.max_storage_buffer_range = range;
    for (const char* problem : {"1x4001 d64 lse", "b3 hq4 hkv4 2x900 d64", "hq32 hkv8 1x1024 d128 dv64"}) {
      const AttentionDesc desc = parsed(problem).desc.resolved();
      const PlanOptions options{.kernel = "lane_decode"};
      const KernelConfig config = must(select_kernel(desc, cpu, options)).config;
      ASSERT_NE(config.tile_workspace_bytes, 0U) << problem;
      const LayoutRequest request{desc, cpu, config, options};
      const ForwardLayout layout = must(lay_out(request));
      for (const PlannedWindow& planned : layout.windows) {
        const Window& window = planned.window;
        const auto parts = static_cast<std::uint64_t>(layout.split.splits);
        const auto row_bytes = 4 * (static_cast<std::uint64_t>(desc.value_dim) + 1);
        const auto rows = static_cast<std::uint64_t>(window.batch * window.heads * window.rows);
        const auto tiles = static_cast<std::uint64_t>(row_tiles(request, window));
        EXPECT_GE(planned.tile_byte, layout.has_partials ? rows * parts * row_bytes : 0) << problem;
        EXPECT_GE(planned.partials.bytes, planned.tile_byte + tiles * parts * config.tile_workspace_bytes)
            << problem;
      }
    }
  }
}

TEST(KvSplit, CutsOnlyWhatAWindowShows) {
  AttentionDesc desc = with_keys(131072);
  desc.window = {1023, 0};
  KernelConfig config = steps_of(32);
  config.rows_per_workgroup = 16;
  // 131072 keys would make 13 parts, of which the window shows one.
  const KvSplit split = choose_kv_split(desc, gpu_of_units(60), config, 8, false, 0);
  EXPECT_EQ(split.keys, 160);
  EXPECT_EQ(split.splits, 8) << "7 parts of 160, and one as they may begin within one";
  EXPECT_GE(choose_kv_split(desc, gpu_of_units(60), config, 8, true, 0).splits * 8, 102)
      << "windows of the keys";
  for (const std::int64_t span : {1, 31, 32, 33, 700}) {
    for (std::int64_t wanted = 1; wanted <= 97; ++wanted) {
      const KvSplit parts = split_span(1000, span, wanted, 32);
      for (std::int64_t begin = 0; begin + span <= 1000; ++begin) {
        const std::int64_t first = begin / parts.keys * parts.keys;
        const bool of_all = parts.splits * parts.keys >= 1000;
        ASSERT_GE((of_all ? 0 : first) + parts.splits * parts.keys, begin + span);
      }
    }
  }
}

}  // namespace
}  // namespace vkattn::tests

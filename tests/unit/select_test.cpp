// Rules of the choice of a kernel and its block sizes, from made-up capabilities. Single decisions are in
// decisions.txt, splits over the keys in kv_split_test.cpp, limits that are refused and the smallest device
// in tests/gpu/limits_test.cpp.
#include <vkattn/attention_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "attention/tensor_table.hpp"
#include "backward/backward_kernel.hpp"
#include "common/message.hpp"
#include "families.hpp"
#include "kernels/select.hpp"
#include "kernels/vendors.hpp"
#include "made_up_device.hpp"
#include "matmul/matmul_kernel.hpp"
#include "operation/next_kernel.hpp"
#include "shared/attention_constants.h"
#include "support/must.hpp"
#include "support/problem_text.hpp"

namespace vkattn::tests {
namespace {

using namespace detail;

std::string reason_against(const char* kernel, const AttentionDesc& desc, const Capabilities& capabilities) {
  for (const KernelSupport& support : kernel_support(desc, capabilities)) {
    if (support.kernel == kernel) return support.reason;
  }
  return "not listed";
}

TEST(Select, ABrokenDescriptorIsEachKernelsReason) {
  AttentionDesc desc = desc_of("hq8 hkv2 1x4096 d64");
  desc.value_dim = 0;
  const Capabilities device = small_device(DeviceType::kDiscreteGpu);
  for (const KernelSupport& support : kernel_support(desc, device)) {
    EXPECT_TRUE(has(support.reason, "value_dim is 0")) << support.kernel;
  }
  EXPECT_TRUE(tuning_candidates(desc, device).empty());
  AttentionDesc unset;
  unset.query_heads = 8;
  unset.kv_heads = 2;
  for (const KernelSupport& support : kernel_support(unset, device)) {
    EXPECT_TRUE(has(support.reason, "query_length is not set")) << support.kernel;
  }
}

/// llvmpipe of Mesa 22.3.
Capabilities device_that_ends_loops() {
  return changed(with_lanes(small_device(DeviceType::kCpu), 8), [](Capabilities& c) {
    c.max_stage_storage_buffers = 32;
    c.max_shared_memory_bytes = 32768;
    c.subgroup_shuffle = true;
    c.driver_name = "llvmpipe";
    c.driver_info = "Mesa 22.3.6";
    c.max_loop_iterations = 65535;
  });
}

/// The reason against a kernel where the keys are cut into so many parts.
std::string reason_in_parts(const char* kernel, const char* problem, const Capabilities& capabilities,
                            std::uint32_t kv_splits) {
  PlanOptions options;
  options.kernel = kernel;
  options.kv_splits = kv_splits;
  return message_of(select_kernel(desc_of(problem).resolved(), capabilities, options));
}

/// Problems of usual sizes run in one part, those whose loops might be cut short are refused.
TEST(Select, LoopsThatADriverMightEndAreRefusedByName) {
  const Capabilities capabilities = device_that_ends_loops();
  for (const char* problem :
       {"h8 2048x2048 d128 causal", "2048x2048 d128 mask=bits", "1x4096 d128 mask=bytes", "2048x16384 d64",
        "1x8192 d256", "h2 300x100000 d64 window=255,0", "1x1000000 d64 ring=512"}) {
    EXPECT_EQ(reason_in_parts("lane", problem, capabilities, 1), "") << problem;
  }
  EXPECT_EQ(reason_in_parts("tile", "2048x2048 d128 dropout=0.1", capabilities, 1), "");
  EXPECT_EQ(reason_in_parts("decode", "hq8 hkv1 1x4096 d128", capabilities, 1), "");
  const std::pair<const char*, const char*> long_ones[] = {{"lane", "1x16384 d256"},
                                                           {"lane", "2048x2048 d128 dropout=0.1"},
                                                           {"lane", "1x40000 d64 weights=scores"},
                                                           {"tile", "64x16384 d128"},
                                                           {"lane_decode", "1x1000000 d64"},
                                                           {"decode", "1x1000000 d64"}};
  for (const auto& [kernel, problem] : long_ones) {
    const std::string reason = reason_in_parts(kernel, problem, capabilities, 1);
    for (const char* words : {"Mesa before 25", "after 65535 iterations", "may take ", "needs Mesa 25"})
      EXPECT_TRUE(has(reason, words)) << kernel << ", " << problem;
    Capabilities newer = capabilities;
    newer.max_loop_iterations = 0;
    EXPECT_EQ(reason_in_parts(kernel, problem, newer, 1), "") << kernel << ": " << problem;
  }
}

/// So many parts as it takes are no reason against a kernel, nor is a number of them that suffices: one below
/// names it. What no split helps is refused all the same.
TEST(Select, KeysAreCutWhereADriverMightEndTheirLoops) {
  const Capabilities capabilities = device_that_ends_loops();
  for (const auto& [kernel, problem] : {std::pair{"lane", "hq32 hkv8 1x131072 d128 f16"},
                                        {"lane", "512x32768 d128"},
                                        {"lane", "1x16384 d256"},
                                        {"lane", "2048x16384 d128 dropout=0.1"},
                                        {"lane", "2048x131072 d64 window=65535,0"},
                                        {"tile", "hq32 hkv8 1x131072 d128 f16"},
                                        {"tile", "512x32768 d128"},
                                        {"decode", "1x1000000 d64"}}) {
    SCOPED_TRACE(detail::message(kernel, ": ", problem));
    EXPECT_EQ(reason_against(kernel, desc_of(problem), capabilities), "");
    const std::string reason = reason_in_parts(kernel, problem, capabilities, 1);
    const std::size_t at = reason.find("ask for at least ");
    ASSERT_NE(at, reason.npos) << reason;
    const auto least = static_cast<std::uint32_t>(std::stoul(reason.substr(at + 17)));
    EXPECT_GE(least, 2U);
    EXPECT_EQ(reason_in_parts(kernel, problem, capabilities, least), "");
    EXPECT_TRUE(has(reason_in_parts(kernel, problem, capabilities, least - 1), "may take "));
  }
  EXPECT_TRUE(has(reason_against("lane", desc_of("1x40000 d64 weights=scores"), capabilities), "may take "));
  // What the parts give needs no buffer of its own.
  Capabilities few = capabilities;
  few.max_stage_storage_buffers = 4;
  EXPECT_EQ(reason_against("lane", desc_of("1x16384 d256"), few), "");
}

Capabilities device_of(DeviceType type) {
  Capabilities capabilities = with_lanes(made_up_gpu(), 8);
  capabilities.device_type = type;
  capabilities.max_stage_storage_buffers = 16;
  return capabilities;
}

TunedProblem tuned(const char* problem, const char* kernel, const TileSizes& tile) {
  return {problem, desc_of(problem), {kernel, tile}, 0};
}

/// One list may be for plans of every kind, so that each kind knows the kernels of all.
TEST(Select, ARefusalOfAKernelThatThereIsNotIsAnError) {
  const Capabilities gpu = with_lanes(small_device(DeviceType::kDiscreteGpu), 32);
  const MatmulDesc product = product_of(8, 8, 8);
  const BackwardDesc gradients = backward_of("16x16 d64");
  const auto errors = [&](const std::vector<KernelRefusal>& refusals) {
    PlanOptions options;
    options.refusals = refusals;
    return std::vector{message_of(select_kernel(desc_of("16x16 d64").resolved(), gpu, options)),
                       message_of(select_backward_kernel(gradients.resolved(), gpu, options)),
                       message_of(select_matmul_kernel(product.resolved(), gpu, options))};
  };
  for (const std::string& error : errors({{"matrix2", "is wrong"}, {"decode", "is slow"}})) {
    EXPECT_EQ(error, "");
  }
  for (const std::string& error : errors({{"matrix", "is wrong"}, {"tiles", "are slow"}})) {
    EXPECT_TRUE(has(error, "refusals[1] names 'tiles', and there is no such kernel; the kernels are "));
    for (const Kernel& kernel : ordered_kernels(desc_of("16x16 d64").resolved(), gpu)) {
      EXPECT_TRUE(has(error, kernel.name));
    }
  }
  for (const std::string& error : errors({{"", ""}})) EXPECT_TRUE(has(error, "refusals[0] names ''"));
}

TEST(TileSizes, AreReadAsTheyAreWritten) {
  const TileSizes all{1, 2, 3, 4, 5, 6};
  for (const std::string& text :
       {to_string(all), std::string("dims=6,keys=5,rows=4,columns=3,subgroups=2,threads=1")}) {
    ASSERT_TRUE(parse_tile_sizes(text).ok()) << text;
    EXPECT_EQ(*parse_tile_sizes(text), all) << text;
  }
  EXPECT_EQ(parse_tile_sizes("rows 4, columns 8")->columns, 8U);
  for (const char* wrong : {"rows", "rows=", "rows=x", "rows=-1", "rows=4x", "rows=99999999999", "row=4",
                            "rows=4,,keys=2", "rows=4,rows=4", "=4", ", ", "rows  4", "none"}) {
    EXPECT_TRUE(has(message_of(parse_tile_sizes(wrong)), "block sizes read like")) << wrong;
  }
}

/// Those whose compilers reach sums of a loop through branches, docs/trials/gpu_compilers.md.
TEST(Select, SomeFamiliesWriteOutTheStepsOfTile) {
  const auto writes_out = [](const Family& family, const TileSizes& tile) {
    const AttentionDesc desc = desc_of("h8 1024x1024 d64");
    const std::vector<TileSizes> tiles{tile};
    const auto config = configure_tile(desc, device_of(family), tiles).value();
    return std::ranges::any_of(config.constants, [](const auto& constant) {
      return constant.id == VKATTN_SPEC_WRITES_OUT_STEPS && constant.value != 0;
    });
  };
  const TileSizes large{.threads = 256, .columns = 8, .rows = 4, .keys = 4, .dims = 32};
  TileSizes small = large;
  small.rows = 2;
  for (const Family& family : kFamilies) {
    EXPECT_EQ(architecture(device_of(family)), family.architecture) << family.name;
    const bool is_amd = family.vendor_id == kVendorAmd;
    const bool is_always =
        family.vendor_id == kVendorNvidia || family.architecture == Architecture::kIntelGen12;
    EXPECT_EQ(writes_out(family, large), is_always || is_amd) << family.name;
    EXPECT_EQ(writes_out(family, small), is_always) << family.name;
  }
}

// Every problem finds a kernel on every family, and heads that its registers do not hold decode all the same.
TEST(Select, EachFamilyTakesEveryHead) {
  for (const Family& family : kFamilies) {
    const Capabilities device = device_of(family);
    for (const char* problem :
         {"1x64 d8", "9x64 d40 f16", "hq8 hkv1 2x4096 d256 f16", "1x4096 d576 dv512 f16",
          "h8 1024x1024 d576 dv512", "h8 1024x1024 d192 dv128 f16"}) {
      const auto selection = select_kernel(desc_of(problem), device, {});
      EXPECT_TRUE(selection.ok()) << family.name << ": " << problem;
    }
    for (const char* problem : {"1x4096 d256 f16", "1x4096 d512 f16"}) {
      if (family.most < 32) continue;
      EXPECT_EQ(reason_against("decode", desc_of(problem), device), "") << family.name;
    }
  }
}

// 16 KiB of shared memory are the least that Vulkan grants: there too tile takes no more rows and keys of a
// thread than the family's registers hold.
TEST(Select, LittleSharedMemoryLeavesAFamilyItsRegisters) {
  for (const auto& [family, most] : {std::pair{kFamilies[0], 8U}, std::pair{kFamilies[3], 4U},
                                     std::pair{kFamilies[4], 4U}, std::pair{kFamilies[5], 8U}}) {
    Capabilities device = device_of(family);
    device.max_shared_memory_bytes = 16384;
    for (const char* problem : {"h8 1024x1024 d64 f16", "h8 1024x1024 d80 f16", "h8 1024x1024 d96",
                                "h8 1024x1024 d128 f16", "h8 1024x1024 d192", "h8 1024x1024 d256 f16"}) {
      const AttentionDesc desc = desc_of(problem);
      const auto kernels = ordered_kernels(desc, device);
      const auto tile = std::find_if(kernels.begin(), kernels.end(),
                                     [](const Kernel& kernel) { return kernel.name == "tile"; });
      ASSERT_NE(tile, kernels.end());
      const auto config = must(tile->configure(desc, device, table_tiles("tile", desc, device)));
      EXPECT_LE(config.tile.rows * config.tile.keys, most) << family.name << ": " << problem;
    }
  }
}

/// Threads name the entry.
TileSizes named(std::uint32_t threads) {
  return {threads, 0, 0, 1, 8, 0};
}

/// For each column an entry that asks for nothing else, most specific first, then one for all.
std::vector<TileEntry> table_of_all_columns() {
  return {{"lane", {DeviceClass::kGpu, Architecture::kAmdRdna, 128, 64, 1024}, named(1)},
          {"lane", {DeviceClass::kAny, Architecture::kAmdRdna}, named(2)},
          {"lane", {DeviceClass::kAny, Architecture::kSwiftShader}, named(3)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 128}, named(5)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 0, 64}, named(6)},
          {"lane", {DeviceClass::kAny, Architecture::kAny, 0, 0, 1024}, named(7)},
          {"lane", {DeviceClass::kCpu}, named(8)},
          {"tile", {}, named(9)},
          {"lane", {}, named(10)}};
}

TEST(TileTable, EachColumnDecidesAndTheGeneralEntryComesLast) {
  const Capabilities cpu = device_of(DeviceType::kCpu);
  const Capabilities swiftshader = changed(cpu, [](auto& c) { c.driver_name = "SwiftShader driver"; });
  Capabilities rdna = device_of(DeviceType::kDiscreteGpu);
  rdna.vendor_id = 0x1002;
  const Capabilities gcn = with_lanes(rdna, 64);
  using Found = std::vector<std::uint32_t>;
  for (const auto& [problem, device, expected] :
       {std::tuple{"63x1023 d127", rdna, Found{2, 10}},
        {"63x1023 d127", gcn, {10}},
        {"63x1023 d127", cpu, {8, 10}},
        {"63x1023 d127", swiftshader, {3, 8, 10}},
        {"63x1023 d127 bf16", gcn, {10}},  // types do not count
        {"63x1023 d128", gcn, {5, 10}},
        {"64x1023 d127", gcn, {6, 10}},
        {"63x1024 d127", gcn, {7, 10}},
        {"64x1024 d128", rdna, {1, 2, 5, 6, 7, 10}},
        {"64x1023 d128", rdna, {2, 5, 6, 10}}}) {  // one column of the first is not met
    Found found;
    for (const TileSizes& tile : matching_tiles(table_of_all_columns(), "lane", desc_of(problem), device))
      found.push_back(tile.threads);
    EXPECT_EQ(found, expected) << problem;
  }
}

TEST(TileTable, EveryDeviceHasBlockSizesAndCandidatesThatBeginWithTheDefault) {
  for (const auto type :
       {DeviceType::kCpu, DeviceType::kDiscreteGpu, DeviceType::kIntegratedGpu, DeviceType::kOther}) {
    const Capabilities device = device_of(type);
    for (const char* problem : {"1x1 d1", "512x512 d64", "hq8 hkv1 1x4096 d64 f16", "4096x4096 d576 dv512"}) {
      const AttentionDesc desc = desc_of(problem);
      for (const Kernel& kernel : ordered_kernels(desc, device)) {
        EXPECT_FALSE(table_tiles(kernel.name, desc, device).empty()) << kernel.name;
      }
      const auto selection = must(select_kernel(desc, device, {}));
      const auto candidates = tuning_candidates(desc, device);
      ASSERT_GT(candidates.size(), 3U);
      EXPECT_EQ(candidates.front().kernel, selection.config.name);
      EXPECT_EQ(candidates.front().tile, selection.config.tile);
    }
  }
}

TEST(TileTable, LongStepsOfLaneAreTriedOnCpusAlone) {
  const auto most_keys = [](const char* problem, const Capabilities& device) {
    std::uint32_t most = 0;
    for (const KernelTile& candidate : tuning_candidates(desc_of(problem), device)) {
      if (candidate.kernel == "lane") most = std::max(most, candidate.tile.keys);
    }
    return most;
  };
  Capabilities device = device_of(DeviceType::kCpu);
  device.shader_int64 = true;
  EXPECT_EQ(most_keys("512x90 d64", device), 96U);
  device.device_type = DeviceType::kDiscreteGpu;
  EXPECT_EQ(most_keys("512x90 d64", device), 32U);
}

TEST(TileTable, SenselessBlockSizesAreRefused) {
  const Capabilities gpu = device_of(DeviceType::kDiscreteGpu);
  for (const char* kernel : {"lane", "lane_decode", "tile", "decode"}) {
    for (const TileSizes& tile : {TileSizes{}, TileSizes{8, 0, 0, 1, 24, 0}, TileSizes{0, 0, 0, 0, 0, 0},
                                  TileSizes{~0U, ~0U, ~0U, ~0U, ~0U, ~0U}, TileSizes{100, 3, 7, 5, 11, 13},
                                  TileSizes{1U << 31U, 0, 16, 1U << 31U, 1U << 30U, 32}}) {
      EXPECT_TRUE(has(message_of(select_kernel(desc_of("4x64 d64"), gpu, {.kernel = kernel, .tile = tile})),
                      "block sizes"))
          << kernel << ": " << to_string(tile);
    }
  }
}

/// A kernel that a driver, or the compiler of score functions, does not compile is passed over with a line in
/// the log; one beyond a limit without.
TEST(NextKernel, ComesAfterOneThatIsNotCompiledWhichIsLogged) {
  std::vector<std::string> lines;
  const Log log{[](void* all, LogLevel, const char* text) {
                  static_cast<std::vector<std::string>*>(all)->push_back(text);
                },
                &lines, LogLevel::kWarning, nullptr};
  const std::vector<std::pair<std::string, Error>> fails{
      {"matrix2", {ErrorCode::kLimitExceeded, VK_SUCCESS, "is too large"}},
      {"matrix", {ErrorCode::kUnsupported, VK_SUCCESS, "the glslang does not know it"}}};
  std::vector<std::string> tried;
  const auto make = [&](const PlanOptions& attempt, std::string_view& kernel) -> Result<std::string> {
    for (const auto& [name, error] : fails) {
      if (!check_not_refused(name, attempt.refusals) || (!attempt.kernel.empty() && attempt.kernel != name))
        continue;
      kernel = name;
      tried.push_back(name);
      return error;
    }
    return std::string("tile");
  };
  const auto is_of_kernel = [](const Error&) { return true; };
  const auto made = must(with_next_kernels(log, PlanOptions{}, make, is_of_kernel));
  EXPECT_EQ(made, "tile");
  EXPECT_EQ(tried, (std::vector<std::string>{"matrix2", "matrix"}));
  EXPECT_EQ(lines, (std::vector<std::string>{"matrix: the glslang does not know it"}));
  PlanOptions forced;
  forced.kernel = "matrix";
  EXPECT_EQ(message_of(with_next_kernels(log, forced, make, is_of_kernel)), "the glslang does not know it");
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

// Tuning files: written results are read again, and no content of a file does harm.
#include "runtime/tuning_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "matmul/matmul_kernel.hpp"
#include "runtime/files.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/some_function.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::detail {
namespace {

using tests::has;
using tests::is_refused;
using tests::message_of;
using tests::parsed;
using tests::SomeFunction;

Capabilities device() {
  Capabilities capabilities;
  capabilities.device_name = "A device";
  capabilities.driver_name = "its driver";
  capabilities.vendor_id = 0x1234;
  capabilities.device_id = 7;
  capabilities.driver_version = 42;
  return capabilities;
}

TuningResult result(const std::string& problem, const char* kernel, const TileSizes& tile) {
  return {TunedProblem{problem, parsed(problem).desc, {kernel, tile}, 3, {}}, 1000, "lane", 2000};
}

std::vector<TuningResult> gradients_and_products() {
  const auto products = [](const char* problem, std::uint32_t rows) {
    return TuningResult{TunedMatmul{problem, parsed(problem).matmul, {"lane", {0, rows, 16, 4}}, rows}, 1,
                        "lane", 2};
  };
  const TileSizes staged{.subgroups = 4, .rows = 16, .keys = 32};
  return {{TunedBackward{"gradients", parsed("h8 512x512 d64 causal").desc, "lane", 128, {}, staged}, 1,
           "lane", 2},
          products("matmul 512x256x1024 f16", 1),
          products("matmul 512x256x1024 f16 transposed=a", 4),
          products("matmul 512x256x1024 f16 b=q8_0", 8)};
}

TEST(Validate, RefusesMoreTablesThanAScoreFunctionMayHave) {
  AttentionDesc desc = parsed("8x8 d8").desc;
  desc.score_function = std::make_shared<SomeFunction>(5);
  EXPECT_TRUE(has(message_of(validate(desc)), "5 buffers"));
}

std::string file() {
  return merge_tuning("", device(),
                      {result("h8 512x512 d64 f16", "tile", {256, 0, 16, 4, 4, 32}),
                       result("hq8 hkv2 q1 kv4096 d128 f16", "lane", {0, 0, 0, 1, 8, 0})})
      .value();
}

/// The text with the first occurrence replaced.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(TuningFile, IsReadAsItWasWritten) {
  const Tuning tuning = parse_tuning(file(), "my.json", device());
  EXPECT_EQ(tuning.warning, "");
  EXPECT_EQ(tuning.source, "my.json");
  ASSERT_EQ(tuning.problems.size(), 2U);
  EXPECT_EQ(tuning.problems[0].best.kernel, "tile");
  EXPECT_EQ(tuning.problems[0].best.tile, (TileSizes{256, 0, 16, 4, 4, 32}));
  EXPECT_EQ(tuning.problems[0].kv_splits, 3U);
  EXPECT_EQ(tuning.problems[1].problem, "hq8 hkv2 q1 kv4096 d128 f16");
}

TEST(TuningFile, GradientsAndProductsAreReadAsTheyWereWritten) {
  const std::string text = merge_tuning(file(), device(), gradients_and_products()).value();
  const Tuning tuning = parse_tuning(text, "f", device());
  EXPECT_EQ(tuning.problems.size(), 2U);
  ASSERT_EQ(tuning.gradients.size(), 1U);
  EXPECT_EQ(tuning.gradients[0].kernel, "lane");
  EXPECT_EQ(tuning.gradients[0].chunk_keys, 128U);
  EXPECT_EQ(tuning.gradients[0].tile, (TileSizes{.subgroups = 4, .rows = 16, .keys = 32}));
  EXPECT_EQ(tuning.nearest_backward(parsed("h8 700x300 d64 causal").desc), tuning.gradients.data());
  EXPECT_EQ(tuning.nearest_backward(parsed("h8 512x512 d64").desc), nullptr) << "another mask";
  ASSERT_EQ(tuning.products.size(), 3U);
  for (const auto& [problem, rows] :
       {std::pair("matmul b3 700x300x1000 f16", 1U), std::pair("matmul 512x256x1024 f16 transposed=a", 4U),
        std::pair("matmul 256x256x512 f16 b=q8_0 bias", 8U)}) {
    const TunedMatmul* const nearest = tuning.nearest_matmul(parsed(problem).matmul);
    ASSERT_NE(nearest, nullptr) << problem;
    EXPECT_EQ(nearest->best, (MatmulKernelTile{"lane", {0, rows, 16, 4}})) << problem;
    EXPECT_EQ(nearest->inner_splits, rows) << problem;
  }
  for (const char* const other :
       {"matmul 512x256x1024 f32", "matmul 512x256x1024 f16 output=f32",
        "matmul 512x256x1024 f16 transposed=b", "matmul 64x256x1024 f16", "matmul 512x256x1024 f16 a=ones"}) {
    EXPECT_EQ(tuning.nearest_matmul(parsed(other).matmul), nullptr) << other;
  }
  const std::string again = merge_tuning(text, device(), gradients_and_products()).value();
  EXPECT_EQ(parse_tuning(again, "f", device()).products.size(), 3U) << "replaced, not added";
}

TEST(Tuning, TheDefaultOfProductsIsMeasuredFirstAndOnce) {
  for (const DeviceType type : {DeviceType::kCpu, DeviceType::kDiscreteGpu}) {
    Capabilities capabilities = tests::made_up_gpu();
    capabilities.device_type = type;
    for (const char* const problem : {"matmul 512x512x512", "matmul 8x24x300", "matmul 1x4096x4096 f16"}) {
      const MatmulDesc desc = parsed(problem).matmul;
      const auto candidates = tuning_candidates(desc, capabilities);
      ASSERT_GT(candidates.size(), 1U) << problem;
      const auto by_default = select_matmul_kernel(desc.resolved(), capabilities, {});
      PlanOptions first;
      first.kernel = candidates.front().kernel;
      first.matmul_tile = candidates.front().tile;
      const auto selection = select_matmul_kernel(desc.resolved(), capabilities, first);
      ASSERT_TRUE(by_default && selection) << problem;
      EXPECT_EQ(selection->config.name, by_default->config.name) << problem;
      EXPECT_EQ(selection->config.tile, by_default->config.tile) << problem;
      for (auto at = candidates.begin(); at != candidates.end(); ++at)
        EXPECT_EQ(std::count(at, candidates.end(), *at), 1) << problem;
    }
  }
}

TEST(TuningFile, EachArithmeticHasLinesOfItsOwn) {
  TuningResult float16 = result("h8 512x512 d64 f16", "tile", {256, 0, 16, 1, 4, 64});
  std::get<TunedProblem>(float16.tuned).arithmetic_type = DataType::kFloat16;
  const Tuning tuning = parse_tuning(merge_tuning(file(), device(), {float16}).value(), "f", device());
  ASSERT_EQ(tuning.problems.size(), 3U);
  const AttentionDesc desc = parsed("h8 512x512 d64 f16").desc;
  EXPECT_EQ(tuning.nearest(desc)->best.tile.rows, 4U);
  EXPECT_EQ(tuning.nearest(desc, DataType::kFloat16)->best.tile.rows, 1U);
}

TEST(TuningFile, EachMeasuredProblemIsNearestToItself) {
  std::vector<std::string> problems = {"h8 512x512 d64",
                                       "h8 512x512 d64 window=-1,3 causal",
                                       "b4 h8 512x512 d64",
                                       "hq8 hkv2 512x512 d64",
                                       "h8 512x512 d32",
                                       "h8 2048x512 d64",
                                       "h8 512x2048 d64",
                                       "b2 512x512 d64 sequences query_lengths=9,512 kv_lengths=512,3",
                                       "b2 512x512 d64 sequences=queries query_lengths=9,512 page=16"};
  for (const std::string& words : tests::words_of(
           "causal dv32 bf16 query=f16 output=f16 key=q8_0 value=q4_0 cache=e4m3 mask=f32 mask=f16 "
           "mask=bits window=127,0 page=16 ring=256 dropout=0.1 softcap=50 alibi alibi=given")) {
    problems.push_back("h8 512x512 d64 " + words);
  }
  std::vector<TuningResult> results;
  for (const std::string& problem : problems) {
    results.push_back(result(problem, "tile", {128, 0, 16, 4, 4, 32}));
  }
  TuningResult scored = result("h8 512x512 d64", "tile", {128, 0, 16, 4, 4, 32});
  std::get<TunedProblem>(scored.tuned).problem = "with a score function";
  std::get<TunedProblem>(scored.tuned).desc.score_function = std::make_shared<SomeFunction>();
  results.push_back(scored);
  const Tuning tuning = parse_tuning(merge_tuning("", device(), results).value(), "f", device());
  ASSERT_EQ(tuning.problems.size(), results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto& tuned = std::get<TunedProblem>(results[i].tuned);
    const TunedProblem* const nearest = tuning.nearest(tuned.desc);
    ASSERT_NE(nearest, nullptr) << tuned.problem;
    EXPECT_EQ(nearest->problem, tuned.problem);
  }
}

TEST(TuningFile, EntriesWithoutTheirSizesAreIgnoredWithAWarning) {
  const std::string first = replaced(file(), R"("attention")", R"("unknown")");
  const Tuning tuning = parse_tuning(replaced(first, R"("attention")", R"("unknown")"), "f.json", device());
  EXPECT_TRUE(tuning.problems.empty());
  EXPECT_TRUE(has(tuning.warning, "f.json, none of whose 2 entries"));
}

TEST(TuningFile, OtherDevicesAndProblemsStay) {
  Capabilities other = device();
  other.device_name = "Another device";
  other.device_id = 8;
  const auto both = tests::must(merge_tuning(file(), other, {result("4x4 d8", "lane", {0, 0, 0, 1, 8, 0})}));
  EXPECT_EQ(parse_tuning(both, "f", device()).problems.size(), 2U);
  EXPECT_EQ(parse_tuning(both, "f", other).problems.size(), 1U);
  const auto again =
      tests::must(merge_tuning(both, device(), {result("h8 512x512 d64 f16", "lane", {0, 0, 0, 2, 8, 0})}));
  const Tuning tuning = parse_tuning(again, "f", device());
  ASSERT_EQ(tuning.problems.size(), 2U) << "replaced, not added";
  EXPECT_EQ(tuning.nearest(parsed("h8 512x512 d64 f16").desc)->best.kernel, "lane");
  EXPECT_EQ(parse_tuning(again, "f", other).problems.size(), 1U);
}

/// Each writer stands for a program that has measured for hours, and all write at the same time.
TEST(TuningFile, ResultsOfAllWhoWriteAtOnceStay) {
  const tests::TempFolder folder;
  const std::filesystem::path path = folder / "tuning.json";
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  for (int i = 1; i <= kThreads; ++i) {
    threads.emplace_back([&, i] {
      const auto write = [&](std::string_view text) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(5));  // what the others have read is out of date by then
        return replace_file(path, std::span(&text, 1));
      };
      const std::vector<TuningResult> results{
          result("h8 " + std::to_string(64 * i) + "x512 d64 f16", "lane", {})};
      EXPECT_EQ(message_of(update_tuning(path, device(), results, write)), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(parse_tuning(tests::read_file(path), "t.json", device()).problems.size(),
            static_cast<std::size_t>(kThreads));
#ifndef _WIN32  // on Windows an open file keeps its name
  EXPECT_EQ(folder.file_count(), 1U) << "no lock is left";
#endif
}

TEST(TuningFile, WhatIsNoTuningFileIsNotReplaced) {
  const tests::TempFolder folder;
  const std::filesystem::path path = folder / "notes.txt";
  tests::write_file(path, "my notes");
  const auto never = [](std::string_view) -> Result<void> {
    ADD_FAILURE() << "is written";
    return {};
  };
  EXPECT_TRUE(is_refused(update_tuning(path, device(), {}, never), ErrorCode::kInvalidArgument,
                         {path.string(), "no vkattn tuning file"}));
  EXPECT_TRUE(is_refused(update_tuning(folder.path(), device(), {}, never), ErrorCode::kIo,
                         {folder.path().string(), "cannot be read: this is a folder"}));
}

TEST(TuningFile, OtherDevicesAreIgnoredWithAWarning) {
  Capabilities updated = device(), other = device();
  updated.driver_version = 43;
  other.vendor_id = 1;
  for (const auto& [changed, words] : {std::pair{updated, "driver version"}, {other, "A device"}}) {
    const Tuning tuning = parse_tuning(file(), "f.json", changed);
    EXPECT_TRUE(tuning.problems.empty());
    EXPECT_TRUE(has(tuning.warning, "f.json"));
    EXPECT_TRUE(has(tuning.warning, words));
  }
  const auto merged =
      tests::must(merge_tuning(file(), updated, {result("4x4 d8", "lane", {0, 0, 0, 1, 8, 0})}));
  EXPECT_EQ(parse_tuning(merged, "f", updated).problems.size(), 1U) << "what the old driver gave is dropped";
}

TEST(TuningFile, WhatIsNoTuningFileIsIgnoredWithAWarning) {
  for (const std::string& text :
       std::vector<std::string>{"", "{", "[]", "null", std::string("\0\xff\xfe", 3), std::string(100000, '['),
                                R"({"format": "vkattn tuning", "version": 4, "devices": []})",
                                R"({"format": "vkattn tuning", "version": 3, "devices": {}})",
                                R"({"format": 7, "version": "1", "devices": [3, null, {}]})"}) {
    const Tuning tuning = parse_tuning(text, "f.json", device());
    EXPECT_TRUE(tuning.problems.empty());
    EXPECT_TRUE(has(tuning.warning, "f.json"));
    if (text.empty()) continue;
    EXPECT_FALSE(merge_tuning(text, device(), {}).ok()) << "never overwritten";
  }
}

TEST(TuningFile, DepthIsThatOfTheArraysNotOfStrings) {
  std::string deep;
  for (int i = 0; i < 200000; ++i) deep += R"(["]",)";
  deep += "1" + std::string(200000, ']');
  const std::string text = R"({"format": "vkattn tuning", "version": 3, "devices": )" + deep + "}";
  EXPECT_TRUE(has(parse_tuning(text, "f.json", device()).warning, "no vkattn tuning file"));
  EXPECT_FALSE(merge_tuning(text, device(), {}).ok());
  // Brackets inside of a string do not nest.
  const std::string named = replaced(file(), R"("kernel": "tile")",
                                     R"("note": ")" + std::string(100, '[') + R"(", "kernel": "tile")");
  EXPECT_EQ(parse_tuning(named, "f.json", device()).problems.size(), 2U);
}

TEST(TuningFile, EveryTornFileIsHarmless) {
  const std::string whole = file();
  for (std::size_t length = 0; length < whole.size() - 2; ++length) {
    const Tuning tuning = parse_tuning(whole.substr(0, length), "f", device());
    EXPECT_TRUE(tuning.problems.empty());
    EXPECT_FALSE(tuning.warning.empty());
  }
}

TEST(TuningFile, WrongValuesDropTheirProblemOnly) {
  for (const auto& [from, to] : {std::pair(R"("batch": 1,)", ""),
                                 {R"("query_heads": 8)", R"("query_heads": 2147483648)"},
                                 {R"("query_heads": 8)", R"("query_heads": 18446744073709551615)"},
                                 {R"("query_heads": 8)", R"("query_heads": -2)"},
                                 {R"("query_heads": 8)", R"("query_heads": 8.5)"},
                                 {R"("query_type": "f16")", R"("query_type": "f17")"},
                                 {R"("query_type": "f16")", R"("query_type": [])"},
                                 {R"("causal": false)", R"("causal": 0)"},
                                 {R"("features": {})", R"("features": [])"},
                                 {R"("features": {})", R"("features": {"a mask": 4294967296})"},
                                 {R"("features": {})", R"("features": {"a mask": -1})"},
                                 {R"("kernel": "tile")", R"("kernel": 5)"},
                                 {R"("threads": 256)", R"("threads": -1)"},
                                 {R"("threads": 256)", R"("threads": 1e99)"},
                                 {R"("threads": 256)", R"("threads": 99999999999)"},
                                 {R"("kv_splits": 3)", R"("kv_splits": [])"}}) {
    const Tuning tuning = parse_tuning(replaced(file(), from, to), "f", device());
    EXPECT_EQ(tuning.problems.size(), 1U) << to;
    EXPECT_EQ(tuning.warning, "");
  }
  const std::string others = merge_tuning("", device(), gradients_and_products()).value();
  for (const auto& [from, to] : {std::pair(R"("chunk_keys": 128)", R"("chunk_keys": -64)"),
                                 {R"("rows": 512,)", ""},
                                 {R"("inner_splits": 4)", R"("inner_splits": "4")"},
                                 {R"("a_type": "f16")", R"("a_type": 1)"},
                                 {R"("b_transposed": false)", R"("b_transposed": 0)"}}) {
    const Tuning tuning = parse_tuning(replaced(others, from, to), "f", device());
    EXPECT_EQ(tuning.gradients.size() + tuning.products.size(), 3U) << to;
  }
}

}  // namespace
}  // namespace vkattn::detail

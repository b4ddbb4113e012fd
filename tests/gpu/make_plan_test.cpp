// Runtime::make_plan: measured block sizes, first-use self-tests and times.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/first_use.hpp"
#include "problem/gradients.hpp"
#include "runtime/first_use.hpp"
#include "runtime/runtime_state.hpp"
#include "runtime/tuning_file.hpp"

namespace vkattn::tests {
namespace {

class MakePlan : public FirstUseTest {
 protected:
  [[nodiscard]] std::filesystem::path write(const char* name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  /// A runtime with a tuning file of one result, for "h2 64x64 d32".
  [[nodiscard]] Runtime tuned_runtime(const char* kernel, const TileSizes& tile) const {
    constexpr const char* kProblem = "h2 64x64 d32";
    const detail::TuningResult result{TunedProblem{kProblem, parsed(kProblem).desc, {kernel, tile}, 2, {}}, 1,
                                      "lane", 2};
    return fresh_runtime(write("tuning.json", detail::merge_tuning("", capabilities(), {result}).value()));
  }
  /// The driver of the runtime does not compile the next pipeline.
  static void fail_next_pipeline(const Runtime& runtime, VkResult error) {
    static VkResult next = VK_SUCCESS;
    static PFN_vkCreateComputePipelines compile = nullptr;
    auto& vk = own_state(runtime.device()).vk;
    compile = vk.vkCreateComputePipelines;
    next = error;
    vk.vkCreateComputePipelines = [](auto... arguments) {
      const VkResult failure = std::exchange(next, VK_SUCCESS);
      return failure == VK_SUCCESS ? compile(arguments...) : failure;
    };
  }
  static constexpr const char* kMatrixProblem = "h2 64x64 d32 f16";
};

/// With default options users get the pipelines that the tool measures.
TEST_F(MakePlan, DefaultsGiveTheToolsPipelines) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    AttentionDesc desc;
    desc.query_heads = 4;
    desc.query_length = desc.kv_length = 96;
    desc.head_dim = 64;
    desc.set_type(type);
    const Problem problem = parsed("h4 96x96 d64 " + std::string(name(type)));
    const auto by_hand = must(runtime().make_plan(desc));
    const auto by_tool = must(runtime().make_plan(problem.desc));
    EXPECT_EQ(by_hand.configuration(), by_tool.configuration());
  }
}

TEST_F(MakePlan, MeasuredBlockSizesComeBeforeTheTable) {
  const Problem problem = parsed("h2 70x90 d32 lse");
  const TileSizes tile{0, 0, 0, 2, 8, 0};
  const Runtime tuned = tuned_runtime("lane", tile);
  const auto plan = must(tuned.make_plan(problem.desc));
  EXPECT_EQ(plan.kernel_name(), "lane");
  EXPECT_EQ(plan.tile(), tile);
  EXPECT_EQ(plan.dispatches().back().pass, "combine") << "2 parts";
  EXPECT_TRUE(has(plan.describe(), "h2 64x64 d32"));
  EXPECT_TRUE(has(plan.describe(), (folder_ / "tuning.json").string()));
  harness::ProblemRun run = ready_run(problem, tuned);
  ASSERT_TRUE(run.execute(plan).ok());
  expect_right(run);
  EXPECT_EQ(tuned.make_plan(problem.desc, {.kernel = "tile"})->kernel_name(), "tile")
      << "what is asked for comes first";
}

TEST_F(MakePlan, MeasuredGradientsAndProductsComeBeforeTheRule) {
  const BackwardDesc gradients = bench::with_all_gradients(parsed("h2 100x200 d16").desc);
  const MatmulDesc product = parsed("matmul 40x24x600").matmul;
  const MatmulKernelTile other = tuning_candidates(product, capabilities()).back();
  const auto tuned_runtime = [&](std::uint32_t chunk_keys, const MatmulTile& tile) {
    const std::vector<detail::TuningResult> results{
        {TunedBackward{"some gradients", gradients.attention, "tile", chunk_keys, {}}, 1, "lane", 2},
        {TunedMatmul{"a product", product, {other.kernel, tile}, 3}, 1, "lane", 2}};
    return fresh_runtime(write("tuning.json", detail::merge_tuning("", capabilities(), results).value()));
  };
  const Runtime tuned = tuned_runtime(64, other.tile);
  const auto backward = must(tuned.make_plan(gradients));
  EXPECT_EQ(backward.kernel_name(), "tile");
  EXPECT_EQ(backward.chunk_keys(), 64U);
  EXPECT_TRUE(has(backward.describe(), "tuning: tile (chunks of 64 keys), measured for 'some gradients'"));
  const auto matmul = must(tuned.make_plan(product));
  EXPECT_EQ(matmul.kernel_name(), other.kernel);
  EXPECT_EQ(matmul.tile(), other.tile);
  EXPECT_TRUE(has(matmul.describe(), "split over inner: 3 parts"));
  EXPECT_TRUE(has(matmul.describe(), "measured for 'a product'"));
  EXPECT_EQ(tuned.make_plan(gradients, {.kernel = "lane"})->kernel_name(), "lane");
  EXPECT_EQ(tuned.make_plan(product, {.kernel = "lane"})->kernel_name(), "lane");
  EXPECT_FALSE(has(tuned.make_plan(product, {.inner_splits = 1})->describe(), "split over inner"));

  const Runtime senseless = tuned_runtime(65, {7, 77, 3, 1});
  for (const std::string& text :
       {senseless.make_plan(gradients)->describe(), senseless.make_plan(product)->describe()}) {
    EXPECT_TRUE(has(text, "tuning: cannot use ")) << text;
  }
}

TEST_F(MakePlan, SenselessMeasuredBlockSizesAreLeftAside) {
  const TileSizes tile{12345, 0, 0, 77, 3, 0};
  const Runtime tuned = tuned_runtime("lane", tile);
  const auto plan = must(tuned.make_plan(parsed("h2 64x64 d32").desc));
  EXPECT_FALSE(plan.tile() == tile);
  EXPECT_TRUE(has(plan.describe(), "tuning: cannot use lane"));
}

TEST_F(MakePlan, WhatWasMeasuredAndDoesNotFitIsLeftAside) {
  // Two parts, on a device whose buffers are too small for their results. The caller did not ask for two.
  const Runtime tuned = tuned_runtime("lane", TileSizes{0, 0, 0, 2, 8, 0});
  const Device device = device_with([](Capabilities& c) { c.max_buffer_size = 20'000; });
  const auto plan =
      must(AttentionPlan::create(device, parsed("h2 64x64 d32").desc, {.tuning = tuned.tuning()}));
  EXPECT_TRUE(has(plan.describe(), ": the workspace takes 33792 bytes; maxBufferSize is 20000"));
}

TEST_F(MakePlan, WhatWasMeasuredAndDoesNotCompileLeavesTheKernelItsOwn) {
  const TileSizes tile{0, 0, 0, 2, 8, 0};
  for (const auto& [error, words] :
       {std::pair{VK_ERROR_UNKNOWN, "json: the driver did not compile attention_lane"},
        std::pair{VK_ERROR_OUT_OF_DEVICE_MEMORY, "json: creating the compute pipeline"}}) {
    for (const char* const kernel : {"lane", ""}) {
      const Runtime tuned = tuned_runtime("lane", tile);
      fail_next_pipeline(tuned, error);
      const auto plan = must(tuned.make_plan(parsed("h2 64x64 d32").desc, {.kernel = kernel}));
      EXPECT_FALSE(plan.tile() == tile);
      EXPECT_TRUE(has(plan.describe(), "tuning: cannot use lane (rows 2, keys 8), measured for")) << kernel;
      EXPECT_TRUE(has(plan.describe(), words)) << plan.describe();
      EXPECT_FALSE(has(plan.describe(), "refused: lane")) << plan.describe();
    }
  }
}

TEST_F(MakePlan, CorruptTuningFilesAreIgnoredWithAWarning) {
  for (const auto& path : {write("torn.json", "{\"format\": \"vkattn tun"), write("empty.json", ""),
                           folder_.path() / "missing.json", folder_.path()}) {
    const Runtime untuned = fresh_runtime(path);
    const auto plan = must(untuned.make_plan(parsed("h2 64x64 d32").desc));
    EXPECT_TRUE(has(plan.describe(), "tuning: ignored " + path.string()));
  }
}

/// Plans of a kernel on matrix units that is chosen by name: the one that the device runs.
class MakePlanOnMatrices : public MakePlan {
 protected:
  void SetUp() override {
    MakePlan::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto kernels = accepting_kernels(parsed(kMatrixProblem).desc, capabilities());
    const auto found =
        std::ranges::find_if(kernels, [](const auto& each) { return each.starts_with("matrix"); });
    if (found == kernels.end()) GTEST_SKIP() << "the device runs no kernel on matrix units";
    options_.kernel = *found;
  }
  /// Makes the plan in a new runtime, as another program would.
  [[nodiscard]] Result<void> planned() const {
    const Runtime runtime = fresh_runtime();
    const auto plan = runtime.make_plan(parsed(kMatrixProblem).desc, options_);
    return plan.ok() ? Result<void>() : Result<void>(plan.error());
  }

  PlanOptions options_;
};

TEST_F(MakePlanOnMatrices, SelfTestsCarryWhatProblemsDoToTheirScores) {
  const Runtime runtime = fresh_runtime();
  constexpr const char* kQuantised[] = {" d32 cache=q8_0", " d32 key=q4_0 value=e4m3", " d17 cache=e4m3"};
  constexpr const char* kDropout = " mask=bytes:bqk dropout=0.2";
  constexpr const char* kWords[] = {" mask=f32 sinks softcap=5 alibi=given",
                                    " mask=f16:k window=20,9 align=7",
                                    " mask=bits causal align=bottom-right kv_lengths=50",
                                    " ring=50 query_lengths=30",
                                    " page=16 weights=probabilities",
                                    " sequences query_lengths=40 kv_lengths=60",
                                    " sequences=queries query_lengths=40"};
  std::ptrdiff_t lines = 1;  // the first line says what the file is
  for (const char* const kernel : kOnMatrixUnits) {
    options_.kernel = kernel;
    if (!reason_against(runtime, kernel, kMatrixProblem).empty()) continue;
    std::vector<std::string> problems{std::string(kMatrixProblem) + kDropout};
    for (const char* const words : part_of<const char*>(kWords))
      problems.push_back(std::string(kMatrixProblem) + words);
    for (const char* const words : part_of<const char*>(kQuantised)) {
      problems.push_back(std::string("h2 50x70 f16") + words);
      if (!reason_against(runtime, kernel, problems.back()).empty())
        problems.pop_back();  // matrix2 does not take all of them
    }
    for (const std::string& problem : problems) {
      SCOPED_TRACE(kernel + std::string(" ") + problem);
      must(runtime.make_plan(parsed(problem).desc, options_));
    }
    lines += static_cast<std::ptrdiff_t>(problems.size());
    // Another length has the same pipeline, which is tested already.
    EXPECT_TRUE(
        runtime.make_plan(parsed(std::string("h2 64x65 d32 f16").append(kDropout)).desc, options_).ok());
  }
  const std::string text = read_file(outcomes());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines) << "a line each\n" << text;
}

TEST_F(MakePlanOnMatrices, HasThePipelineOfItsSelfTest) {
  const Runtime runtime = fresh_runtime();
  static int compiled = 0;
  static PFN_vkCreateComputePipelines compile = nullptr;
  auto& vk = own_state(runtime.device()).vk;
  compile = vk.vkCreateComputePipelines;
  compiled = 0;
  vk.vkCreateComputePipelines = [](auto... arguments) { return ++compiled, compile(arguments...); };
  options_.kv_splits = 1;
  // The plan asks for the lse, as self-tests do. A plan without lse has one tensor less and so another
  // pipeline.

  must(runtime.make_plan(parsed(std::string(kMatrixProblem).append(" lse")).desc, options_));
  EXPECT_EQ(compiled, 1);
}

TEST_F(MakePlanOnMatrices, ATestThatEndedItsProgramIsNotRunAgain) {
  ASSERT_TRUE(planned().ok());
  std::string text = read_file(outcomes());
  const std::size_t line = text.find("passed ");
  ASSERT_NE(line, std::string::npos);
  write_file(outcomes(), text.replace(line, 6, "begun"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_TRUE(is_refused(planned(), ErrorCode::kUnsupported,
                           {options_.kernel, "the program ended during the test", outcomes().string()}));
  }
  std::filesystem::remove(outcomes());
  EXPECT_TRUE(planned().ok()) << "as it says";
}

TEST_F(MakePlanOnMatrices, TornOutcomesAreTestedAgain) {
  ASSERT_TRUE(planned().ok());
  const std::string text = read_file(outcomes());
  for (const std::size_t length : {std::size_t{0}, text.size() / 4, text.size() / 2}) {
    write_file(outcomes(), text.substr(0, length));
    EXPECT_TRUE(planned().ok());
    EXPECT_TRUE(has(read_file(outcomes()), text.substr(text.find("passed"))));
  }
}

/// Measured block sizes of the staged form of matrix2's gradients.
class MeasuredStagedGradients : public MakePlan {
 protected:
  void SetUp() override {
    MakePlan::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    PlanOptions staged = options_;
    staged.tile = kTile;
    staged.deferred_compilation = true;
    const auto plan = BackwardPlan::create(runtime().device(), desc_, staged);
    if (!plan) GTEST_SKIP() << plan.error().message;
  }
  /// A new runtime with a tuning file of these block sizes.
  [[nodiscard]] Runtime tuned_runtime() const {
    const detail::TuningResult result{
        TunedBackward{"staged gradients", desc_.attention, "matrix2", 0, {}, kTile}, 1, "lane", 2};
    return fresh_runtime(write("tuning.json", detail::merge_tuning("", capabilities(), {result}).value()));
  }

  static constexpr TileSizes kTile{.subgroups = 2, .rows = 16, .keys = 16};
  static constexpr const char* kMeasured = "matrix2 (subgroups 2, rows 16, keys 16), measured for";
  BackwardDesc desc_ = bench::with_all_gradients(parsed("h2 64x64 d32 f16").desc);
  PlanOptions options_{.kernel = "matrix2"};
};

TEST_F(MeasuredStagedGradients, ReachThePlan) {
  const Runtime tuned = tuned_runtime();
  for (const PlanOptions& options : {options_, PlanOptions()}) {
    const auto plan = must(tuned.make_plan(desc_, options));
    EXPECT_EQ(plan.kernel_name(), "matrix2");
    EXPECT_EQ(plan.tile(), kTile);
    EXPECT_TRUE(has(plan.describe(), std::string("tuning: ") + kMeasured)) << plan.describe();
    EXPECT_TRUE(has(read_file(outcomes()), "passed " + plan.configuration() + "\n"));
  }
  EXPECT_FALSE(fresh_runtime().make_plan(desc_, options_)->tile() == kTile) << "without the file";
}

/// Only the measured sizes were wrong, so the kernel's own may be right.
TEST_F(MeasuredStagedGradients, ThatFailTheirSelfTestLeaveTheKernelItsOwn) {
  const std::string measured = must(tuned_runtime().make_plan(desc_, options_)).configuration();
  fail_all();
  const Runtime tuned = tuned_runtime();
  std::string warnings;
  own_state(tuned.device()).log = {[](void* all, LogLevel, const char* text) {
                                     static_cast<std::string*>(all)->append(text).append("\n");
                                   },
                                   &warnings, LogLevel::kWarning, nullptr};
  const auto plan = must(tuned.make_plan(desc_, options_));
  EXPECT_EQ(plan.kernel_name(), "matrix2");
  EXPECT_FALSE(plan.tile() == kTile);
  EXPECT_TRUE(has(read_file(outcomes()), "failed " + measured + "\t"));
  EXPECT_TRUE(has(read_file(outcomes()), "passed " + plan.configuration() + "\n"));
  for (const std::string& text : {plan.describe(), warnings}) {
    EXPECT_TRUE(has(text, std::string("tuning: cannot use ") + kMeasured)) << text;
    EXPECT_TRUE(has(text, "json: failed its self-test on this device (dim 3 is 7 where 8 was")) << text;
  }
  EXPECT_FALSE(has(must(tuned.make_plan(desc_)).describe(), "refused: matrix2"));
  fail_all();
  EXPECT_TRUE(is_refused(tuned_runtime().make_plan(desc_, options_), ErrorCode::kUnsupported,
                         {"matrix2", "failed its self-test"}));
}

TEST_F(MakePlan, KernelsTakeTheirTime) {
  for (const char* const problem :
       {"h2 64x64 d32", "hq2 hkv1 64x64 d32 f16 causal mask=bytes:qk window=9,9"}) {
    for (const char* const kernel : {"lane", "tile"}) {
      if (!reason_against(runtime(), kernel, problem).empty()) continue;
      const auto plan = must(tests::make_plan(runtime(), parsed(problem).desc, {kernel}));
      std::vector<SelfTest> done;
      const auto begin = std::chrono::steady_clock::now();
      const auto time = must(detail::time_kernel(runtime(), plan, done));
      const std::chrono::duration<double, std::nano> whole_call = std::chrono::steady_clock::now() - begin;
      EXPECT_EQ(time.failure, "");
      EXPECT_GT(time.nanoseconds, 1000U) << kernel;
      EXPECT_LT(static_cast<double>(time.nanoseconds), whole_call.count()) << kernel;
    }
  }
}

/// Presents the device as a GPU, where kernels on matrix units come first. As a CPU, the kernels before them
/// are refused.
class Times : public MakePlan {
 protected:
  void SetUp() override {
    MakePlan::SetUp();
    if (IsSkipped()) return;
    for (const char* const kernel : kOnMatrixUnits) {
      if (reason_against(runtime(), kernel, kMatrixProblem).empty()) kernels_.push_back(kernel);
    }
    if (kernels_.size() < 2) GTEST_SKIP() << "the device runs fewer than two kernels on matrix units";
    if (!capabilities().is_cpu()) GTEST_SKIP() << "times are those of the device";
    for (const char* const kernel : {"lane", "lane_decode", "tile", "decode"})
      options_.refusals.push_back({kernel, "slow"});
  }
  /// A runtime that compares times.
  [[nodiscard]] Runtime timing_runtime(bool self_tests = true) const {
    Runtime runtime = fresh_runtime({}, self_tests);
    detail::RuntimeState::of(runtime).times_kernels = true;
    return runtime;
  }
  /// Makes the plan in a new runtime, as another program would. The runtime outlives the plan.
  [[nodiscard]] Result<AttentionPlan> planned() {
    runtimes_.push_back(timing_runtime());
    return runtimes_.back().make_plan(parsed(kMatrixProblem).desc, options_);
  }
  /// Replaces the kept time of a kernel.
  void set_time(const std::string& kernel, const std::string& nanoseconds) const {
    std::string text = read_file(outcomes());
    const std::size_t line = text.find("timed time with 1 query heads to a KV head: " + kernel + ",");
    ASSERT_NE(line, std::string::npos) << text;
    const std::size_t tab = text.find('\t', line);
    write_file(outcomes(), text.replace(tab + 1, text.find('\n', tab) - tab - 1, nanoseconds));
  }

  std::vector<std::string> kernels_;
  PlanOptions options_;
  std::vector<Runtime> runtimes_;
};

TEST_F(Times, AreKeptAndTold) {
  const auto plan = must(planned());
  const std::string text = read_file(outcomes());
  for (const std::string& kernel : kernels_) {
    EXPECT_TRUE(has(text, "timed time with 1 query heads to a KV head: " + kernel + ","));
  }
  EXPECT_TRUE(has(plan.describe(), "timed on this device: matrix "));
  const auto time = std::filesystem::last_write_time(outcomes());
  EXPECT_EQ(planned()->kernel_name(), plan.kernel_name());
  EXPECT_EQ(std::filesystem::last_write_time(outcomes()), time) << "nothing is timed again";
}

TEST_F(Times, ASlowKernelIsNotUsed) {
  ASSERT_TRUE(planned().ok());
  set_time("matrix", "571000000");
  set_time("matrix2", "400000");
  const auto plan = must(planned());
  EXPECT_EQ(plan.kernel_name(), "matrix2");
  EXPECT_TRUE(has(plan.describe(), "refused: matrix: took 571 ms on this device"));
  set_time("matrix2", "400000000");
  EXPECT_EQ(planned()->kernel_name(), "matrix") << "the difference is small";
}

TEST_F(Times, OverruleNothingThatWasAskedFor) {
  must(planned());
  set_time("matrix", "571000000");
  set_time("matrix2", "400000");
  const Runtime runtime = timing_runtime();
  PlanOptions by_name = options_;
  by_name.kernel = "matrix";
  const AttentionDesc desc = parsed(kMatrixProblem).desc;
  const auto forced = must(runtime.make_plan(desc, by_name));
  EXPECT_FALSE(has(forced.describe(), "timed on")) << forced.describe();
  PlanOptions tuned = options_;
  tuned.tuning = std::make_shared<Tuning>(
      Tuning{"a file", "", {{kMatrixProblem, desc, {"matrix", forced.tile()}, 0, {}}}});
  const auto measured = must(runtime.make_plan(desc, tuned));
  EXPECT_EQ(measured.kernel_name(), "matrix") << measured.describe();
  const Runtime failing = timing_runtime();
  fail_next_pipeline(failing, VK_ERROR_UNKNOWN);
  const auto compared = must(failing.make_plan(desc, tuned));
  EXPECT_EQ(compared.kernel_name(), "matrix2") << "the measured block sizes are left aside";
  EXPECT_TRUE(has(compared.describe(), "tuning: cannot use matrix (")) << compared.describe();
}

TEST_F(Times, ThatEndedTheirProgramAreNotTakenAgain) {
  ASSERT_TRUE(planned().ok());
  std::string text = read_file(outcomes());
  const std::size_t line = text.find("timed time with 1 query heads to a KV head: matrix,");
  ASSERT_NE(line, std::string::npos);
  const std::size_t tab = text.find('\t', line);
  text.erase(tab, text.find('\n', tab) - tab);
  write_file(outcomes(), text.replace(line, 5, "begun"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto plan = must(planned());
    EXPECT_EQ(plan.kernel_name(), "matrix2");
    EXPECT_TRUE(has(plan.describe(), "refused: matrix: was not timed on this device (the program ended"));
  }
}

TEST_F(Times, AreNotTakenWithoutSelfTestsOrOnACpu) {
  for (const bool is_cpu : {true, false}) {
    const Runtime runtime = is_cpu ? fresh_runtime() : timing_runtime(false);
    ASSERT_TRUE(runtime.make_plan(parsed(kMatrixProblem).desc, options_).ok());
    EXPECT_FALSE(has(read_file(outcomes()), "timed ")) << (is_cpu ? "a CPU" : "self_tests is off");
  }
}

}  // namespace
}  // namespace vkattn::tests

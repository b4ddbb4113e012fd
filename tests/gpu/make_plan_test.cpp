// Runtime::make_plan: measured block sizes and first-use self-tests.
#include <algorithm>
#include <filesystem>
#include <string>

#include "gpu/support.hpp"
#include "runtime/tuning_file.hpp"
#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

class MakePlan : public GpuTest {
 protected:
  [[nodiscard]] Result<Runtime> fresh_runtime(const std::filesystem::path& tuning = {}) const {
    RuntimeOptions options;
    options.device = capabilities().device_name;
    options.cache_dir = folder_.path();
    options.tuning_file = tuning;
    return Runtime::create(options);
  }
  [[nodiscard]] std::filesystem::path write(const char* name, const std::string& text) const {
    write_file(folder_ / name, text);
    return folder_ / name;
  }
  /// With a tuning file of one result, for "h2 64x64 d32" where no other problem is given.
  [[nodiscard]] Result<Runtime> tuned_runtime(const char* kernel, const TileSizes& tile,
                                              const char* problem = "h2 64x64 d32") const {
    const detail::TuningResult result{{problem, parsed(problem).desc, {kernel, tile}, 2}, 1, "lane", 2};
    return fresh_runtime(write("tuning.json", detail::merge_tuning("", capabilities(), {result}).value()));
  }
  /// The file of self-test outcomes in the folder; empty where there is none.
  [[nodiscard]] std::filesystem::path outcomes() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().rfind("self-tests-", 0) == 0) return entry.path();
    }
    return {};
  }
  /// The kernel on matrix units that the device runs; empty where it runs none.
  static std::string matrix_kernel() {
    for (const KernelSupport& support : kernel_support(parsed(kMatrixProblem).desc, capabilities())) {
      if (support.reason.empty() && support.kernel.rfind("matrix", 0) == 0)
        return std::string(support.kernel);
    }
    return {};
  }
  static constexpr const char* kMatrixProblem = "h2 64x64 d32 f16";

  TempFolder folder_;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// What users get by default is what the tool measures.
TEST_F(MakePlan, DefaultsGiveTheToolsPipelines) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    AttentionDesc desc;
    desc.query_heads = 4;
    desc.query_length = desc.kv_length = 96;
    desc.head_dim = 64;
    desc.set_type(type);
    const Problem problem = parsed("h4 96x96 d64 " + std::string(name(type)));
    const auto by_hand = runtime().make_plan(desc);
    const auto by_tool = runtime().make_plan(problem.desc);
    ASSERT_TRUE(by_hand.ok() && by_tool.ok());
    EXPECT_EQ(by_hand->configuration(), by_tool->configuration());
  }
}

TEST_F(MakePlan, MeasuredBlockSizesComeBeforeTheTable) {
  const Problem problem = parsed("h2 70x90 d32 lse");
  const TileSizes tile{0, 0, 0, 2, 8, 0};
  const auto tuned = tuned_runtime("lane", tile);
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  const auto plan = tuned->make_plan(problem.desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->kernel_name(), "lane");
  EXPECT_EQ(plan->tile(), tile);
  EXPECT_EQ(plan->dispatches().back().pass, "combine") << "2 parts";
  EXPECT_TRUE(contains(plan->describe(), "h2 64x64 d32") &&
              contains(plan->describe(), (folder_ / "tuning.json").string()))
      << plan->describe();
  auto run = harness::ProblemRun::create(*tuned, problem);
  ASSERT_TRUE(run.ok() && run->fill_inputs().ok() && run->poison_outputs().ok() && run->execute(*plan).ok());
  EXPECT_TRUE(run->check()->passed());
  PlanOptions forced;
  forced.kernel = "tile";
  EXPECT_EQ(tuned->make_plan(problem.desc, forced)->kernel_name(), "tile") << "what is asked for comes first";
}

TEST_F(MakePlan, SenselessMeasuredBlockSizesAreLeftAside) {
  const TileSizes tile{12345, 0, 0, 77, 3, 0};
  const auto runtime = tuned_runtime("lane", tile);
  ASSERT_TRUE(runtime.ok());
  const auto plan = runtime->make_plan(parsed("h2 64x64 d32").desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_FALSE(plan->tile() == tile);
  EXPECT_TRUE(contains(plan->describe(), "tuning: cannot use lane")) << plan->describe();
}

TEST_F(MakePlan, WhatWasMeasuredAndDoesNotFitIsLeftAside) {
  // A kernel that accepts but cannot split: the number of parts is none that the caller asked for.
  const AttentionDesc desc = parsed(kMatrixProblem).desc;
  RunOptions matrix{"matrix"};
  const auto whole = tests::make_plan(this->runtime(), desc, matrix);
  if (!whole.ok()) GTEST_SKIP() << whole.error().message;
  const auto runtime = tuned_runtime("matrix", whole->tile(), kMatrixProblem);
  ASSERT_TRUE(runtime.ok());
  const auto plan = runtime->make_plan(desc);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_NE(plan->kernel_name(), "matrix");
  EXPECT_TRUE(contains(plan->describe(), "not used: the kernel matrix cannot split")) << plan->describe();
}

TEST_F(MakePlan, CorruptTuningFilesAreIgnoredWithAWarning) {
  for (const auto& path : {write("torn.json", "{\"format\": \"vkattn tun"), write("empty.json", ""),
                           folder_.path() / "missing.json", folder_.path()}) {
    const auto runtime = fresh_runtime(path);
    ASSERT_TRUE(runtime.ok());
    const auto plan = runtime->make_plan(parsed("h2 64x64 d32").desc);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(contains(plan->describe(), "tuning: ignored " + path.string())) << plan->describe();
  }
}

TEST_F(MakePlan, MatrixPathsAreTestedOnce) {
  if (matrix_kernel().empty()) GTEST_SKIP() << "the device runs no kernel on matrix units";
  PlanOptions options;
  options.kernel = matrix_kernel();
  {
    const auto runtime = fresh_runtime();
    ASSERT_TRUE(runtime.ok());
    const auto plan = runtime->make_plan(parsed(kMatrixProblem).desc, options);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(contains(read_file(outcomes()), "passed " + plan->configuration() + "\n"))
        << read_file(outcomes());
  }
  const auto time = std::filesystem::last_write_time(outcomes());
  const auto runtime = fresh_runtime();
  EXPECT_TRUE(runtime->make_plan(parsed(kMatrixProblem).desc, options).ok());
  EXPECT_EQ(std::filesystem::last_write_time(outcomes()), time);
}

TEST_F(MakePlan, SelfTestsCarryWhatProblemsDoToTheirScores) {
  const auto runtime = fresh_runtime();
  ASSERT_TRUE(runtime.ok());
  if (matrix_kernel().empty()) GTEST_SKIP() << "the device runs no kernel on matrix units";
  constexpr const char* kQuantised[] = {" d32 cache=q8_0", " d32 key=q4_0 value=e4m3", " d17 cache=e4m3"};
  constexpr const char* kWords[] = {" mask=f32 sinks softcap=5 alibi=given",
                                    " mask=f16:k window=20,9 align=7",
                                    " mask=bytes:bqk dropout=0.2",
                                    " mask=bits causal align=bottom-right kv_lengths=50",
                                    " ring=50 query_lengths=30",
                                    " page=16 weights=probabilities",
                                    " sequences query_lengths=40 kv_lengths=60",
                                    " sequences=queries query_lengths=40"};
  std::ptrdiff_t lines = 1;  // what the file is
  for (const char* const kernel : {"matrix", "matrix2"}) {
    PlanOptions options;
    options.kernel = kernel;
    if (!reason_against(*runtime, kernel, kMatrixProblem).empty()) continue;
    for (const char* const words : kWords) {
      const auto plan = runtime->make_plan(parsed(std::string(kMatrixProblem).append(words)).desc, options);
      ASSERT_TRUE(plan.ok()) << kernel << words << ": " << plan.error().message;
      ++lines;
    }
    for (const char* const words : kQuantised) {
      const std::string problem = std::string("h2 50x70 f16").append(words);
      if (!reason_against(*runtime, kernel, problem).empty()) continue;  // on matrix2
      const auto plan = runtime->make_plan(parsed(problem).desc, options);
      ASSERT_TRUE(plan.ok()) << kernel << words << ": " << plan.error().message;
      ++lines;
    }
    // Another length is the same pipeline, tested already.
    EXPECT_TRUE(runtime->make_plan(parsed("h2 64x65 d32 f16 mask=bytes:bqk dropout=0.2").desc, options).ok());
  }
  const std::string text = read_file(outcomes());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines) << "a line each\n" << text;
}

TEST_F(MakePlan, AKernelThatFailedItsSelfTestIsNotUsed) {
  if (matrix_kernel().empty()) GTEST_SKIP() << "the device runs no kernel on matrix units";
  PlanOptions options;
  options.kernel = matrix_kernel();
  ASSERT_TRUE(fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options).ok());
  std::string text = read_file(outcomes());
  const std::size_t line = text.find("passed ");
  ASSERT_NE(line, std::string::npos);
  text.replace(line, 6, "failed").insert(text.find('\n', line), "\tdim 3 is 7 where 8 was expected");
  write_file(outcomes(), text);
  const auto runtime = fresh_runtime();
  const auto forced = runtime->make_plan(parsed(kMatrixProblem).desc, options);
  ASSERT_FALSE(forced.ok());
  EXPECT_TRUE(names(forced.error(), ErrorCode::kUnsupported,
                    {options.kernel, "self-test", "dim 3 is 7 where 8 was expected"}));
  EXPECT_TRUE(runtime->make_plan(parsed(kMatrixProblem).desc).ok()) << "others are there";
}

TEST_F(MakePlan, ATestThatEndedItsProgramIsNotRunAgain) {
  if (matrix_kernel().empty()) GTEST_SKIP() << "the device runs no kernel on matrix units";
  PlanOptions options;
  options.kernel = matrix_kernel();
  ASSERT_TRUE(fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options).ok());
  std::string text = read_file(outcomes());
  const std::size_t line = text.find("passed ");
  ASSERT_NE(line, std::string::npos);
  write_file(outcomes(), text.replace(line, 6, "begun"));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto forced = fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options);
    ASSERT_FALSE(forced.ok());
    EXPECT_TRUE(names(forced.error(), ErrorCode::kUnsupported,
                      {options.kernel, "the program ended during the test", outcomes().string()}));
  }
  std::filesystem::remove(outcomes());
  EXPECT_TRUE(fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options).ok()) << "as it says";
}

TEST_F(MakePlan, TornOutcomesAreTestedAgain) {
  if (matrix_kernel().empty()) GTEST_SKIP() << "the device runs no kernel on matrix units";
  PlanOptions options;
  options.kernel = matrix_kernel();
  ASSERT_TRUE(fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options).ok());
  const std::string text = read_file(outcomes());
  for (const std::size_t length : {std::size_t{0}, text.size() / 4, text.size() / 2}) {
    write_file(outcomes(), text.substr(0, length));
    EXPECT_TRUE(fresh_runtime()->make_plan(parsed(kMatrixProblem).desc, options).ok());
    EXPECT_TRUE(contains(read_file(outcomes()), text.substr(text.find("passed"))));
  }
}

}  // namespace
}  // namespace vkattn::tests

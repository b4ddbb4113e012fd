// Plans of one device compile what they share only once.
#include "vulkan/shared_pipelines.hpp"

#include <vkattn/pipeline_cache.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/message.hpp"
#include "gpu/support.hpp"
#include "support/by_threads.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

class SharedPipelinesTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    options_.kernel = "lane";
    options_.device = device_with([](Capabilities&) {});
    state().pipelines = std::make_shared<detail::SharedPipelines>();
    compiled_ = fail_ = 0;
    compile_ = state().vk.vkCreateComputePipelines;
    state().vk.vkCreateComputePipelines = [](VkDevice handle, VkPipelineCache cache, std::uint32_t count,
                                             const VkComputePipelineCreateInfo* infos,
                                             const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
      if (fail_ > 0 && --fail_ == 0) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
      compiled_ += count;
      return compile_(handle, cache, count, infos, allocator, pipelines);
    };
  }
  [[nodiscard]] AttentionPlan plan(const std::string& problem) const {
    return must(make_plan(runtime(), parsed(problem).desc, options_));
  }
  /// Collects what the log says about compiling.
  void log_to_lines() {
    lines_.clear();
    state().log = {[](void* lines, LogLevel level, const char* text) {
                     if (level == LogLevel::kInfo)
                       static_cast<std::vector<std::string>*>(lines)->push_back(text);
                   },
                   &lines_, LogLevel::kInfo, nullptr};
  }
  [[nodiscard]] testing::AssertionResult is_right(const std::string& problem,
                                                  const AttentionPlan& plan) const {
    return matches_reference(runtime(), parsed(problem), plan, options_);
  }

  [[nodiscard]] detail::DeviceState& state() const { return own_state(*options_.device); }
  /// A plan of the test's device, on lane, with further options.
  [[nodiscard]] AttentionPlan plan(const std::string& problem, PlanOptions options) const {
    options.kernel = "lane";
    return must(AttentionPlan::create(*options_.device, parsed(problem).desc, options));
  }

  RunOptions options_;
  std::vector<std::string> lines_;

  inline static std::atomic<std::uint32_t> compiled_ = 0;
  inline static std::uint32_t fail_ = 0;  ///< the call that fails, counted from now; 0: none
  inline static PFN_vkCreateComputePipelines compile_ = nullptr;
};

TEST_F(SharedPipelinesTest, PlansThatDifferInLengthsShareOne) {
  const std::string shorter = "b2 h2 30x41 d16 causal", longer = "b2 h2 31x44 d16 causal";
  {
    auto first = std::make_unique<AttentionPlan>(plan(shorter));
    EXPECT_EQ(compiled_, 1U);
    const AttentionPlan second = plan(longer);
    EXPECT_EQ(compiled_, 1U);
    EXPECT_EQ(first->configuration(), second.configuration());
    EXPECT_TRUE(is_right(shorter, *first));
    first.reset();
    EXPECT_TRUE(is_right(longer, second)) << "after the plan that compiled it is gone";
    EXPECT_TRUE(is_right(shorter, plan(shorter)));
    EXPECT_EQ(compiled_, 1U);
  }
  EXPECT_TRUE(is_right(shorter, plan(shorter)));
  EXPECT_EQ(compiled_, 2U) << "nothing keeps the pipelines of plans that are gone";
}

/// A new cache must receive the pipeline, even if plans without a cache or with another cache have it. So it
/// is compiled again. A new cache often gets the handle of a destroyed one.
TEST_F(SharedPipelinesTest, ACacheIsGivenWhatAnotherHad) {
  std::vector<AttentionPlan> living{plan("h2 30x41 d16")};
  for (std::uint32_t n = 2; n <= 4; ++n) {
    const auto cache = must(PipelineCache::create(*options_.device, {}));
    for (int i = 0; i < 2; ++i) living.push_back(plan("h2 30x41 d16", {.pipeline_cache = cache.handle()}));
    EXPECT_EQ(compiled_, n);
  }
}

TEST_F(SharedPipelinesTest, AnotherAttemptKeepsWhatTheFirstHadCompiled) {
  const AttentionPlan late = plan("h2 1x300 d16", {.kv_splits = 3, .deferred_compilation = true});
  ASSERT_EQ(compiled_, 0U);
  log_to_lines();
  fail_ = 2;
  EXPECT_TRUE(is_refused(late.compile(), ErrorCode::kOutOfMemory, {}));
  EXPECT_FALSE(late.is_compiled());
  EXPECT_EQ(compiled_, 1U);
  EXPECT_TRUE(late.compile().ok());
  EXPECT_EQ(compiled_, 2U) << "the attention and the merge, once each";
  const auto pipelines = late.pipelines();
  ASSERT_EQ(pipelines.size(), 2U);
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0].substr(0, lines_[0].rfind(" in ")),
            detail::message("compiled ", pipelines[1].shader, "; found ", pipelines[0].shader));
}

TEST_F(SharedPipelinesTest, TheLogTellsWhatWasCompiledAndWhatWasFound) {
  log_to_lines();
  const AttentionPlan first = plan("b2 h2 30x41 d16");
  const AttentionPlan second = plan("b2 h2 31x44 d16");
  const std::string shader(first.pipelines().at(0).shader);
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(lines_[0].substr(0, lines_[0].rfind(" in ")), "compiled " + shader);
  EXPECT_EQ(lines_[1].substr(0, lines_[1].rfind(" in ")), "found " + shader);
}

/// Later calls try again. Calls that waited for the failed one do not.
TEST_F(SharedPipelinesTest, ThreadsThatCompileAPlanAtOnceFailOnce) {
  constexpr std::uint32_t kThreads = 4;
  static std::atomic<std::uint32_t> begun, tried;
  const auto compile = state().vk.vkCreateComputePipelines;
  state().vk.vkCreateComputePipelines = [](auto...) {
    ++tried;
    while (begun < kThreads) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // so that the others wait
    return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  };
  const AttentionPlan late = plan("h2 30x41 d16", {.deferred_compilation = true});
  std::vector<Result<void>> outcomes(kThreads);
  // A thread that the system delays may come too late to wait, and then tries again.
  for (int attempt = 0; attempt == 0 || (tried > 1 && attempt < 5); ++attempt) {
    begun = tried = 0;
    by_threads(kThreads, [&](std::size_t i) {
      ++begun;
      outcomes[i] = late.compile();
    });
  }
  EXPECT_EQ(tried, 1U);
  for (const Result<void>& outcome : outcomes) EXPECT_TRUE(is_refused(outcome, ErrorCode::kOutOfMemory, {}));
  state().vk.vkCreateComputePipelines = compile;
  EXPECT_FALSE(late.is_compiled());
  EXPECT_TRUE(late.compile().ok());
  EXPECT_TRUE(late.is_compiled());
}

/// A log may pass its line to a thread that compiles the same plan, and wait for that thread.
TEST_F(SharedPipelinesTest, ALogMayWaitForAnotherThread) {
  static const AttentionPlan* logged = nullptr;
  static int lines = 0;
  lines = 0;
  state().log.least = LogLevel::kInfo;
  state().log.write = [](void*, LogLevel, const char*) {
    if (logged == nullptr) return;
    ++lines;
    EXPECT_TRUE(logged->is_compiled());
    std::thread([] { EXPECT_TRUE(logged->compile().ok()); }).join();
  };
  const AttentionPlan late = plan("h2 30x41 d16", {.deferred_compilation = true});
  logged = &late;
  EXPECT_TRUE(late.compile().ok());
  logged = nullptr;
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace vkattn::tests

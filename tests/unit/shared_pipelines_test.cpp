// Which pipelines count as equal, and threads that ask for them at once. The device's pipelines are numbers.
#include "vulkan/shared_pipelines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "support/must.hpp"

namespace vkattn::detail {
namespace {

using namespace std::chrono_literals;

/// Waits until a condition is true. Returns false after a time that no test takes.
template <class Condition>
bool comes_true(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

class SharedPipelinesOfNumbers : public testing::Test {
 protected:
  using Got = Result<SharedPipeline>;

  SharedPipelinesOfNumbers() {
    calls = 0;
    living = 0;
    compile = [](std::uint32_t) { return VK_SUCCESS; };
    DeviceFunctions& vk = device_->vk;
    vk.vkCreateShaderModule = [](VkDevice, const auto*, const auto*, VkShaderModule*) { return VK_SUCCESS; };
    vk.vkDestroyShaderModule = [](auto...) {};
    vk.vkCreateDescriptorSetLayout = [](VkDevice, const auto*, const auto*, VkDescriptorSetLayout* layout) {
      return *layout = std::bit_cast<VkDescriptorSetLayout>(std::uint64_t{1}), VK_SUCCESS;
    };
    vk.vkDestroyDescriptorSetLayout = [](auto...) {};
    vk.vkCreatePipelineLayout = [](VkDevice, const auto*, const auto*, VkPipelineLayout* layout) {
      return *layout = std::bit_cast<VkPipelineLayout>(std::uint64_t{1}), VK_SUCCESS;
    };
    vk.vkDestroyPipelineLayout = [](auto...) {};
    vk.vkCreateComputePipelines = [](VkDevice, VkPipelineCache, std::uint32_t, const auto*, const auto*,
                                     VkPipeline* pipeline) {
      const std::uint32_t call = ++calls;
      const VkResult result = compile(call);
      if (result != VK_SUCCESS) return result;
      *pipeline = std::bit_cast<VkPipeline>(std::uint64_t{call});
      ++living;
      return result;
    };
    vk.vkDestroyPipeline = [](VkDevice, VkPipeline pipeline, const auto*) {
      if (pipeline != VK_NULL_HANDLE) --living;
    };
    desc_.name = "numbers";
    desc_.words = words_;
    desc_.specialization = specialization_;
    desc_.layout = layout({3, 16, false});
  }
  ~SharedPipelinesOfNumbers() override {
    pipelines_.keep(0);
    compile = nullptr;
  }

  [[nodiscard]] std::shared_ptr<const PipelineLayout> layout(const PipelineLayoutDesc& desc) const {
    auto made = PipelineLayout::create(device_, desc);
    EXPECT_TRUE(made.ok());
    return std::make_shared<const PipelineLayout>(*std::move(made));
  }
  [[nodiscard]] Got get() { return pipelines_.get(device_, desc_); }
  /// The results of threads that ask for `desc_` while the first of them compiles.
  [[nodiscard]] std::vector<Got> threads_get(std::uint32_t count, const std::function<VkResult()>& outcome) {
    std::atomic<std::uint32_t> begun = 0;
    compile = [&](std::uint32_t) {
      // If threads did not wait, all would be in here at once.
      EXPECT_TRUE(comes_true([&] { return begun == count; }));
      std::this_thread::sleep_for(100ms);
      return outcome();
    };
    std::vector<Got> all(count, Error{});
    std::vector<std::thread> threads;
    for (Got& got : all) {
      threads.emplace_back([&] {
        ++begun;
        got = without_exceptions([&] { return get(); });
      });
    }
    for (std::thread& thread : threads) thread.join();
    compile = [](std::uint32_t) { return VK_SUCCESS; };
    return all;
  }

  /// The same, of an attempt in which one thread compiled. A thread that the system delays may come too late
  /// to wait, and then asks for another compilation.
  [[nodiscard]] std::vector<Got> threads_get_one(std::uint32_t count,
                                                 const std::function<VkResult()>& outcome) {
    std::vector<Got> all;
    for (int attempt = 0; attempt == 0 || (calls > 1 && attempt < 5); ++attempt) {
      all.clear();
      calls = 0;
      all = threads_get(count, outcome);
    }
    EXPECT_EQ(calls, 1U);
    return all;
  }

  static inline std::atomic<std::uint32_t> calls = 0;  ///< calls of vkCreateComputePipelines
  static inline std::atomic<int> living = 0;
  static inline std::function<VkResult(std::uint32_t call)> compile;

  std::shared_ptr<DeviceState> device_ = std::make_shared<DeviceState>();
  std::vector<std::uint32_t> words_{1, 2, 3, 4, 5};
  std::vector<SpecializationValue> specialization_{{0, 7}, {4, 8}};
  PipelineDesc desc_;
  SharedPipelines pipelines_;
};

VkPipelineCache cache_of(std::uint64_t number) {
  return std::bit_cast<VkPipelineCache>(number);
}

TEST_F(SharedPipelinesOfNumbers, AreTheSameWhereNothingDiffers) {
  const SharedPipeline first = tests::must(get());
  // Equal contents in other memory.
  const std::vector<std::uint32_t> words = words_;
  const std::vector<SpecializationValue> values = specialization_;
  desc_.words = words;
  desc_.specialization = values;
  desc_.layout = layout(desc_.layout->desc());
  desc_.name = "what captures call it";
  const SharedPipeline second = tests::must(get());
  EXPECT_EQ(first.pipeline, second.pipeline);
  EXPECT_TRUE(first.is_new);
  EXPECT_FALSE(second.is_new);
  EXPECT_EQ(calls, 1U);
}

TEST_F(SharedPipelinesOfNumbers, AreOthersWhereAnythingDiffers) {
  const SharedPipeline plain = tests::must(get());
  const std::vector<std::uint32_t> first_word{9, 2, 3, 4, 5}, second_word{1, 9, 3, 4, 5},
      last_word{1, 2, 3, 4, 9}, swapped{3, 4, 1, 2, 5}, shorter{1, 2, 3, 4}, longer{1, 2, 3, 4, 5, 0};
  const std::vector<SpecializationValue> other_id{{1, 7}, {4, 8}}, other_value{{0, 7}, {4, 9}}, fewer{{0, 7}};
  const auto more_buffers = layout({4, 16, false}), more_constants = layout({3, 20, false});
  const auto pushed = layout({3, 16, true});
  const std::pair<const char*, std::function<void(PipelineDesc&)>> changes[] = {
      {"the first word", [&](PipelineDesc& desc) { desc.words = first_word; }},
      {"the second word", [&](PipelineDesc& desc) { desc.words = second_word; }},
      {"the last word", [&](PipelineDesc& desc) { desc.words = last_word; }},
      {"the order of words", [&](PipelineDesc& desc) { desc.words = swapped; }},
      {"a word less", [&](PipelineDesc& desc) { desc.words = shorter; }},
      {"a word of 0 more", [&](PipelineDesc& desc) { desc.words = longer; }},
      {"a constant's id", [&](PipelineDesc& desc) { desc.specialization = other_id; }},
      {"a constant's value", [&](PipelineDesc& desc) { desc.specialization = other_value; }},
      {"a constant less", [&](PipelineDesc& desc) { desc.specialization = fewer; }},
      {"storage buffers", [&](PipelineDesc& desc) { desc.layout = more_buffers; }},
      {"push constants", [&](PipelineDesc& desc) { desc.layout = more_constants; }},
      {"push descriptors", [&](PipelineDesc& desc) { desc.layout = pushed; }},
      {"a required subgroup size", [&](PipelineDesc& desc) { desc.required_subgroup_size = 32; }},
      {"another required subgroup size", [&](PipelineDesc& desc) { desc.required_subgroup_size = 16; }},
      {"statistics", [&](PipelineDesc& desc) { desc.capture_statistics = true; }},
      {"a cache", [&](PipelineDesc& desc) { desc.cache = cache_of(1); }},
      {"another cache", [&](PipelineDesc& desc) { desc.cache = cache_of(2); }},
  };
  std::vector<SharedPipeline> others;
  for (const auto& [what, change] : changes) {
    PipelineDesc desc = desc_;
    change(desc);
    others.push_back(tests::must(pipelines_.get(device_, desc)));
    EXPECT_EQ(calls, others.size() + 1) << what;
    EXPECT_EQ(pipelines_.get(device_, desc)->pipeline, others.back().pipeline) << what << ", twice";
  }
}

TEST_F(SharedPipelinesOfNumbers, ThreadsThatAskAtOnceCompileOnce) {
  const std::vector<Got> all = threads_get(8, [] { return VK_SUCCESS; });
  EXPECT_EQ(calls, 1U);
  for (const Got& got : all) {
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(got->pipeline, all[0]->pipeline);
  }
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Got& got) { return got->is_new; }), 1);
  EXPECT_EQ(get()->pipeline, all[0]->pipeline);
  EXPECT_EQ(calls, 1U);
}

TEST_F(SharedPipelinesOfNumbers, ThreadsThatAskAtOnceFailOnce) {
  const auto fails = [this](const std::function<VkResult()>& outcome) {
    for (const Got& got : threads_get_one(8, outcome)) {
      EXPECT_TRUE(tests::is_refused(got, ErrorCode::kOutOfMemory, {}));
    }
  };
  fails([] { return VK_ERROR_OUT_OF_DEVICE_MEMORY; });
  fails([]() -> VkResult { throw std::bad_alloc(); });
  EXPECT_EQ(living, 0);
  EXPECT_TRUE(get().ok()) << "a later call tries again";
  EXPECT_EQ(calls, 2U);
}

TEST_F(SharedPipelinesOfNumbers, ThreadsCompileOthersMeanwhile) {
  std::atomic<bool> is_made = false;
  std::thread other;
  compile = [&](std::uint32_t call) {
    if (call > 1) return VK_SUCCESS;
    other = std::thread([&] {
      PipelineDesc desc = desc_;
      desc.required_subgroup_size = 32;
      is_made = pipelines_.get(device_, desc).ok();
    });
    EXPECT_TRUE(comes_true([&] { return is_made.load(); }));
    return VK_SUCCESS;
  };
  EXPECT_TRUE(get().ok());
  other.join();
  EXPECT_EQ(calls, 2U);
}

/// Threads that wait get the pipeline that they asked for. Later calls must not get it.
TEST_F(SharedPipelinesOfNumbers, ThreadsAreGivenWhatIsForgottenMeanwhile) {
  desc_.cache = cache_of(1);
  SharedPipelines others;
  const std::function<void()> changes[] = {[&] { pipelines_.forget(cache_of(1)); },
                                           [&] { pipelines_.swap(others); }};
  for (const auto& change : changes) {
    const std::vector<Got> all = threads_get_one(4, [&] { return change(), VK_SUCCESS; });
    for (const Got& got : all) {
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_EQ(got->pipeline, all[0]->pipeline);
    }
    EXPECT_NE(get()->pipeline, all[0]->pipeline);
    EXPECT_NE(others.get(device_, desc_)->pipeline, all[0]->pipeline);
  }
  EXPECT_EQ(living, 0);
}

TEST_F(SharedPipelinesOfNumbers, AreKeptByWhomTheyWereSwappedTo) {
  SharedPipelines keeping;
  keeping.keep(1);
  pipelines_.swap(keeping);
  EXPECT_TRUE(get().ok());
  EXPECT_EQ(living, 1) << "how many are kept is exchanged too";
  pipelines_.swap(keeping);
  EXPECT_TRUE(get().ok());
  EXPECT_EQ(calls, 2U) << "what is known is exchanged";
  EXPECT_EQ(living, 1);
  keeping.keep(0);
  EXPECT_EQ(living, 0);
}

TEST_F(SharedPipelinesOfNumbers, LiveWhileSomebodyHasThem) {
  Got first = get();
  EXPECT_EQ(living, 1);
  first = Error{};
  EXPECT_EQ(living, 0);
  EXPECT_TRUE(get().ok());
  EXPECT_EQ(calls, 2U);
}

}  // namespace
}  // namespace vkattn::detail

// The C interface with many threads: they make plans, ask them and give them back while another thread
// records a plan.
#include <atomic>
#include <chrono>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>

#include "gpu/c_interface.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

/// The work that one thread repeats. Each thread has its own error object.
class Planner {
 public:
  Planner(vkattn_device* device, vkattn_plan* shared, const vkattn_execution& execution)
      : device_(device), shared_(shared), execution_(execution) {}

  [[nodiscard]] std::string run() {
    for (int round = 0; round < 20; ++round) {
      const bool is_done = use_shared() && (round >= 3 || make_each_kind());
      if (!is_done) return std::string("a call failed: ") + error_.message;
    }
    return "";
  }

 private:
  [[nodiscard]] bool make_each_kind() {
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.kernel = "lane";
    vkattn_attention_desc attention = initial(vkattn_attention_desc_init);
    attention.query_length = attention.kv_length = 3;
    attention.head_dim = 4;
    attention.has_lse = 1;
    if (!is_done(vkattn_plan_create_attention(device_, &attention, &options, &plan_, &error_))) return false;
    vkattn_backward_desc backward = initial(vkattn_backward_desc_init);
    backward.attention = &attention;
    if (!is_done(vkattn_plan_create_backward(device_, &backward, &options, &plan_, &error_))) return false;
    vkattn_matmul_desc product = initial(vkattn_matmul_desc_init);
    product.rows = product.columns = product.inner = 5;
    options.deferred_compilation = 1;
    if (!is_done(vkattn_plan_create_matmul(device_, &product, &options, &plan_, &error_))) return false;
    attention.has_lse = 0;
    vkattn_multi_head_attention_desc layer = initial(vkattn_multi_head_attention_desc_init);
    layer.attention = &attention;
    layer.d_model = 8;
    return is_done(vkattn_plan_create_multi_head_attention(device_, &layer, &options, &plan_, &error_));
  }
  /// Asks a plan for its properties and gives it back.
  [[nodiscard]] bool is_done(vkattn_result result) {
    if (result != VKATTN_SUCCESS) return false;
    vkattn_requirements needs = initial(vkattn_requirements_init);
    return vkattn_plan_compile(plan_, &error_) == VKATTN_SUCCESS &&
           vkattn_plan_describe(plan_, nullptr, 0) > 1 &&
           vkattn_plan_get_requirements(plan_, &needs, &error_) == VKATTN_SUCCESS &&
           vkattn_plan_release(plan_) == VKATTN_SUCCESS;
  }
  /// Uses the plan that another thread records at the same time.
  [[nodiscard]] bool use_shared() {
    if (vkattn_plan_retain(shared_) != VKATTN_SUCCESS) return false;
    vkattn_bindings* bindings = nullptr;
    const bool is_bound =
        vkattn_plan_tensor_range(shared_, VKATTN_TENSOR_QUERY, 0) != 0 &&
        vkattn_bindings_create(shared_, &execution_, VK_NULL_HANDLE, &bindings, &error_) == VKATTN_SUCCESS &&
        vkattn_bindings_rewrite(bindings, &execution_, &error_) == VKATTN_SUCCESS;
    return vkattn_bindings_destroy(bindings) == VKATTN_SUCCESS && is_bound &&
           vkattn_plan_release(shared_) == VKATTN_SUCCESS;
  }

  vkattn_device* device_;
  vkattn_plan* shared_;
  vkattn_plan* plan_ = nullptr;  ///< the thread's own plan
  vkattn_execution execution_;
  vkattn_error error_ = initial(vkattn_error_init);
};

TEST_F(CInterfaceTest, ThreadsMakePlansMeanwhileOneIsRecorded) {
  const Problem problem = parsed("h2 9x40 d16 softcap=3");
  const vkattn_attention_desc desc = desc_of(problem.desc);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kernel = "lane";
  vkattn_plan* shared = nullptr;
  ASSERT_TRUE(done(vkattn_plan_create_attention(device_, &desc, &options, &shared, &error_)));
  const harness::ProblemRun run = ready_run(problem);
  const Execution execution = execution_of(shared, bindings_of(run.tensors()));
  constexpr std::size_t kThreads = 4;
  std::vector<std::string> failures(kThreads, "not run");
  std::atomic<std::size_t> running = kThreads;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      failures[i] = Planner(device_, shared, execution.its).run();
      --running;
    });
  }
  do {
    execute(shared, execution.its);
  } while (running != 0 && !HasFatalFailure());
  for (std::thread& thread : threads) thread.join();
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
  expect_right(run);
  EXPECT_EQ(vkattn_plan_release(shared), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_retain(shared), VKATTN_ERROR_INVALID_ARGUMENT) << "every reference was given back";
}

/// What happens to the job for which `submit` throws.
enum class LastJob { kDropped, kDone, kBegun };

/// Takes two jobs, which its threads begin after it has thrown for the third.
struct ThrowingWorkers {
  LastJob last = LastJob::kDropped;
  std::uint32_t taken = 0;
  std::vector<std::thread> threads;
  inline static std::atomic<bool> has_thrown, is_compiling, holds;
  inline static PFN_vkCreateComputePipelines compile = nullptr;

  static void submit(void* user, vkattn_job job, void* data) {
    auto& workers = *static_cast<ThrowingWorkers*>(user);
    if (workers.taken++ < 2) {
      workers.threads.emplace_back([job, data] {
        while (!has_thrown) std::this_thread::yield();
        // This delay shows if prewarm does not wait.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        job(data);
      });
      return;
    }
    if (workers.last == LastJob::kDone) job(data);
    if (workers.last == LastJob::kBegun) {
      workers.threads.emplace_back([job, data] {
        job(data);
        is_compiling = true;  // or it has failed before
      });
      while (!is_compiling) std::this_thread::yield();
    }
    has_thrown = true;
    throw std::runtime_error("no worker is left");
  }
  /// Holds up compilation on the test's own device. A compilation that has begun continues after `submit` has
  /// thrown.
  static void hold_compilation(const Device& device) {
    auto& vk = own_state(device).vk;
    compile = vk.vkCreateComputePipelines;
    vk.vkCreateComputePipelines = [](auto... arguments) {
      is_compiling = true;
      while (holds && !has_thrown) std::this_thread::yield();
      if (holds) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return compile(arguments...);
    };
  }
};

TEST_F(CInterfaceTest, ThreadsEndWhatTheyHaveWhereSubmitThrows) {
  ThrowingWorkers::hold_compilation(device_->device);
  vkattn_plan_options options = initial(vkattn_plan_options_init);
  options.kernel = "lane";
  options.deferred_compilation = 1;
  for (const LastJob last : {LastJob::kDropped, LastJob::kDone, LastJob::kBegun}) {
    ThrowingWorkers::has_thrown = ThrowingWorkers::is_compiling = false;
    ThrowingWorkers::holds = last == LastJob::kBegun;
    std::vector<OwnedPlan> owned;
    std::vector<vkattn_plan*> plans;
    for (const char* text : {"9x20 d16", "9x20 d24", "9x20 d32", "9x20 d40"}) {
      plans.push_back(owned.emplace_back(plan_of_problem(text, &options)));
    }
    ThrowingWorkers workers{last, 0, {}};
    EXPECT_EQ(vkattn_prewarm(plans.data(), 4, &ThrowingWorkers::submit, &workers, &error_), VKATTN_ERROR_IO);
    EXPECT_STREQ(error_.message, "the host failed: no worker is left");
    const std::vector<std::uint32_t> expected{1, 1, last == LastJob::kDropped ? 0U : 1U, 0};
    for (std::size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(vkattn_plan_is_compiled(plans[i]), expected[i])
          << "plan " << i << ", last job " << static_cast<int>(last);
    }
    for (std::thread& thread : workers.threads) thread.join();
  }
}

}  // namespace
}  // namespace vkattn::tests

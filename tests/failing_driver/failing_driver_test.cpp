// Each Vulkan function that the library calls fails with each documented error, at each of its calls, in
// scenarios of everything that core, runtime and C interface do. Also each allocation of host memory fails.
// Every time the library must return the error's code and VkResult, or take another way that the scenario
// allows. No object may be left, none may be destroyed twice or in use, and no number of objects may grow
// with further failures. The same call must work afterwards. If the device is lost, every later call must say
// so at once without calling the driver. The Vulkan below computes nothing, so a run takes milliseconds.
// real_driver_test.cpp has a real driver and fewer faults, and checks results.
#include <gtest/gtest.h>

#include <string>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"
#include "failing_driver/scenario.hpp"
#include "support/main.hpp"

namespace vkattn::detail {

// Replaces the runtime's own function, which finds the system's loader. The linker takes that one out of its
// archive only if no other exists.
PFN_vkGetInstanceProcAddr find_loader() {
  return tests::layer_get_instance_proc_addr;
}

}  // namespace vkattn::detail

namespace vkattn::tests {
namespace {

/// One fault of a scenario in kStride runs. With sanitizers a run takes ten times as long, so they see a few
/// faults of each error path. Other builds run all.
#ifdef VKATTN_SANITIZED
constexpr std::uint64_t kStride = 10;
#else
constexpr std::uint64_t kStride = 1;
#endif

/// All scenarios but the first uses of kernels, which are a suite of their own.
std::vector<ScenarioRow> other_scenarios() {
  std::vector<ScenarioRow> all = core_scenarios();
  for (auto more : {runtime_scenarios(), files_scenarios(), score_scenarios(), c_interface_scenarios()}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

class FailingDriver : public testing::TestWithParam<ScenarioRow> {
 protected:
  static void TearDownTestSuite() {
    closing_line() = std::to_string(tried_) + " of (function, call, error) and " +
                     std::to_string(allocations_) + " failing allocations tried";
  }
  void SetUp() override {
    use_host_device(false);
    the_layer().use(host_get_instance_proc_addr);
  }

  static void expect_nothing_left() {
    for (const auto& [type, count] : the_layer().live()) ADD_FAILURE() << count << " " << type << " are left";
    for (const std::string& misuse : the_layer().misuses()) ADD_FAILURE() << misuse;
  }

  /// The number of calls of each function in a run without a fault.
  static std::map<std::string, std::uint32_t> calls_of(const ScenarioRow& row) {
    const auto scenario = row.make();
    the_layer().arm();
    const Result<void> done = scenario->run();
    EXPECT_TRUE(done.ok()) << done.error().message;
    return the_layer().calls();
  }

  static void expect_status(const Result<void>& status, const Fault& fault) {
    if (status.ok()) {
      // When a runtime ends, it cannot return an error.
      const bool must_be_told = fault.error == VK_ERROR_DEVICE_LOST && fault.function != "vkDeviceWaitIdle";
      EXPECT_TRUE(GetParam().got_over.count(fault.function) == 1 && !must_be_told) << "no error came of it";
      return;
    }
    const Error& error = status.error();
    EXPECT_EQ(static_cast<int>(error.code), static_cast<int>(expected_code(fault))) << error.message;
    EXPECT_EQ(error.vk_result, fault.error) << error.message;
    EXPECT_FALSE(error.message.empty());
  }

  /// Runs again after a fault, with no fault armed.
  static void expect_works(const Scenario& scenario) {
    the_layer().arm();
    const Result<void> again = scenario.run();
    EXPECT_TRUE(again.ok()) << "afterwards: " << again.error().message;
  }

  static void expect_lost(const Scenario& scenario) {
    the_layer().arm();
    for (const Step& step : scenario.steps()) {
      const Result<void> status = step.run();
      if (status.ok()) {
        ADD_FAILURE() << step.name << " works on a lost device";
        continue;
      }
      EXPECT_EQ(static_cast<int>(status.error().code), static_cast<int>(ErrorCode::kDeviceLost)) << step.name;
      EXPECT_EQ(status.error().vk_result, VK_ERROR_DEVICE_LOST) << step.name;
    }
    EXPECT_TRUE(the_layer().calls().empty()) << the_layer().calls().begin()->first << " of a lost device";
  }

  /// Objects that are made once for good exist after a few failures. Further failures must not add objects.
  /// Sanitizers see a leak at once.
  static void expect_no_growth([[maybe_unused]] const Scenario& scenario,
                               [[maybe_unused]] const Fault& fault) {
#ifndef VKATTN_SANITIZED
    std::map<std::string, std::size_t> before;
    for (int i = 0; i < 3 && !the_layer().is_lost(); ++i) {
      before = the_layer().live();
      the_layer().arm(fault);
      (void)scenario.run();
      if (!the_layer().is_lost()) expect_works(scenario);
    }
    if (!the_layer().is_lost()) {
      EXPECT_EQ(the_layer().live(), before);
    }
#endif
  }

  static void try_fault(const Fault& fault) {
    SCOPED_TRACE(fault.function + ", call " + std::to_string(fault.call) + ": VkResult " +
                 std::to_string(fault.error));
    the_layer().use(host_get_instance_proc_addr);
    auto scenario = GetParam().make();
    the_layer().arm(fault);
    expect_status(scenario->run(), fault);
    EXPECT_TRUE(the_layer().has_fired());
    if (the_layer().is_lost()) {
      expect_lost(*scenario);
    } else {
      expect_works(*scenario);
      expect_no_growth(*scenario, fault);
    }
    scenario.reset();
    expect_nothing_left();
    ++tried_;
  }

  inline static std::size_t tried_ = 0;
  inline static std::uint64_t allocations_ = 0;
};

TEST_P(FailingDriver, EveryError) {
  const auto calls = calls_of(GetParam());
  expect_nothing_left();
  for (const std::string& function : functions_with_results()) {
    std::uint64_t place = 0;  // the first fault of each function runs in any case
    const auto found = calls.find(function);
    const std::uint32_t count = found != calls.end() ? found->second : 0;
    for (const VkResult error : documented_errors(function)) {
      for (std::uint32_t call = 1; call <= count && !HasFailure(); ++call) {
        if (place++ % kStride == 0) try_fault({function, call, error});
      }
    }
  }
}

TEST_P(FailingDriver, EveryAllocation) {
  (void)calls_of(GetParam());  // makes everything that a program makes only once
  const std::uint64_t stride = kStride * GetParam().stride;
  std::uint64_t n = 1;
  for (bool is_reached = true; is_reached && !HasFailure(); n += stride) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    the_layer().use(host_get_instance_proc_addr);
    const std::int64_t before = live_allocations();
    auto scenario = GetParam().make();
    the_layer().arm();
    fail_allocation(n);
    {
      const Result<void> status = scenario->run();
      is_reached = allocation_failed();
      fail_allocation(0);
      if (!status.ok()) {
        EXPECT_EQ(static_cast<int>(status.error().code), static_cast<int>(ErrorCode::kOutOfMemory))
            << status.error().message;
        EXPECT_EQ(status.error().vk_result, VK_ERROR_OUT_OF_HOST_MEMORY);
      }
    }
    expect_works(*scenario);
    scenario.reset();
    expect_nothing_left();
    EXPECT_EQ(live_allocations(), before) << "memory of the host is left";
  }
  allocations_ += (n - 1) / stride - 1;  // the last one was not reached
}

const auto kNameOfRow = [](const auto& one) { return one.param.name; };
INSTANTIATE_TEST_SUITE_P(, FailingDriver, testing::ValuesIn(other_scenarios()), kNameOfRow);
INSTANTIATE_TEST_SUITE_P(FirstUse, FailingDriver, testing::ValuesIn(first_use_scenarios()), kNameOfRow);

}  // namespace
}  // namespace vkattn::tests

// Scenarios of kernels that a runtime meets for the first time: self-tests, times, the files of both, and the
// plans that follow. Nothing is computed here, so every self-test fails. If the library was built with
// kernels on matrix units, they come first, and another kernel replaces one that failed.
#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "failing_driver/host_memory.hpp"
#include "failing_driver/layer.hpp"
#include "failing_driver/scenario.hpp"
#include "runtime/first_use.hpp"
#include "runtime/runtime_state.hpp"
#include "support/temp_folder.hpp"
#include "support/text.hpp"

namespace vkattn::tests {

namespace {

using detail::SelfTests, detail::TestOutcome;

/// Whether neither the driver nor the host memory has failed so far.
bool is_undisturbed() {
  return !the_layer().has_fired() && !allocation_failed();
}

[[noreturn]] void complain(std::string sentence) {
  throw Failed{{ErrorCode::kIo, 0, std::move(sentence)}};
}

/// A runtime on matrix units, and a file of outcomes that is removed before each step.
class FirstUse : public Scenario {
 protected:
  explicit FirstUse(bool self_tests = true) {
    use_host_device(false);
    RuntimeOptions options = small_runtime(folder_.path());
    options.disabled_extensions = "VK_NV_cooperative_matrix2";
    options.self_tests = self_tests;
    runtime_ = std::make_unique<Runtime>(Runtime::create(options).value());
  }

  /// The outcomes of a program that starts. If `passed` is a name, that test has passed before.
  [[nodiscard]] SelfTests outcomes(std::string_view passed = {}) const {
    const UncountedMemory ours;
    std::filesystem::remove(path_);
    SelfTests fresh;
    fresh.open(path_);
    if (!passed.empty())
      (void)fresh.run(std::string(passed), [] { return Result<TestOutcome>(TestOutcome()); });
    return fresh;
  }
  void forget_outcomes(std::string_view passed) const {
    detail::RuntimeState::of(*runtime_).self_tests = outcomes(passed);
  }
  /// After a step no test may count as begun, however the step ended. The next program would take it for
  /// failed.
  void expect_whole_file() const {
    const UncountedMemory ours;
    if (has(read_file(path_), "begun ")) complain("a test that is over counts as begun");
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".tmp") complain("a temporary file is left");
    }
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "outcomes.txt";
  std::unique_ptr<Runtime> runtime_;
};

/// Runs self-tests and times of a kernel that every build has.
template <class Desc>
class TestingTile : public FirstUse {
  using Plan = typename Desc::Plan;

 public:
  explicit TestingTile(const Desc& desc) {
    typename Plan::Options options;
    options.kernel = "tile";
    plan_ = std::make_unique<Plan>(runtime_->make_plan(desc, options).value());
    step("self-test", [this] {
      auto outcome = run([this](auto& done) { return detail::run_self_test(*runtime_, *plan_, done); });
      if (must(std::move(outcome)).failure.empty()) complain("passed, and nothing was computed");
    });
    if constexpr (std::is_same_v<Plan, AttentionPlan>) {
      step("time", [this] {
        auto outcome = run([this](auto& done) { return detail::time_kernel(*runtime_, *plan_, done); });
        if (must(std::move(outcome)).nanoseconds == 0) complain("no time was taken");
      });
    }
  }

 private:
  template <class Body>
  [[nodiscard]] Result<TestOutcome> run(const Body& body) const {
    must(detail::check_not_lost(detail::RuntimeState::of(*runtime_)));
    SelfTests tests = outcomes();
    std::vector<SelfTest> done;
    auto outcome =
        detail::without_exceptions([&] { return tests.run("a test", [&] { return body(done); }); });
    expect_whole_file();
    const UncountedMemory ours;
    if (outcome.ok() && tests.find("a test") != *outcome) complain("the outcome is not kept");
    return outcome;
  }

  std::unique_ptr<Plan> plan_;
};

/// A plan of 16-bit numbers that the runtime makes.
template <class Desc>
class Testing : public FirstUse {
  using Plan = typename Desc::Plan;
  using Options = typename Plan::Options;

 public:
  explicit Testing(const Desc& desc) : desc_(desc) {
    step("make what fails its self-test", [this] {
      const Plan plan = make_with(false);
      if (plan.uses_matrix_units()) complain("a kernel is used that has not passed its test");
      expect_told(plan, "failed its self-test on this device (");
    });
    step("make what has passed it", [this] {
      const Plan plan = make_with(true);
      if (std::is_same_v<Plan, AttentionPlan>) expect_told(plan, "timed on this device: ");
      if (is_undisturbed() && plan.kernel_name() != first_.kernel_name()) complain("another kernel is used");
    });
  }

 private:
  [[nodiscard]] Plan make_with(bool has_passed) const {
    forget_outcomes(has_passed ? configuration_ : std::string_view());
    auto plan = runtime_->make_plan(desc_);
    expect_whole_file();
    return must(std::move(plan));
  }
  void expect_told(const Plan& plan, const char* words) const {
    const UncountedMemory ours;
    const bool is_expected = first_.uses_matrix_units() && is_undisturbed();
    if (is_expected && !has(plan.describe(), words)) complain(plan.describe());
  }

  Desc desc_;
  /// The device's first choice, which is not compiled.
  Plan first_ = Plan::create(runtime_->device(), desc_, deferred()).value();
  std::string configuration_ = first_.configuration();
  static Options deferred() {
    Options options;
    options.deferred_compilation = true;
    return options;
  }
};

/// Layers of 16-bit numbers. Their steps are not tested.
class PlanningLayers : public FirstUse {
 public:
  PlanningLayers() : FirstUse(false) {
    desc_.forward.type = DataType::kFloat16;
    step("a layer", [this] { return runtime_->make_plan(desc_.forward); });
    step("its gradients", [this] { return runtime_->make_plan(desc_); });
  }

 private:
  MultiHeadAttentionBackwardDesc desc_ = small_layer_gradients();
};

/// Has enough rows for a kernel on matrix units.
AttentionDesc many_rows() {
  AttentionDesc desc = small_attention();
  desc.query_length = 64;
  desc.set_type(DataType::kFloat16);
  return desc;
}

/// Adds both scenarios of a kind of plan.
template <class Desc>
void add_rows(std::vector<ScenarioRow>& rows, const std::string& name, const Desc& floats,
              const Desc& halves) {
  rows.push_back(row<TestingTile<Desc>>(
      "FirstUseTest" + name,
      {"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets", "vkWaitForFences", "vkAllocateMemory"},
      floats));
  // If anything fails in a test, its kernel is not used, and another is.
  const std::vector<std::string> all = functions_with_results();
  rows.push_back(row<Testing<Desc>>("FirstUse" + name, {all.begin(), all.end()}, halves));
  for (ScenarioRow& added : std::span(rows).last(2)) added.stride = 7;
}

MatmulDesc float16_product() {
  MatmulDesc desc = small_product();
  desc.a.type = desc.b.type = DataType::kFloat16;
  return desc;
}

}  // namespace

std::vector<ScenarioRow> first_use_scenarios() {
  std::vector<ScenarioRow> rows;
  add_rows(rows, "Attention", small_attention(), many_rows());
  add_rows(rows, "Gradients", gradients_of(small_attention()), gradients_of(many_rows()));
  add_rows(rows, "Product", small_product(), float16_product());
  rows.push_back(
      row<PlanningLayers>("FirstUseLayers", {"vkSetDebugUtilsObjectNameEXT", "vkAllocateDescriptorSets",
                                             "vkCreateComputePipelines", "vkCreateShaderModule"}));
  return rows;
}

}  // namespace vkattn::tests

// Records each kind of plan by its class and by the function of C. Recording allocates nothing, and changes
// only that state of a command buffer that requirements() lists. Bindings of each kind take the memory that
// requirements() says.
#include <tuple>
#include <variant>
#include <vector>

#include "allocation_count.hpp"
#include "gpu/c_interface.hpp"
#include "gpu/mute_device.hpp"
#include "gpu/spy.hpp"
#include "support/c_problem.hpp"

namespace vkattn::tests {
namespace {

class CInterfaceRecordTest : public CInterfaceTest {
 protected:
  void SetUp() override {
    CInterfaceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    arena_ = runtime().create_buffer(1 << 20).value();
  }

  /// One plan of each kind, with several passes.
  [[nodiscard]] std::vector<OwnedPlan> every_kind(bool pushes) {
    std::vector<OwnedPlan> all;
    const auto add = [&]<class Desc>(const Desc& desc) {
      vkattn_plan_options options = tiles_in_parts_of_c<Desc>();
      options.push_descriptors = pushes ? 1 : 0;
      all.push_back(plan_of(InC<Desc>::kCreate, CProblem<Desc>(desc).structure, &options));
    };
    std::apply([&](const auto&... desc) { (add(desc), ...); }, small_problems());
    // Also a layer with passes for its weights, and for turned queries and keys.
    vkattn_attention_desc attention = heads();
    vkattn_plan_options options = initial(vkattn_plan_options_init);
    options.push_descriptors = pushes ? 1 : 0;
    all.push_back(plan_of(vkattn_plan_create_multi_head_attention, whole_layer_of(attention), &options));
    return all;
  }

  [[nodiscard]] Execution bound_in_arena(const vkattn_plan* plan) {
    return execution_of(plan, placed(plan, arena_));
  }

  /// Calls `use` with a function that records the plan: with the function of C, then with the class.
  template <class Use>
  void with_each_record(vkattn_plan* plan, bool pushes, const Use& use) {
    const Execution execution = bound_in_arena(plan);
    vkattn_record_options how = initial(vkattn_record_options_init);
    how.wait_for_earlier = 1;
    if (pushes) {
      use("vkattn_record_push", [&] {
        return vkattn_record_push(plan, commands(), &execution.its, &how, &error_) == VKATTN_SUCCESS;
      });
      std::visit([&](const auto& it) { with_pushing_class(it, execution.its, use); }, plan->plan);
      return;
    }
    const OwnedBindings bindings = bindings_of_plan(plan, execution.its);
    use("vkattn_record",
        [&] { return vkattn_record(plan, commands(), bindings, &how, &error_) == VKATTN_SUCCESS; });
    std::visit(
        [&](const auto& it) {
          use("record", [&] {
            it.record(commands(), bindings.get()->bindings, {.wait_for_earlier = true});
            return true;
          });
        },
        plan->plan);
  }

 private:
  template <class Plan, class Use>
  static void with_pushing_class(const Plan& plan, const vkattn_execution& execution, const Use& use) {
    const auto tensors = c::tensors_of<Plan>(execution).value();
    const BufferRange workspace{execution.workspace, execution.workspace_offset, execution.workspace_size};
    use("record with tensors",
        [&] { return plan.record(commands(), tensors, workspace, {.wait_for_earlier = true}).ok(); });
  }

  /// A command buffer for the muted device, which does not look at it. It is not null, because C refuses
  /// null.
  static VkCommandBuffer commands() {
    static int anything = 0;
    return reinterpret_cast<VkCommandBuffer>(&anything);
  }

  Buffer arena_;
};

TEST_F(CInterfaceRecordTest, NoKindOfPlanAllocates) {
  if (!bench::allocations_of_this_thread()) GTEST_SKIP() << "a sanitizer's operator new counts nothing";
  mute(device_->device);
  std::size_t recorded = 0;
  for (const bool pushes : {false, true}) {
    if (pushes && !capabilities().push_descriptors) continue;
    for (const OwnedPlan& plan : every_kind(pushes)) {
      ASSERT_NE(plan.get(), nullptr) << error_.message;
      const std::uint32_t dispatches = requirements_of(plan).dispatches;
      EXPECT_GT(dispatches, 1U);
      with_each_record(plan, pushes, [&](const char* by, const auto& record) {
        MuteCounts::dispatches = 0;
        const std::uint64_t before = *bench::allocations_of_this_thread();
        const bool done = record();
        const std::uint64_t made = *bench::allocations_of_this_thread() - before;
        EXPECT_TRUE(done) << error_.message;
        EXPECT_EQ(made, 0U) << by << " of " << text_of(vkattn_plan_describe, plan);
        EXPECT_EQ(MuteCounts::dispatches, dispatches) << by;
        ++recorded;
      });
    }
  }
  EXPECT_EQ(recorded, capabilities().push_descriptors ? 32U : 16U) << "seven kinds, layers twice";
}

TEST_F(CInterfaceRecordTest, ChangesWhatRequirementsListAndNothingElse) {
  for (const bool pushes : {false, true}) {
    if (pushes && !capabilities().push_descriptors) continue;
    for (const OwnedPlan& plan : every_kind(pushes)) {
      ASSERT_NE(plan.get(), nullptr) << error_.message;
      const vkattn_requirements needs = requirements_of(plan);
      EXPECT_EQ(needs.descriptor_set, 0U);
      Spy::watch_state(own_state(device_->device).vk);
      with_each_record(plan, pushes, [&](const char* by, const auto& record) {
        SCOPED_TRACE(by);
        Spy::reset();
        EXPECT_TRUE(record()) << error_.message;
        EXPECT_EQ(Spy::dispatches, needs.dispatches);
        EXPECT_EQ(Spy::pushed_bytes, needs.push_constant_bytes);
        EXPECT_TRUE(Spy::unexpected.empty())
            << text_of(vkattn_plan_describe, plan) << ": " << Spy::unexpected.front();
      });
    }
  }
}

// All bindings at once take the bytes that requirements() say, and not one more.
TEST_F(CInterfaceRecordTest, ParameterBytesAreWhatBindingsTake) {
  VkDeviceSize bytes = 0;
  for (const OwnedPlan& plan : every_kind(false)) bytes += requirements_of(plan).parameter_bytes;
  const detail::ParameterPiece memory = runtime().device().state().parameters->take(bytes).value();
  EXPECT_EQ(vkattn_device_release(device_), VKATTN_SUCCESS);
  device_ = borrowed_with(memory, bytes);
  ASSERT_NE(device_, nullptr);
  const std::vector<OwnedPlan> plans = every_kind(false);
  std::vector<OwnedBindings> bindings;
  for (const OwnedPlan& plan : plans) bindings.push_back(bindings_of_plan(plan, bound_in_arena(plan).its));
  const Execution once_more = bound_in_arena(plans.front());
  vkattn_bindings* none = nullptr;
  EXPECT_TRUE(refused(vkattn_bindings_create(plans.front(), &once_more.its, VK_NULL_HANDLE, &none, &error_),
                      "parameter_size", VKATTN_ERROR_OUT_OF_MEMORY));
}

}  // namespace
}  // namespace vkattn::tests

// Scenarios on a borrowed device: everything that the core does.
#include <vulkan/vulkan_core.h>

#include <vkattn/device_features.hpp>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/self_test.hpp>

#include <array>
#include <optional>
#include <utility>

#include "failing_driver/host_memory.hpp"
#include "failing_driver/on_device.hpp"

namespace vkattn::tests {

namespace {

class Borrowing : public Scenario {
 public:
  Borrowing() {
    step("wanted_features", [] { return wanted_features(physical_device()); });
    step("enable_wanted", [] {
      VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
      EnableMemory memory;
      return enable_wanted(physical_device(), info, memory);
    });
    step("borrow", [] { return borrow_device(); });
  }
};

/// If the driver refuses a kernel, the next one is used.
class Choosing : public OnDevice {
 public:
  Choosing() {
    step("create", [this] { return AttentionPlan::create(device_, small_attention()); });
  }
};

/// Makes many bindings, so that pools and the memory of parameters grow.
class Binding : public OnDevice {
 public:
  Binding() {
    step("make_bindings", [this] {
      std::array<std::optional<Bindings>, 5> all;
      for (std::optional<Bindings>& one : all) one = must(plan_.make_bindings(tensors_, made_up_buffer(100)));
      plan_.record(made_up_commands(), *all.back());
      return plan_.rewrite(*all.front(), tensors_, made_up_buffer(100));
    });
  }

 private:
  AttentionPlan plan_ =
      AttentionPlan::create(device_, small_attention(), tiles_in_parts<AttentionDesc>()).value();
  AttentionTensors tensors_ = made_up_tensors(plan_);
};

/// What programs do with a plan of any operation.
template <class Desc>
class UsingPlans : public OnDevice {
  using Plan = typename Desc::Plan;

 public:
  UsingPlans() {
    step("create and use", [this] {
      const Plan plan = create(tiles_in_parts<Desc>());
      const auto tensors = made_up_tensors(plan);
      auto bindings = must(plan.make_bindings(tensors, workspace_));
      plan.record(made_up_commands(), bindings);
      must(plan.rewrite(bindings, tensors, workspace_));
      return plan.make_bindings(tensors, workspace_, OwnPool().get());
    });
    // The remaining steps do not run for layers, which have many pipelines. The scenarios of the C interface
    // have them.
    if constexpr (requires(typename Plan::Options options) { options.matmul; }) return;
    step("compile later", [this] {
      auto options = tiles_in_parts<Desc>();
      options.deferred_compilation = true;
      const Plan plan = create(options);
      const Result<void> status = plan.compile();
      if (!status && plan.is_compiled()) throw Failed{{ErrorCode::kIo, 0, "compiled in spite of an error"}};
      must(status);
    });
    step("push", [this] {
      auto options = tiles_in_parts<Desc>();
      options.capture_statistics = options.push_descriptors = true;
      const Plan plan = create(options);
      must(plan.statistics(true));
      return plan.record(made_up_commands(), made_up_tensors(plan), workspace_);
    });
  }

 private:
  [[nodiscard]] Plan create(const typename Plan::Options& options) const {
    return must(Plan::create(device_, desc_, options));
  }

  Desc desc_ = small_problem<Desc>();
  BufferRange workspace_ = made_up_buffer(100);
};

class Caching : public OnDevice {
 public:
  Caching() {
    step("pipeline cache", [this] {
      const std::vector<std::byte> blob = must(must(PipelineCache::create(device_, {})).save());
      return PipelineCache::create(device_, blob);
    });
  }
};

class SelfTesting : public OnDevice {
 public:
  SelfTesting() {
    step("self-test", [this] {
      const SelfTest test = must(SelfTest::create(device_, plan_));
      {
        const UncountedMemory ours;
        memory_.resize(static_cast<std::size_t>(test.buffer_bytes()));
      }
      must(test.fill(memory_));
      test.record(made_up_commands(),
                  must(test.make_bindings({made_up_buffer(1).buffer, 0, test.buffer_bytes()})));
    });
  }

 private:
  std::vector<std::byte> memory_;
  AttentionPlan plan_ =
      AttentionPlan::create(device_, small_attention(), tiles_in_parts<AttentionDesc>()).value();
};

}  // namespace

std::vector<ScenarioRow> core_scenarios() {
  // The library works without names of objects. If a pool refuses, another takes its place.
  const char* const kName = "vkSetDebugUtilsObjectNameEXT";
  const char* const kSets = "vkAllocateDescriptorSets";
  std::vector<ScenarioRow> rows{
      row<Borrowing>("Borrow", {}),
      row<Choosing>("Choose", {kName, "vkCreateComputePipelines", "vkCreateShaderModule"}),
      row<Binding>("Bindings", {kName, kSets}), row<Caching>("PipelineCache", {kName}),
      row<SelfTesting>("SelfTest", {kName, kSets})};
#define VKATTN_OPERATION(NAME, PLAN, DESC, WORDS, OPTIONS) \
  rows.push_back(row<UsingPlans<DESC>>(#PLAN, {kName, kSets}));
#include "common/operations.def"
  return rows;
}

}  // namespace vkattn::tests

// On a borrowed device: everything that the core does.
#include <vkattn/cache.hpp>
#include <vkattn/device_features.hpp>
#include <vkattn/pipeline_cache.hpp>
#include <vkattn/self_test.hpp>

#include <array>
#include <optional>

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

PlanOptions in_parts() {
  return {.kernel = "tile", .kv_splits = 2};
}

class Planning : public OnDevice {
 public:
  Planning() {
    step("create", [this] { return AttentionPlan::create(device_, small_attention(), in_parts()); });
    step("compile", [this] { compile_later<AttentionPlan>(device_, small_attention(), in_parts()); });
    step("statistics", [this] {
      PlanOptions options = in_parts();
      options.capture_statistics = true;
      return must(AttentionPlan::create(device_, small_attention(), options)).statistics(true);
    });
  }
};

/// Where the driver refuses a kernel the next one is used.
class Choosing : public OnDevice {
 public:
  Choosing() {
    step("create", [this] { return AttentionPlan::create(device_, small_attention()); });
  }
};

class Binding : public OnDevice {
 public:
  Binding() {
    // Many, so that pools and memory of parameters grow.
    step("make_bindings", [this] {
      std::array<std::optional<Bindings>, 5> all;
      for (std::optional<Bindings>& one : all) one = must(plan_.make_bindings(tensors_, workspace_));
      plan_.record(made_up_commands(), *all.back());
      return plan_.rewrite(*all.front(), tensors_, workspace_);
    });
    step("make_bindings from a pool of the caller's",
         [this] { return plan_.make_bindings(tensors_, workspace_, OwnPool().get()); });
  }

 private:
  AttentionPlan plan_ = AttentionPlan::create(device_, small_attention(), in_parts()).value();
  AttentionTensors tensors_ = made_up_tensors(small_attention());
  BufferRange workspace_ = made_up_buffer(100);
};

class Pushing : public OnDevice {
 public:
  Pushing() {
    step("record", [this] { return plan_.record(made_up_commands(), tensors_, made_up_buffer(100)); });
  }

 private:
  static PlanOptions options() {
    PlanOptions options = in_parts();
    options.push_descriptors = true;
    return options;
  }
  AttentionPlan plan_ = AttentionPlan::create(device_, small_attention(), options()).value();
  AttentionTensors tensors_ = made_up_tensors(small_attention());
};

/// Binds, records and binds again.
template <class Plan, class Tensors>
Result<void> bind_and_record(const Plan& plan, const Tensors& tensors) {
  auto bindings = must(plan.make_bindings(tensors));
  plan.record(made_up_commands(), bindings);
  return plan.rewrite(bindings, tensors);
}

class Appending : public OnDevice {
 public:
  Appending() {
    step("append", [this] {
      AppendTensors tensors;
      tensors.key = made_up_buffer(1);
      tensors.value = made_up_buffer(2);
      tensors.cache_key = made_up_buffer(3);
      tensors.cache_value = made_up_buffer(4);
      return bind_and_record(must(AppendPlan::create(device_, small_append())), tensors);
    });
  }
};

class Merging : public OnDevice {
 public:
  Merging() {
    step("merge", [this] {
      const MergeTensors tensors{made_up_buffer(1), made_up_buffer(2), made_up_buffer(3), made_up_buffer(4)};
      return bind_and_record(must(MergePlan::create(device_, {.rows = 4, .value_dim = 16})), tensors);
    });
  }
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
  AttentionPlan plan_ = AttentionPlan::create(device_, small_attention(), in_parts()).value();
};

}  // namespace

std::vector<ScenarioRow> core_scenarios() {
  // Names of objects are a help; a pool that refuses has another take its place.
  const char* const kName = "vkSetDebugUtilsObjectNameEXT";
  const char* const kSets = "vkAllocateDescriptorSets";
  return {row<Borrowing>("Borrow", {}),
          row<Planning>("Plan", {kName}),
          row<Choosing>("Choose", {kName, "vkCreateComputePipelines", "vkCreateShaderModule"}),
          row<Binding>("Bindings", {kName, kSets}),
          row<Pushing>("Push", {}),
          row<Appending>("Append", {kName, kSets}),
          row<Merging>("Merge", {kName, kSets}),
          row<Caching>("PipelineCache", {kName}),
          row<SelfTesting>("SelfTest", {kName, kSets})};
}

}  // namespace vkattn::tests

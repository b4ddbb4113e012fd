// Self-tests in C.
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <span>

#include "c/handles.hpp"

using vkattn::Result;
using vkattn::SelfTest;
namespace c = vkattn::c;

namespace {

/// Whether a plan needs a self-test, or any step of a layer.
struct IsNeeded {
  template <class Plan>
  bool operator()(const Plan& plan) const {
    if constexpr (requires { plan.steps(); }) {
      return std::ranges::any_of(plan.steps(),
                                 [&](const vkattn::LayerStep& step) { return std::visit(*this, step.plan); });
    } else {
      return SelfTest::is_needed(plan);
    }
  }
};

/// The self-test of a plan that has one.
struct Create {
  const vkattn_device& device;
  VkPipelineCache cache;
  template <class Plan>
  Result<SelfTest> operator()(const Plan& plan) const {
    if constexpr (requires { plan.steps(); }) {
      return c::invalid("a layer's self-tests are those of its steps: vkattn_plan_get_steps");
    } else if constexpr (requires { SelfTest::create(device.device, plan, cache); }) {
      return SelfTest::create(device.device, plan, cache);
    } else {
      return c::invalid("only plans of attention, gradients and products have self-tests");
    }
  }
};

}  // namespace

uint32_t vkattn_plan_needs_self_test(const vkattn_plan* plan) {
  const bool is_alive = c::is_alive(plan);
  bool is_needed = is_alive;  // where memory is missing too
  (void)c::run(nullptr, [&]() -> Result<void> {
    if (is_alive) is_needed = std::visit(IsNeeded{}, plan->plan);
    return {};
  });
  return is_needed ? 1U : 0U;
}

vkattn_result vkattn_self_test_create(vkattn_device* device, const vkattn_plan* plan, VkPipelineCache cache,
                                      vkattn_self_test** test, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {plan, "plan"}, {test, "test"}}); !s) return s;
    *test = nullptr;
    auto made = std::visit(Create{*device, cache}, plan->plan);
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_self_test>(vkattn_self_test{*std::move(made), {}}), test);
    return {};
  });
}

VkDeviceSize vkattn_self_test_buffer_bytes(const vkattn_self_test* test) {
  return c::is_alive(test) ? test->test.buffer_bytes() : 0;
}

vkattn_result vkattn_self_test_fill(const vkattn_self_test* test, void* memory, size_t bytes,
                                    vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{test, "test"}, {memory, "memory"}}); !s) return s;
    return test->test.fill({static_cast<std::byte*>(memory), bytes});
  });
}

vkattn_result vkattn_self_test_record(vkattn_self_test* test, VkCommandBuffer commands, VkBuffer buffer,
                                      VkDeviceSize offset, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{test, "test"}, {commands, "commands"}}); !s) return s;
    if (test->bindings) return c::invalid("this self-test was recorded already: make another");
    auto bindings = test->test.make_bindings({buffer, offset, test->test.buffer_bytes()});
    if (!bindings) return bindings.error();
    test->bindings = *std::move(bindings);
    test->test.record(commands, *test->bindings);
    return {};
  });
}

vkattn_result vkattn_self_test_check(const vkattn_self_test* test, const void* memory, size_t bytes,
                                     char* difference, size_t capacity, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{test, "test"}, {memory, "memory"}}); !s) return s;
    const auto wrong = test->test.check({static_cast<const std::byte*>(memory), bytes});
    if (!wrong) return wrong.error();
    c::copy_text(*wrong, difference, capacity);
    return {};
  });
}

vkattn_result vkattn_self_test_destroy(vkattn_self_test* test) {
  return c::destroy(test);
}

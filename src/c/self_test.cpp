// Self-tests in C.
#include <vkattn/self_test.hpp>

#include <span>

#include "c/handles.hpp"

using vkattn::Result;
using vkattn::SelfTest;
namespace c = vkattn::c;

uint32_t vkattn_plan_needs_self_test(const vkattn_plan* plan) {
  const auto is_needed = [](const auto& it) { return SelfTest::is_needed(it); };
  return plan != nullptr && c::with_kernel_plan(*plan, false, is_needed) ? 1U : 0U;
}

vkattn_result vkattn_self_test_create(vkattn_device* device, const vkattn_plan* plan, VkPipelineCache cache,
                                      vkattn_self_test** test, vkattn_error* error) {
  return c::run(error, [&]() -> Result<void> {
    if (Result<void> s = c::check_given({{device, "device"}, {plan, "plan"}, {test, "test"}}); !s) return s;
    *test = nullptr;
    auto made = c::with_kernel_plan(
        *plan,
        Result<SelfTest>(c::invalid("only plans of attention, gradients and products have self-tests, and "
                                    "layers that of their attention")),
        [&](const auto& it) { return SelfTest::create(device->device, it, cache); });
    if (!made) return made.error();
    c::give(std::make_unique<vkattn_self_test>(vkattn_self_test{*std::move(made), {}}), test);
    return {};
  });
}

VkDeviceSize vkattn_self_test_buffer_bytes(const vkattn_self_test* test) {
  return test != nullptr ? test->test.buffer_bytes() : 0;
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

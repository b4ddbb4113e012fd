// Dead handles of the C interface are noticed without reading the memory behind the pointer.
#include <vkattn/vkattn.h>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "c/convert.hpp"
#include "c/handles.hpp"
#include "c/live_handles.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

namespace vkattn {
namespace {

using tests::has;
using tests::initial;
using tests::message_of;

const void* address(std::uintptr_t number) {
  return reinterpret_cast<const void*>(number * 16);
}

TEST(LiveHandles, AreThoseThatWereNotTakenBack) {
  c::LiveHandles handles;
  EXPECT_FALSE(handles.contains(address(1)));
  EXPECT_FALSE(handles.contains(nullptr));
  // Very many are made but few are alive at a time, as in a program that runs for long.
  std::deque<std::uintptr_t> alive;
  for (std::uintptr_t i = 1; i <= 40000; ++i) {
    handles.add(address(i));
    alive.push_back(i);
    if (alive.size() <= 300) continue;
    ASSERT_TRUE(handles.remove(address(alive.front())));
    ASSERT_FALSE(handles.contains(address(alive.front())));
    ASSERT_FALSE(handles.remove(address(alive.front()))) << "once too often";
    alive.pop_front();
  }
  for (const std::uintptr_t i : alive) EXPECT_TRUE(handles.contains(address(i))) << i;
  bool was_called = false;
  EXPECT_FALSE(handles.with(address(1), [&] { return was_called = true; }));
  EXPECT_FALSE(was_called);
  EXPECT_TRUE(handles.with(address(40000), [&] { return was_called = false; }));
  EXPECT_TRUE(handles.contains(address(40000)));
  EXPECT_LE(handles.used(), 2 * alive.size()) << "it grows with all that ever came";
  for (const std::uintptr_t i : alive) EXPECT_TRUE(handles.remove(address(i))) << i;
  EXPECT_EQ(handles.used(), 0U) << "a place is never free again";
}

TEST(LiveHandles, AreFoundWhileOthersComeAndGo) {
  c::LiveHandles handles;
  handles.add(address(7));
  std::atomic<bool> is_done = false;
  std::thread asks([&] {
    while (!is_done) ASSERT_TRUE(handles.contains(address(7)));
  });
  for (int round = 0; round < 20; ++round) {
    for (std::uintptr_t i = 100; i < 400; ++i) handles.add(address(i));
    for (std::uintptr_t i = 100; i < 400; ++i) EXPECT_TRUE(handles.remove(address(i)));
  }
  is_done = true;
  asks.join();
}

/// Handles that nobody gave out. No memory is at them, so nothing may be read there.
template <class Handle>
Handle* dead() {
  return reinterpret_cast<Handle*>(std::uintptr_t{4096});
}

class DeadHandles : public testing::Test {
 protected:
  void refused(vkattn_result result, const std::string& name) const {
    EXPECT_EQ(result, VKATTN_ERROR_INVALID_ARGUMENT) << name;
    EXPECT_TRUE(has(error_.message, name + " is no handle that is alive"));
  }

  vkattn_device* device_ = dead<vkattn_device>();
  vkattn_plan* plan_ = dead<vkattn_plan>();
  vkattn_bindings* bindings_ = dead<vkattn_bindings>();
  vkattn_sequence* sequence_ = dead<vkattn_sequence>();
  vkattn_frame_budget* budget_ = dead<vkattn_frame_budget>();
  vkattn_self_test* test_ = dead<vkattn_self_test>();
  vkattn_pipeline_cache* cache_ = dead<vkattn_pipeline_cache>();
  vkattn_capabilities* capabilities_ = dead<vkattn_capabilities>();
  vkattn_score_function* function_ = dead<vkattn_score_function>();
  VkCommandBuffer commands_ = reinterpret_cast<VkCommandBuffer>(std::uintptr_t{4096});
  vkattn_error error_ = initial(vkattn_error_init);
  std::uint32_t count_ = 0;
  std::size_t bytes_ = 0;
};

TEST_F(DeadHandles, OfDevicesAreRefused) {
  vkattn_plan* made = nullptr;
  const auto attention = initial(vkattn_attention_desc_init);
  const auto append = initial(vkattn_append_desc_init);
  const auto merge = initial(vkattn_merge_desc_init);
  const auto backward = initial(vkattn_backward_desc_init);
  const auto matmul = initial(vkattn_matmul_desc_init);
  refused(vkattn_plan_create_attention(device_, &attention, nullptr, &made, &error_), "device");
  refused(vkattn_plan_create_append(device_, &append, nullptr, &made, &error_), "device");
  refused(vkattn_plan_create_merge(device_, &merge, nullptr, &made, &error_), "device");
  refused(vkattn_plan_create_backward(device_, &backward, nullptr, &made, &error_), "device");
  refused(vkattn_plan_create_matmul(device_, &matmul, nullptr, &made, &error_), "device");
  const auto layer = initial(vkattn_multi_head_attention_desc_init);
  refused(vkattn_plan_create_multi_head_attention(device_, &layer, nullptr, &made, &error_), "device");
  const auto gradients = initial(vkattn_multi_head_attention_backward_desc_init);
  refused(vkattn_plan_create_multi_head_attention_backward(device_, &gradients, nullptr, &made, &error_),
          "device");
  refused(vkattn_query_kernels_attention(device_, &attention, nullptr, &count_, &error_), "device");
  refused(vkattn_query_kernels_backward(device_, &backward, nullptr, &count_, &error_), "device");
  refused(vkattn_query_kernels_matmul(device_, &matmul, nullptr, &count_, &error_), "device");
  refused(vkattn_query_choices(device_, &attention, nullptr, &count_, &error_), "device");
  vkattn_pipeline_cache* cache = nullptr;
  refused(vkattn_pipeline_cache_create(device_, nullptr, 0, nullptr, 0, &cache, &error_), "device");
  refused(vkattn_self_test_create(device_, plan_, VK_NULL_HANDLE, &test_, &error_), "device");
  EXPECT_EQ(vkattn_device_describe(device_, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_device_retain(device_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_device_release(device_), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_F(DeadHandles, OfPlansAreRefused) {
  const auto execution = initial(vkattn_execution_init);
  auto needs = initial(vkattn_requirements_init);
  vkattn_kernel_choice choice{};
  vkattn_data_type type = 0;
  vkattn_block_mask_layout layout{};
  refused(vkattn_bindings_create(plan_, &execution, VK_NULL_HANDLE, &bindings_, &error_), "plan");
  refused(vkattn_record(plan_, commands_, dead<vkattn_bindings>(), nullptr, &error_), "plan");
  refused(vkattn_record_push(plan_, commands_, &execution, nullptr, &error_), "plan");
  refused(vkattn_plan_compile(plan_, &error_), "plan");
  refused(vkattn_prewarm(
              &plan_, 1, [](void*, vkattn_job, void*) { ADD_FAILURE(); }, nullptr, &error_),
          "plans[0]");
  refused(vkattn_plan_get_requirements(plan_, &needs, &error_), "plan");
  refused(vkattn_plan_get_steps(plan_, nullptr, &count_, &error_), "plan");
  refused(vkattn_plan_get_choice(plan_, &choice, &error_), "plan");
  refused(vkattn_plan_get_probability_type(plan_, &type, &error_), "plan");
  refused(vkattn_plan_get_arithmetic_type(plan_, &type, &error_), "plan");
  refused(vkattn_plan_get_pipelines(plan_, nullptr, &count_, &error_), "plan");
  refused(vkattn_plan_get_dispatches(plan_, nullptr, &count_, &error_), "plan");
  auto memory = initial(vkattn_memory_init);
  refused(vkattn_plan_get_memory(plan_, &memory, &error_), "plan");
  refused(vkattn_plan_get_estimates(plan_, nullptr, &count_, &error_), "plan");
  refused(vkattn_plan_get_statistics(plan_, nullptr, &count_, &error_), "plan");
  refused(vkattn_plan_get_block_mask_layout(plan_, &layout, &error_), "plan");
  refused(vkattn_frame_budget_create(plan_, &budget_, &error_), "plan");
  EXPECT_EQ(vkattn_plan_is_compiled(plan_), 0U);
  EXPECT_EQ(vkattn_plan_needs_self_test(plan_), 0U);
  EXPECT_EQ(vkattn_plan_tensor_range(plan_, VKATTN_TENSOR_QUERY, 0), 0U);
  EXPECT_EQ(vkattn_plan_describe(plan_, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_plan_get_configuration(plan_, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_plan_retain(plan_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_release(plan_), VKATTN_ERROR_INVALID_ARGUMENT);
}

TEST_F(DeadHandles, OfAllElseAreRefused) {
  const auto execution = initial(vkattn_execution_init);
  refused(vkattn_bindings_rewrite(bindings_, &execution, &error_), "bindings");
  EXPECT_EQ(vkattn_bindings_destroy(bindings_), VKATTN_ERROR_INVALID_ARGUMENT);
  auto slice = initial(vkattn_record_options_init);
  const vkattn_sequence_item item{plan_, bindings_, 0, 0};
  vkattn_sequence* made = nullptr;
  vkattn_frame_budget* budget = nullptr;
  refused(vkattn_sequence_create(&item, 1, &made, &error_), "plan");
  refused(vkattn_sequence_record(sequence_, commands_, &slice, &error_), "sequence");
  refused(vkattn_frame_budget_create_sequence(sequence_, &budget, &error_), "sequence");
  EXPECT_EQ(vkattn_sequence_destroy(sequence_), VKATTN_ERROR_INVALID_ARGUMENT);
  refused(vkattn_frame_budget_next(budget_, 1, &slice, &error_), "budget");
  refused(vkattn_frame_budget_measured(budget_, &slice, 1, &error_), "budget");
  EXPECT_LT(vkattn_frame_budget_estimate(budget_, &slice), 0);
  EXPECT_EQ(vkattn_frame_budget_is_done(budget_), 1U);
  EXPECT_EQ(vkattn_frame_budget_restart(budget_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_frame_budget_destroy(budget_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_self_test_buffer_bytes(test_), 0U);
  refused(vkattn_self_test_fill(test_, &count_, 4, &error_), "test");
  refused(vkattn_self_test_record(test_, commands_, VK_NULL_HANDLE, 0, &error_), "test");
  refused(vkattn_self_test_check(test_, &count_, 4, nullptr, 0, &error_), "test");
  EXPECT_EQ(vkattn_self_test_destroy(test_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_pipeline_cache_handle(cache_), VkPipelineCache{});
  refused(vkattn_pipeline_cache_save(cache_, nullptr, &bytes_, &error_), "cache");
  EXPECT_EQ(vkattn_pipeline_cache_destroy(cache_), VKATTN_ERROR_INVALID_ARGUMENT);
  refused(vkattn_score_function_save(function_, nullptr, 0, nullptr, &bytes_, &error_), "function");
  auto attention = initial(vkattn_attention_desc_init);
  attention.score_function = function_;
  refused(vkattn_plan_key_attention(&attention, nullptr, &bytes_, &error_), "score_function");
  auto support = initial(vkattn_support_init);
  const auto append = initial(vkattn_append_desc_init);
  const auto merge = initial(vkattn_merge_desc_init);
  const auto backward = initial(vkattn_backward_desc_init);
  const auto matmul = initial(vkattn_matmul_desc_init);
  refused(vkattn_supports_attention(capabilities_, &attention, nullptr, &support, &error_), "capabilities");
  refused(vkattn_supports_append(capabilities_, &append, nullptr, &support, &error_), "capabilities");
  refused(vkattn_supports_merge(capabilities_, &merge, nullptr, &support, &error_), "capabilities");
  refused(vkattn_supports_backward(capabilities_, &backward, nullptr, &support, &error_), "capabilities");
  refused(vkattn_supports_matmul(capabilities_, &matmul, nullptr, &support, &error_), "capabilities");
  const auto layer = initial(vkattn_multi_head_attention_desc_init);
  refused(vkattn_supports_multi_head_attention(capabilities_, &layer, nullptr, &support, &error_),
          "capabilities");
  const auto layer_gradients = initial(vkattn_multi_head_attention_backward_desc_init);
  refused(vkattn_supports_multi_head_attention_backward(capabilities_, &layer_gradients, nullptr, &support,
                                                        &error_),
          "capabilities");
  EXPECT_EQ(vkattn_capabilities_get_name(capabilities_, nullptr, 0), 1U);
  EXPECT_EQ(vkattn_capabilities_destroy(capabilities_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_score_function_retain(function_), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_score_function_release(function_), VKATTN_ERROR_INVALID_ARGUMENT);
}

template <class Struct>
void expect_reserved_is_zero(void (*init)(Struct*), const char* name) {
  Struct given = initial(init);
  EXPECT_TRUE(c::read(&given, init, name).ok()) << name;
  given.reserved = 3;
  const auto refused = c::read(&given, init, name);
  ASSERT_FALSE(refused.ok()) << name;
  EXPECT_TRUE(has(refused.error().message, std::string(name) + "::reserved is 3 but must be 0"));
  // An earlier version of the structure ends before this member.
  if (offsetof(Struct, reserved) % alignof(void*) != 0) return;
  given.struct_size = offsetof(Struct, reserved);
  EXPECT_TRUE(c::read(&given, init, name).ok()) << name;
}

TEST(CInterface, ReservedMembersAreZero) {
  expect_reserved_is_zero(vkattn_device_desc_init, "vkattn_device_desc");
  expect_reserved_is_zero(vkattn_append_desc_init, "vkattn_append_desc");
  expect_reserved_is_zero(vkattn_merge_desc_init, "vkattn_merge_desc");
  expect_reserved_is_zero(vkattn_plan_options_init, "vkattn_plan_options");
  expect_reserved_is_zero(vkattn_record_options_init, "vkattn_record_options");
  expect_reserved_is_zero(vkattn_memory_init, "vkattn_memory");
  expect_reserved_is_zero(vkattn_score_function_desc_init, "vkattn_score_function_desc");
  auto options = initial(vkattn_record_options_init);
  options.timestamp_reserved = 3;
  EXPECT_TRUE(has(message_of(c::record_options(&options)),
                  "vkattn_record_options::timestamp_reserved is 3 but must be 0"));
}

}  // namespace
}  // namespace vkattn

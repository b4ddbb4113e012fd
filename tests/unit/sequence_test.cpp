// Sequences of plans, in C++ and C, on a Vulkan without a device: which commands each slice records.
#include <vkattn/frame_budget.hpp>
#include <vkattn/sequence.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "c/handles.hpp"
#include "c/tensors.hpp"
#include "support/host_vulkan.hpp"
#include "support/initial.hpp"
#include "support/must.hpp"
#include "support/small_problems.hpp"
#include "support/text.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn::tests {
namespace {

/// An attention with block mask, keys and merge, then a product of two parts and their sum.
class SequenceTest : public testing::Test {
 protected:
  SequenceTest() {
    detail::DeviceFunctions& vk = state().vk;
    vk.vkCmdPipelineBarrier = [](auto...) { commands_ += 'b'; };
    vk.vkCmdDispatch = [](auto...) { commands_ += 'd'; };
    vk.vkCmdWriteTimestamp = [](VkCommandBuffer, VkPipelineStageFlagBits, VkQueryPool, std::uint32_t query) {
      commands_ += std::to_string(query);
    };
  }

  [[nodiscard]] detail::DeviceState& state() const {
    return const_cast<detail::DeviceState&>(device_->device.state());
  }
  [[nodiscard]] AttentionPlan attention(const PlanOptions& options = {.kernel = "lane",
                                                                      .kv_splits = 1}) const {
    AttentionDesc desc = small_attention();
    desc.mask.type = MaskType::kBytes;
    return must(AttentionPlan::create(device_->device, desc, options));
  }
  /// Tensors in places of their own.
  template <class Plan>
  [[nodiscard]] Bindings bound(const Plan& plan, bool block_mask_complete = false) {
    typename Plan::Tensors tensors;
    for (vkattn_tensor tensor = 0; tensor < c::kTensorNumbers; ++tensor) {
      const VkDeviceSize bytes = c::range_bytes(plan, tensor, next_);
      if (bytes == 0) continue;
      *c::place(tensors, tensor) = {arena_, next_, bytes};
      next_ += kApart;
    }
    if constexpr (requires { tensors.block_mask_complete; })
      tensors.block_mask_complete = block_mask_complete;
    const VkDeviceSize workspace = next_;
    next_ += kApart;
    return must(plan.make_bindings(tensors, {arena_, workspace, plan.workspace_bytes()}));
  }
  static std::string recorded(const Sequence& sequence, const RecordOptions& slice = {}) {
    commands_.clear();
    HostVulkan::begin_commands();
    sequence.record(HostVulkan::commands(), slice);
    return commands_;
  }
  template <class Plan>
  static std::string recorded(const Plan& plan, const Bindings& bindings, const RecordOptions& slice = {}) {
    commands_.clear();
    HostVulkan::begin_commands();
    plan.record(HostVulkan::commands(), bindings, slice);
    return commands_;
  }

  static constexpr VkDeviceSize kApart = VkDeviceSize{1} << 16U;
  /// b: a barrier, d: a dispatch, a number: a timestamp in this query
  inline static std::string commands_;
  VkQueryPool queries_ = std::bit_cast<VkQueryPool>(std::uint64_t{64});  ///< never looked at

  HostVulkan vulkan_{HostSettings{}};
  std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> device_{HostVulkan::borrow(),
                                                                           &vkattn_device_release};
  VkBuffer arena_ = HostVulkan::buffer(0, VkDeviceSize{1} << 23U);
  VkDeviceSize next_ = 0;
  MatmulPlan product_ =
      must(MatmulPlan::create(device_->device, small_product(), {.kernel = "tile", .inner_splits = 2}));
};

TEST_F(SequenceTest, ABarrierComesBeforeEachItemThatIsNotIndependent) {
  const AttentionPlan plan = attention();
  const Bindings first = bound(plan), second = bound(product_), third = bound(product_);
  const std::string alone = recorded(plan, first), product = recorded(product_, second);
  ASSERT_EQ(alone, "dbd") << "the block mask, then the kernel";
  ASSERT_EQ(product, "dbd") << "the parts, then their sum";
  const SequenceItem items[] = {
      {&plan, &first, true}, {&product_, &second}, {&product_, &third, true}, {&plan, &first}};
  const Sequence sequence = must(Sequence::create(items));
  EXPECT_EQ(recorded(sequence), alone + "b" + product + product + "b" + alone);
  EXPECT_EQ(recorded(sequence, {.wait_for_earlier = true}), "b" + recorded(sequence));
  EXPECT_EQ(recorded(must(Sequence::create(std::span(items).subspan(1)))),
            "b" + product + product + "b" + alone);
}

TEST_F(SequenceTest, SlicesRecordTheSameInTheirOrder) {
  const AttentionPlan plan = attention();
  const Bindings first = bound(plan), second = bound(product_);
  const SequenceItem items[] = {{&plan, &first}, {&product_, &second}, {&plan, &first}};
  const Sequence sequence = must(Sequence::create(items));
  const std::vector<DispatchInfo> all = sequence.dispatches();
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[2].pass, product_.dispatches()[0].pass);
  EXPECT_EQ(all[5].pass, plan.dispatches()[1].pass);
  for (std::uint32_t step = 1; step <= 7; ++step) {
    std::string joined;
    for (std::uint32_t begin = 0; begin < 6; begin += step) {
      joined += recorded(sequence, {.first_dispatch = begin, .dispatch_count = step});
    }
    EXPECT_EQ(joined, recorded(sequence)) << "in slices of " << step;
  }
  for (const std::uint32_t begin : {6U, 7U, ~0U})
    EXPECT_EQ(recorded(sequence, {.first_dispatch = begin}), "");
  EXPECT_EQ(recorded(sequence, {.first_dispatch = 3, .dispatch_count = 0, .wait_for_earlier = true}), "");
  EXPECT_EQ(recorded(sequence, {.first_dispatch = 3, .dispatch_count = 1, .wait_for_earlier = true}), "bbd");
}

// Bindings with a block mask of the caller's leave out the first dispatch. The item's barrier then comes
// before the second one, whichever slice that is in.
TEST_F(SequenceTest, ABarrierComesBeforeTheFirstDispatchThatIsRecorded) {
  const AttentionPlan plan = attention();
  const Bindings first = bound(product_), second = bound(plan, true);
  ASSERT_EQ(recorded(plan, second), "d");
  const SequenceItem items[] = {{&product_, &first, true}, {&plan, &second}, {&plan, &second, true}};
  const Sequence sequence = must(Sequence::create(items));
  EXPECT_EQ(sequence.dispatches().size(), 6U);
  EXPECT_EQ(recorded(sequence), "dbdbdd");
  EXPECT_EQ(recorded(sequence, {.first_dispatch = 2, .dispatch_count = 1}), "");
  EXPECT_EQ(recorded(sequence, {.first_dispatch = 3, .dispatch_count = 1}), "bd");
  EXPECT_EQ(recorded(sequence, {.first_dispatch = 4, .wait_for_earlier = true}), "bd");
}

TEST_F(SequenceTest, NothingMayBeLeftOut) {
  EXPECT_TRUE(must(Sequence::create({})).dispatches().empty());
  EXPECT_EQ(recorded(must(Sequence::create({}))), "");
  // A product over nothing, which is no work, between two products.
  MatmulDesc none = small_product();
  none.rows = 0;
  const MatmulPlan empty = must(MatmulPlan::create(device_->device, none));
  ASSERT_TRUE(empty.dispatches().empty());
  const Bindings first = bound(product_), second = bound(empty);
  const SequenceItem items[] = {{&product_, &first, true}, {&empty, &second}, {&product_, &first}};
  EXPECT_EQ(recorded(must(Sequence::create(items))), "dbdbdbd");
}

TEST_F(SequenceTest, TimestampsLieAroundEachDispatchOfAPlan) {
  const AttentionPlan plan = attention();
  const Bindings bindings = bound(plan), without_mask = bound(plan, true);
  const auto stamped = [&](RecordOptions slice, std::uint32_t first, const Bindings& of) {
    slice.timestamps = queries_;
    slice.first_timestamp = first;
    return recorded(plan, of, slice);
  };
  EXPECT_EQ(stamped({}, 5, bindings), "5d6bd7");
  EXPECT_EQ(stamped({.wait_for_earlier = true}, 0, bindings), "b0d1bd2");
  EXPECT_EQ(stamped({.dispatch_count = 1}, 3, bindings), "3d4");
  EXPECT_EQ(stamped({.first_dispatch = 1}, 3, bindings), "3bd4");
  EXPECT_EQ(stamped({.first_dispatch = 1, .dispatch_count = 0}, 3, bindings), "");
  EXPECT_EQ(stamped({.first_dispatch = 2}, 3, bindings), "");
  // A dispatch that is left out takes no time, and its query is there.
  EXPECT_EQ(stamped({}, 0, without_mask), "01d2");
  EXPECT_EQ(stamped({.dispatch_count = 1}, 0, without_mask), "01");
}

TEST_F(SequenceTest, TimestampsAreNumberedThroughItsItems) {
  const AttentionPlan plan = attention();
  const Bindings first = bound(product_), second = bound(plan, true), third = bound(plan);
  const SequenceItem items[] = {{&product_, &first, true}, {&plan, &second}, {&plan, &third}};
  const Sequence sequence = must(Sequence::create(items));
  const auto stamped = [&](std::uint32_t begin, std::uint32_t count, std::uint32_t first_query) {
    RecordOptions slice{.first_dispatch = begin, .dispatch_count = count};
    slice.timestamps = queries_;
    slice.first_timestamp = first_query;
    return recorded(sequence, slice);
  };
  EXPECT_EQ(stamped(0, ~0U, 0), "0d1bd2b3d4bd5bd6");
  EXPECT_EQ(stamped(0, 1, 7), "7d8");
  EXPECT_EQ(stamped(1, 2, 0), "0bd12") << "the second of these dispatches is left out";
  EXPECT_EQ(stamped(2, 1, 0), "01");
  EXPECT_EQ(stamped(3, 2, 0), "b0d1bd2");
  EXPECT_EQ(stamped(6, 2, 0), "");
  EXPECT_EQ(stamped(0, 0, 0), "");
}

TEST_F(SequenceTest, TimestampsAreTheSameInC) {
  vkattn_error error = initial(vkattn_error_init);
  auto made = std::make_unique<vkattn_plan>(c::AnyPlan(attention()));
  vkattn_bindings* bindings = nullptr;
  c::give(std::make_unique<vkattn_bindings>(
              vkattn_bindings{made->plan, bound(std::get<AttentionPlan>(made->plan))}),
          &bindings);
  vkattn_plan* plan = nullptr;
  c::give(std::move(made), &plan);
  vkattn_record_options options = initial(vkattn_record_options_init);
  EXPECT_EQ(options.timestamps, VkQueryPool{});
  options.timestamps = queries_;
  options.first_timestamp = 4;
  commands_.clear();
  HostVulkan::begin_commands();
  EXPECT_EQ(vkattn_record(plan, HostVulkan::commands(), bindings, &options, &error), VKATTN_SUCCESS);
  EXPECT_EQ(commands_, "4d5bd6");
  // A program of an earlier header has no such members.
  options.struct_size = 32;
  commands_.clear();
  HostVulkan::begin_commands();
  EXPECT_EQ(vkattn_record(plan, HostVulkan::commands(), bindings, &options, &error), VKATTN_SUCCESS);
  EXPECT_EQ(commands_, "dbd");
  EXPECT_EQ(vkattn_bindings_destroy(bindings), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_plan_release(plan), VKATTN_SUCCESS);
}

TEST_F(SequenceTest, RecordingTellsWhatIsWrong) {
  const AttentionPlan plan = attention();
  const AttentionPlan later = attention({.kernel = "lane", .kv_splits = 1, .deferred_compilation = true});
  const Bindings bindings = bound(plan), of_later = bound(later);
  const auto status = [](const AttentionPlan& of, const Bindings& with) {
    HostVulkan::begin_commands();
    return of.record(HostVulkan::commands(), with);
  };
  EXPECT_EQ(status(plan, bindings), RecordStatus::kRecorded);
#ifdef VKATTN_CHECKED
  EXPECT_DEATH(status(later, bindings), "another plan");
  EXPECT_DEATH(status(later, of_later), "not compiled");
#else
  commands_.clear();
  EXPECT_EQ(status(later, bindings), RecordStatus::kOtherPlan);
  EXPECT_EQ(status(later, of_later), RecordStatus::kNotCompiled);
  EXPECT_EQ(commands_, "");
#endif
  must(later.compile());
  EXPECT_EQ(status(later, of_later), RecordStatus::kRecorded);
}

TEST_F(SequenceTest, OutlivesItsPlansAndBindings) {
  std::optional<AttentionPlan> plan = attention();
  Bindings first = bound(*plan);
  const SequenceItem item{&*plan, &first};
  const Sequence sequence = must(Sequence::create({&item, 1}));
  plan.reset();
  { const Bindings destroyed = std::move(first); }
  EXPECT_EQ(sequence.dispatches().front().pass, "block_mask");
  EXPECT_EQ(recorded(sequence), "bdbd");
}

TEST_F(SequenceTest, WhatDoesNotFitIsRefused) {
  const AttentionPlan plan = attention();
  const Bindings first = bound(plan), second = bound(product_);
  const auto refused = [&](const SequenceItem& item, const std::string& words) {
    const SequenceItem items[] = {{&plan, &first}, item};
    return is_refused(Sequence::create(items), ErrorCode::kInvalidArgument, {words});
  };
  EXPECT_TRUE(refused({nullptr, &second}, "plan 2 of the sequence is null"));
  EXPECT_TRUE(refused({&product_, nullptr}, "the bindings of plan 2 of the sequence are null"));
  EXPECT_TRUE(
      refused({&product_, &first}, "the bindings of plan 2 of the sequence were made by another plan"));
  const AttentionPlan later = attention({.kernel = "lane", .kv_splits = 1, .deferred_compilation = true});
  const Bindings third = bound(later);
  EXPECT_TRUE(refused({&later, &third}, "plan 2 of the sequence is not compiled yet"));
  const std::unique_ptr<vkattn_device, decltype(&vkattn_device_release)> other{HostVulkan::borrow(),
                                                                               &vkattn_device_release};
  const MatmulPlan elsewhere = must(MatmulPlan::create(other->device, small_product()));
  const Bindings fourth = bound(elsewhere);
  EXPECT_FALSE(refused({&elsewhere, &fourth}, "")) << "the same VkDevice, borrowed twice";
  auto& handle = const_cast<detail::DeviceState&>(other->device.state()).device;
  const VkDevice real = std::exchange(handle, reinterpret_cast<VkDevice>(&next_));
  EXPECT_TRUE(refused({&elsewhere, &fourth}, "plan 2 of the sequence is on another VkDevice than plan 1"));
  handle = real;
}

TEST_F(SequenceTest, IsTheSameInC) {
  vkattn_error error = initial(vkattn_error_init);
  auto plan = std::make_unique<vkattn_plan>(c::AnyPlan(attention()));
  vkattn_plan* product = nullptr;
  vkattn_bindings* first = nullptr;
  c::give(std::make_unique<vkattn_bindings>(
              vkattn_bindings{plan->plan, bound(std::get<AttentionPlan>(plan->plan))}),
          &first);
  vkattn_plan* its = nullptr;
  c::give(std::move(plan), &its);
  c::give(std::make_unique<vkattn_plan>(c::AnyPlan(product_)), &product);
  vkattn_bindings* second = nullptr;
  c::give(std::make_unique<vkattn_bindings>(vkattn_bindings{product->plan, bound(product_)}), &second);
  vkattn_sequence_item items[] = {{its, first, 1, 0}, {product, second, 0, 0}, {product, second, 1, 0}};
  vkattn_sequence* sequence = nullptr;
  const auto refused = [&](const char* words) {
    return vkattn_sequence_create(items, 3, &sequence, &error) == VKATTN_ERROR_INVALID_ARGUMENT &&
           sequence == nullptr && has(error.message, words);
  };
  items[1].bindings = first;
  EXPECT_TRUE(refused("the bindings of plan 2 of the sequence were made by another plan")) << error.message;
  items[1].bindings = nullptr;
  EXPECT_TRUE(refused("bindings is null")) << error.message;
  items[1].bindings = second;
  items[2].reserved = 7;
  EXPECT_TRUE(refused("vkattn_sequence_item::reserved is 7")) << error.message;
  items[2].reserved = 0;
  EXPECT_EQ(vkattn_sequence_create(nullptr, 3, &sequence, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  ASSERT_EQ(vkattn_sequence_create(items, 3, &sequence, &error), VKATTN_SUCCESS) << error.message;
  const SequenceItem same[] = {{&c::plan_of(*its), &first->bindings, true},
                               {&product_, &second->bindings},
                               {&product_, &second->bindings, true}};
  const std::string in_cpp = recorded(must(Sequence::create(same)));
  EXPECT_EQ(vkattn_plan_release(its), VKATTN_SUCCESS);
  commands_.clear();
  HostVulkan::begin_commands();
  EXPECT_EQ(vkattn_sequence_record(sequence, HostVulkan::commands(), nullptr, &error), VKATTN_SUCCESS);
  EXPECT_EQ(commands_, in_cpp);

  vkattn_frame_budget* budget = nullptr;
  ASSERT_EQ(vkattn_frame_budget_create_sequence(sequence, &budget, &error), VKATTN_SUCCESS) << error.message;
  vkattn_record_options slice = initial(vkattn_record_options_init);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(vkattn_frame_budget_next(budget, 1, &slice, &error), VKATTN_SUCCESS);
    ASSERT_EQ(vkattn_frame_budget_measured(budget, &slice, 1, &error), VKATTN_SUCCESS);
  }
  ASSERT_EQ(vkattn_frame_budget_restart(budget), VKATTN_SUCCESS);
  ASSERT_EQ(vkattn_frame_budget_next(budget, 0, &slice, &error), VKATTN_SUCCESS);
  ASSERT_EQ(vkattn_frame_budget_next(budget, 1e9, &slice, &error), VKATTN_SUCCESS);
  EXPECT_EQ(slice.first_dispatch, 1U);
  EXPECT_EQ(slice.dispatch_count, 5U) << "one slice has dispatches of all plans";
  commands_.clear();
  HostVulkan::begin_commands();
  EXPECT_EQ(vkattn_sequence_record(sequence, HostVulkan::commands(), &slice, &error), VKATTN_SUCCESS);
  EXPECT_EQ(commands_, "bdbdbddbd");
  EXPECT_EQ(vkattn_sequence_record(sequence, nullptr, nullptr, &error), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_frame_budget_destroy(budget), VKATTN_SUCCESS);

  EXPECT_EQ(vkattn_bindings_destroy(first), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_bindings_destroy(second), VKATTN_SUCCESS);
  commands_.clear();
  HostVulkan::begin_commands();
  EXPECT_EQ(vkattn_sequence_record(sequence, HostVulkan::commands(), nullptr, &error), VKATTN_SUCCESS);
  EXPECT_EQ(commands_, in_cpp) << "a sequence shares what its bindings had";
  EXPECT_EQ(vkattn_sequence_destroy(sequence), VKATTN_SUCCESS);
  EXPECT_EQ(vkattn_sequence_destroy(sequence), VKATTN_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(vkattn_plan_release(product), VKATTN_SUCCESS);
}

}  // namespace
}  // namespace vkattn::tests

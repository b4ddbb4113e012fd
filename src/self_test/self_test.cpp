// Self-tests: one buffer with all tensors of a small problem, side by side.
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "self_test/small_test.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn {

namespace detail {

struct SelfTestState {
  Shared<const DeviceState> device;
  std::unique_ptr<SmallTest> test;
  std::vector<BufferRange> places;  ///< ranges in the buffer, empty for tensors that are not used
  BufferRange workspace;
  VkDeviceSize bytes = 0;

  SelfTestState(Shared<const DeviceState> on, std::unique_ptr<SmallTest> made)
      : device(std::move(on)), test(std::move(made)) {
    for (const std::vector<std::byte>& tensor : test->tensors()) places.push_back(take(tensor.size()));
    workspace = take(test->workspace_bytes());
  }

  /// The memory of a tensor.
  template <class Bytes>
  [[nodiscard]] Bytes part(Bytes memory, const BufferRange& place) const {
    return memory.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
  }

  [[nodiscard]] Result<void> check_size(std::size_t size) const {
    if (size == bytes) return {};
    return invalid("the memory of the self-test has ", size, " bytes; its buffer has ", bytes);
  }

 private:
  BufferRange take(VkDeviceSize size) {
    if (size == 0) return {};
    // Whole words, as tensors are accessed.
    const VkDeviceSize alignment =
        std::max<VkDeviceSize>(device->capabilities.min_storage_offset_alignment, 64);
    const BufferRange range{VkBuffer{}, bytes, round_up(size, VkDeviceSize{4})};
    bytes = round_up(bytes + range.size, alignment);
    return range;
  }
};

namespace {

/// A test on the plan that small_plan() makes of it.
template <class Plan, class... More>
Result<std::unique_ptr<SelfTestState>> make_test(const Device& device, const Plan& plan,
                                                 VkPipelineCache pipeline_cache, More... more) {
  if (!plan.is_on(device)) {
    return invalid("the plan was made on another VkDevice: give the device that it was made on");
  }
  auto small = small_plan(device, plan, pipeline_cache, more...);
  if (!small) return small.error();
  return std::make_unique<SelfTestState>(device.share(), small_test(*std::move(small)));
}

}  // namespace

}  // namespace detail

SelfTest::SelfTest(std::unique_ptr<detail::SelfTestState> state) : state_(std::move(state)) {}
SelfTest::SelfTest(SelfTest&&) noexcept = default;
SelfTest& SelfTest::operator=(SelfTest&&) noexcept = default;
SelfTest::~SelfTest() = default;

bool SelfTest::is_needed(const Plan& plan) noexcept {
  return plan.uses_matrix_units() && plan.requirements().dispatches != 0;
}

Result<SelfTest> SelfTest::create(const Device& device, const AttentionPlan& plan,
                                  VkPipelineCache pipeline_cache, TestPurpose purpose) {
  return detail::without_exceptions([&]() -> Result<SelfTest> {
    auto state = detail::make_test(device, plan, pipeline_cache, purpose);
    if (!state) return state.error();
    return SelfTest(*std::move(state));
  });
}

#ifndef VKATTN_WITHOUT_BACKWARD
Result<SelfTest> SelfTest::create(const Device& device, const BackwardPlan& plan,
                                  VkPipelineCache pipeline_cache) {
  return detail::without_exceptions([&]() -> Result<SelfTest> {
    auto state = detail::make_test(device, plan, pipeline_cache);
    if (!state) return state.error();
    return SelfTest(*std::move(state));
  });
}
#endif

#ifndef VKATTN_WITHOUT_MATMUL
Result<SelfTest> SelfTest::create(const Device& device, const MatmulPlan& plan,
                                  VkPipelineCache pipeline_cache) {
  return detail::without_exceptions([&]() -> Result<SelfTest> {
    auto state = detail::make_test(device, plan, pipeline_cache);
    if (!state) return state.error();
    return SelfTest(*std::move(state));
  });
}
#endif

VkDeviceSize SelfTest::buffer_bytes() const {
  return state_->bytes;
}

Result<void> SelfTest::fill(std::span<std::byte> memory) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = state_->check_size(memory.size()); !s) return s;
    const detail::TestBytes tensors = state_->test->tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].empty()) continue;
      std::memcpy(state_->part(memory, state_->places[i]).data(), tensors[i].data(), tensors[i].size());
    }
    return {};
  });
}

Result<Bindings> SelfTest::make_bindings(const BufferRange& buffer) const {
  return detail::without_exceptions([&]() -> Result<Bindings> {
    if (Result<void> s = state_->check_size(static_cast<std::size_t>(buffer.size)); !s) return s.error();
    const auto placed = [&](const BufferRange& place) -> BufferRange {
      if (place.size == 0) return {};
      return {buffer.buffer, buffer.offset + place.offset, place.size};
    };
    std::vector<BufferRange> tensors;
    for (const BufferRange& place : state_->places) tensors.push_back(placed(place));
    return state_->test->make_bindings(tensors, placed(state_->workspace));
  });
}

void SelfTest::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  state_->test->record(commands, bindings);
  VkMemoryBarrier results{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  results.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  results.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  state_->device->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                          VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &results, 0, nullptr, 0, nullptr);
}

Result<std::string> SelfTest::check(std::span<const std::byte> memory) const {
  return detail::without_exceptions([&]() -> Result<std::string> {
    if (Result<void> s = state_->check_size(memory.size()); !s) return s.error();
    detail::TestBytes tensors;
    for (const BufferRange& place : state_->places) {
      const auto part = state_->part(memory, place);
      tensors.emplace_back(part.begin(), part.end());
    }
    return state_->test->first_difference(tensors);
  });
}

std::size_t kernel_by_time(std::span<const std::uint64_t> nanoseconds) noexcept {
  if (nanoseconds.empty() || nanoseconds.front() == 0) return 0;
  std::uint64_t least = nanoseconds.front();
  for (const std::uint64_t time : nanoseconds) least = time != 0 ? std::min(least, time) : least;
  const auto is_fast = [&](std::uint64_t time) {
    return time != 0 && static_cast<double>(time) < kOverrulingFactor * static_cast<double>(least);
  };
  return static_cast<std::size_t>(std::find_if(nanoseconds.begin(), nanoseconds.end(), is_fast) -
                                  nanoseconds.begin());
}

}  // namespace vkattn

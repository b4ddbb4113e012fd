// Self-tests: one buffer with all tensors of a small problem, side by side.
#include <vkattn/self_test.hpp>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "common/integers.hpp"
#include "common/message.hpp"
#include "kernels/split.hpp"
#include "self_test/small_problem.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn {

namespace detail {

struct SelfTestState {
  std::shared_ptr<const DeviceState> device;
  AttentionPlan plan;
  AttentionTensors places;  ///< ranges in the buffer
  BufferRange workspace;
  VkDeviceSize bytes = 0;

  SelfTestState(std::shared_ptr<const DeviceState> on, AttentionPlan made)
      : device(std::move(on)), plan(std::move(made)) {
    const PerTensor<std::vector<std::byte>> tensors = small_tensors(plan.desc());
    for (const TensorRow& row : tensor_table()) {
      if (!tensors[row.range].empty()) places.*row.range = take(tensors[row.range].size());
    }
    if (plan.workspace_bytes() != 0) workspace = take(plan.workspace_bytes());
  }

  /// The memory of a tensor.
  template <class Bytes>
  [[nodiscard]] Bytes part(Bytes memory, const TensorRow& row) const {
    const BufferRange& place = places.*row.range;
    return memory.subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
  }

  [[nodiscard]] Result<void> check_size(std::size_t size) const {
    if (size == bytes) return {};
    return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                 message("the memory of the self-test has ", size, " bytes; its buffer has ", bytes)};
  }

 private:
  BufferRange take(VkDeviceSize size) {
    // Whole words, as tensors are accessed.
    const VkDeviceSize alignment =
        std::max<VkDeviceSize>(device->capabilities.min_storage_offset_alignment, 64);
    const BufferRange range{VkBuffer{}, bytes, divide_up(size, VkDeviceSize{4}) * 4};
    bytes = divide_up(bytes + range.size, alignment) * alignment;
    return range;
  }
};

}  // namespace detail

SelfTest::SelfTest(std::unique_ptr<detail::SelfTestState> state) : state_(std::move(state)) {}
SelfTest::SelfTest(SelfTest&&) noexcept = default;
SelfTest& SelfTest::operator=(SelfTest&&) noexcept = default;
SelfTest::~SelfTest() = default;

bool SelfTest::is_needed(const AttentionPlan& plan) noexcept {
  return plan.uses_matrix_units() && !plan.desc().is_empty();
}

Result<SelfTest> SelfTest::create(const Device& device, const AttentionPlan& plan,
                                  VkPipelineCache pipeline_cache, TestPurpose purpose) {
  return detail::without_exceptions([&]() -> Result<SelfTest> {
    if (!plan.is_on(device)) {
      return Error{ErrorCode::kInvalidArgument, VK_SUCCESS,
                   "the plan was made on another VkDevice: give the device that it was made on"};
    }
    PlanOptions options;
    options.kernel = plan.kernel_name();
    options.tile = plan.tile();
    options.pipeline_cache = pipeline_cache;
    options.kv_splits = 1;
    const AttentionDesc desc =
        purpose == TestPurpose::kTime
            ? detail::timed_problem(plan.desc(), detail::compute_units(device.capabilities()))
            : detail::small_problem(plan.desc());
    auto small = AttentionPlan::create(device, desc, options);
    if (!small) return small.error();
    return SelfTest(std::make_unique<detail::SelfTestState>(device.share(), *std::move(small)));
  });
}

VkDeviceSize SelfTest::buffer_bytes() const {
  return state_->bytes;
}

Result<void> SelfTest::fill(std::span<std::byte> memory) const {
  return detail::without_exceptions([&]() -> Result<void> {
    if (Result<void> s = state_->check_size(memory.size()); !s) return s;
    const auto tensors = detail::small_tensors(state_->plan.desc());
    for (const detail::TensorRow& row : detail::tensor_table()) {
      const std::vector<std::byte>& bytes = tensors[row.range];
      if (!bytes.empty()) std::memcpy(state_->part(memory, row).data(), bytes.data(), bytes.size());
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
    AttentionTensors tensors;
    for (const detail::TensorRow& row : detail::tensor_table()) {
      tensors.*row.range = placed(state_->places.*row.range);
    }
    return state_->plan.make_bindings(tensors, placed(state_->workspace));
  });
}

void SelfTest::record(VkCommandBuffer commands, const Bindings& bindings) const noexcept {
  state_->plan.record(commands, bindings);
  VkMemoryBarrier results{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  results.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
  results.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  state_->device->vk.vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                          VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &results, 0, nullptr, 0, nullptr);
}

Result<std::string> SelfTest::check(std::span<const std::byte> memory) const {
  return detail::without_exceptions([&]() -> Result<std::string> {
    if (Result<void> s = state_->check_size(memory.size()); !s) return s.error();
    detail::PerTensor<std::vector<std::byte>> bytes;
    for (const detail::TensorRow& row : detail::tensor_table()) {
      const auto part = state_->part(memory, row);
      bytes[row.range].assign(part.begin(), part.end());
    }
    const HostTensors host =
        detail::host_tensors([&](const detail::TensorRow& row) -> auto& { return bytes[row.range]; });
    return detail::first_difference(state_->plan.desc(), host, state_->plan.probability_type());
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

/// @file
/// First-use self-tests. Drivers have claimed matrix shapes that gave wrong results: before a plan on matrix
/// units is trusted on a device, a small problem of its kind is run and compared with a float64 reference.
/// The runtime does so by itself; programs with a device of their own can.
#pragma once

#include <vkattn/plan.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace vkattn {

namespace detail {
struct SelfTestState;
}  // namespace detail

/// A small problem on the kernel of a plan with the same block sizes. Where its result is wrong, make the
/// plan again with the kernel in PlanOptions::refusals. The outcome holds for AttentionPlan::configuration()
/// on this device with this driver: keep it by that text.
///
///     if (SelfTest::is_needed(plan) && !known(plan.configuration())) {
///       auto test = SelfTest::create(device, plan);
///       // a host-visible, coherent buffer of test->buffer_bytes() with VK_BUFFER_USAGE_STORAGE_BUFFER_BIT
///       test->fill(mapped);
///       auto bindings = test->make_bindings({buffer, 0, test->buffer_bytes()});
///       test->record(commands, *bindings);  // submit, and wait
///       std::string wrong = *test->check(mapped);  // empty: right
///     }
///
/// Immutable, move-only.
class SelfTest {
 public:
  /// Whether the plan's kernel runs on matrix units, whose results depend on what a driver claims of them.
  [[nodiscard]] static bool is_needed(const AttentionPlan& plan) noexcept;

  /// Compiles what it runs. `device` is the plan's.
  [[nodiscard]] static Result<SelfTest> create(const Device& device, const AttentionPlan& plan,
                                               VkPipelineCache pipeline_cache = {});
  /// One that was moved from may be destroyed and assigned to.
  /// @{
  SelfTest(SelfTest&&) noexcept;
  SelfTest& operator=(SelfTest&&) noexcept;
  /// @}
  ~SelfTest();

  /// Of one buffer for all tensors and the workspace; some hundreds of kilobytes.
  [[nodiscard]] VkDeviceSize buffer_bytes() const;
  /// Writes the inputs, and outputs that are no results, to the buffer's memory: buffer_bytes() of it.
  [[nodiscard]] Result<void> fill(std::span<std::byte> memory) const;
  /// `buffer` begins at a multiple of minStorageBufferOffsetAlignment and has buffer_bytes().
  [[nodiscard]] Result<Bindings> make_bindings(const BufferRange& buffer) const;
  /// With a barrier that makes the results visible to the host.
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;
  /// What is wrong with the results in the buffer's memory, in words; empty where they are right.
  [[nodiscard]] Result<std::string> check(std::span<const std::byte> memory) const;

 private:
  explicit SelfTest(std::unique_ptr<detail::SelfTestState> state);
  std::unique_ptr<detail::SelfTestState> state_;
};

}  // namespace vkattn

/// @file
/// First-use self-tests. Drivers have claimed matrix shapes that gave wrong results: before a plan on matrix
/// units is trusted on a device, a small problem of its kind is run and compared with a float64 reference.
/// The runtime does so by itself; programs with a device of their own can. Compilers also make ordinary code
/// of matrices, or spill most of them: a larger problem shows which of the device's first kernels are slow.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vkattn {

namespace detail {
struct SelfTestState;
}  // namespace detail

/// What a self-test is for.
enum class TestPurpose : std::uint32_t {
  kResults = 0,  ///< a small problem, for check()
  kTime = 1,     ///< one that fills the device, to be timed; check() of it takes seconds
};

/// A small problem on the kernel of a plan (of attention, gradients or a product), with the plan's block
/// sizes. If its result is wrong, make the plan again: without PlanOptions::tuning if its block sizes were
/// measured, as the kernel's own may be right; else with the kernel in the options' refusals. The outcome
/// holds for the plan's configuration() on this device with this driver: keep it by that text. For a layer
/// test its steps(), or each plan when it is made, by the functions in MultiHeadAttentionOptions.
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
  [[nodiscard]] static bool is_needed(const Plan& plan) noexcept;

  /// Compiles what it runs. `device` is the plan's; plans of another are refused. Gradients and products have
  /// tests of results alone.
  /// @{
  [[nodiscard]] static Result<SelfTest> create(const Device& device, const AttentionPlan& plan,
                                               VkPipelineCache pipeline_cache = {},
                                               TestPurpose purpose = TestPurpose::kResults);
  [[nodiscard]] static Result<SelfTest> create(const Device& device, const BackwardPlan& plan,
                                               VkPipelineCache pipeline_cache = {});
  [[nodiscard]] static Result<SelfTest> create(const Device& device, const MatmulPlan& plan,
                                               VkPipelineCache pipeline_cache = {});
  /// @}
  /// One that was moved from may be destroyed and assigned to.
  /// @{
  SelfTest(SelfTest&&) noexcept;
  SelfTest& operator=(SelfTest&&) noexcept;
  /// @}
  ~SelfTest();

  /// Bytes of one buffer for all tensors and the workspace: some hundreds of kilobytes; for kTime some tens
  /// of megabytes.
  [[nodiscard]] VkDeviceSize buffer_bytes() const;
  /// Writes the inputs, and outputs that are no results, to the buffer's memory: buffer_bytes() of it.
  [[nodiscard]] Result<void> fill(std::span<std::byte> memory) const;
  /// `buffer` begins at a multiple of minStorageBufferOffsetAlignment and of 16, and has buffer_bytes().
  [[nodiscard]] Result<Bindings> make_bindings(const BufferRange& buffer) const;
  /// With a barrier that makes the results visible to the host.
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;
  /// What is wrong with the results in the buffer's memory, in words; empty where they are right.
  [[nodiscard]] Result<std::string> check(std::span<const std::byte> memory) const;

 private:
  explicit SelfTest(std::unique_ptr<detail::SelfTestState> state);
  std::unique_ptr<detail::SelfTestState> state_;
};

/// How many times as long as the fastest a kernel may take for a test of TestPurpose::kTime, and still be
/// used before it.
inline constexpr double kOverrulingFactor = 1.5;

/// Which kernel to use, by the nanoseconds that each took for a test of TestPurpose::kTime, in the device's
/// order of preference: the first that took less than kOverrulingFactor times the least. 0 means that the
/// time is not known: the first kernel then stays, and another kernel is not used. Compare plans of one
/// problem, as the runtime does: the plan that is made first, then plans with all kernels before in
/// PlanOptions::refusals, up to the first without matrix units. Let each run for some milliseconds, the first
/// kernel last: a GPU that was idle is slow at first. To use another kernel, put those before it into
/// PlanOptions::refusals.
[[nodiscard]] std::size_t kernel_by_time(std::span<const std::uint64_t> nanoseconds) noexcept;

}  // namespace vkattn

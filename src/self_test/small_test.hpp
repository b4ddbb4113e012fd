// A small problem of a plan of any kind, as a self-test runs it.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/self_test.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vkattn::detail {

/// The bytes of each tensor, in the order of its tables; empty for a tensor that is not used.
using TestBytes = std::vector<std::vector<std::byte>>;

class SmallTest {
 public:
  SmallTest() = default;
  SmallTest(const SmallTest&) = delete;
  SmallTest& operator=(const SmallTest&) = delete;
  virtual ~SmallTest() = default;

  /// The tensors before the test, the same at each call. Results have bytes that no kernel writes.
  [[nodiscard]] virtual TestBytes tensors() const = 0;
  [[nodiscard]] virtual VkDeviceSize workspace_bytes() const = 0;
  /// In the order of tensors().
  [[nodiscard]] virtual Result<Bindings> make_bindings(std::span<const BufferRange> tensors,
                                                       const BufferRange& workspace) const = 0;
  virtual void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept = 0;
  /// The fault of the results among the tensors, in words; empty if they are right.
  [[nodiscard]] virtual std::string first_difference(TestBytes& tensors) const = 0;
};

/// The common part of the tests of all kinds of plans.
template <class Plan>
class SmallTestOf : public SmallTest {
 public:
  explicit SmallTestOf(Plan plan) : plan_(std::move(plan)) {}

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] VkDeviceSize workspace_bytes() const override { return plan_.requirements().workspace_bytes; }
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept override {
    plan_.record(commands, bindings);
  }

 private:
  Plan plan_;
};

/// The plan of a test, with the kernel and block sizes of the tested plan: of small_problem() or
/// timed_problem(), small_backward() and small_product().
/// @{
[[nodiscard]] Result<AttentionPlan> small_plan(const Device& device, const AttentionPlan& plan,
                                               VkPipelineCache pipeline_cache, TestPurpose purpose);
[[nodiscard]] Result<BackwardPlan> small_plan(const Device& device, const BackwardPlan& plan,
                                              VkPipelineCache pipeline_cache);
[[nodiscard]] Result<MatmulPlan> small_plan(const Device& device, const MatmulPlan& plan,
                                            VkPipelineCache pipeline_cache);
/// @}

/// Tests on a plan of small_problem() or timed_problem(), small_backward() and small_product().
/// @{
[[nodiscard]] std::unique_ptr<SmallTest> small_test(AttentionPlan plan);
[[nodiscard]] std::unique_ptr<SmallTest> small_test(BackwardPlan plan);
[[nodiscard]] std::unique_ptr<SmallTest> small_test(MatmulPlan plan);
/// @}

/// Gradients of a small_problem(), of the types that the plan's problem has. Slopes have no gradient.
[[nodiscard]] BackwardDesc small_backward(const BackwardDesc& desc);

/// A product of a few of the kernel's blocks of so many rows, columns and elements of `inner`, the last ones
/// not full, which can be split; loaded as that of the descriptor, which is resolved: its configuration() is
/// that of the plan.
[[nodiscard]] MatmulDesc small_product(const MatmulDesc& desc, std::string_view kernel,
                                       const MatmulTile& tile);

}  // namespace vkattn::detail

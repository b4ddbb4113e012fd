// A plan that runs on the tensors of a problem. It may compute anything, and anyone may have made it.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/unfused_plan.hpp"
#include "problem/problem.hpp"

namespace vkattn::harness {

/// The tensors that a plan is bound to.
using AnyTensors = std::variant<AttentionTensors, BackwardTensors, MatmulTensors>;

/// A plan of the library or of the laboratory's baseline. It is cheap to copy.
class Runnable {
 public:
  Runnable(AttentionPlan plan) : plan_(std::move(plan)) {}
  Runnable(UnfusedPlan plan) : plan_(std::move(plan)) {}
  Runnable(BackwardPlan plan) : plan_(std::move(plan)) {}
  Runnable(MatmulPlan plan) : plan_(std::move(plan)) {}
  /// Works like Runtime::make_plan. PlanOptions::kernel may also name the baseline.
  [[nodiscard]] static Result<Runnable> create(const Runtime& runtime, const AttentionDesc& desc,
                                               const PlanOptions& options);
  /// Makes a plan for what the problem asks for. An option that this kind of plan does not have is an error.
  [[nodiscard]] static Result<Runnable> create(const Runtime& runtime, const bench::Problem& problem,
                                               const PlanOptions& options);

  [[nodiscard]] std::string_view kernel_name() const;
  /// AttentionPlan::probability_type().
  [[nodiscard]] DataType probability_type() const;
  /// AttentionPlan::arithmetic_type().
  [[nodiscard]] DataType arithmetic_type() const;
  /// Forwarded to the plan, if it is one of the library's own.
  /// @{
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings) const;
  /// @}
  /// Returns an empty buffer if the plan needs no workspace.
  [[nodiscard]] Result<Buffer> create_workspace(const Runtime& runtime) const;
  /// `tensors` must hold the tensors of the plan's kind.
  [[nodiscard]] Result<Bindings> make_bindings(const AnyTensors& tensors, const BufferRange& workspace) const;
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;
  /// Executes the plan once, on a workspace full of NaN, and waits. Returns the nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runtime& runtime, const AnyTensors& tensors) const;

 private:
  std::variant<AttentionPlan, UnfusedPlan, BackwardPlan, MatmulPlan> plan_;
};

}  // namespace vkattn::harness

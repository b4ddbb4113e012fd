// A plan to be run on the tensors of a problem, whatever it computes and whoever made it.
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

/// What plans are bound to.
using AnyTensors = std::variant<AttentionTensors, BackwardTensors, MatmulTensors>;

/// A plan of the library's or the laboratory's baseline. Cheap to copy.
class Runnable {
 public:
  Runnable(AttentionPlan plan) : plan_(std::move(plan)) {}
  Runnable(UnfusedPlan plan) : plan_(std::move(plan)) {}
  Runnable(BackwardPlan plan) : plan_(std::move(plan)) {}
  Runnable(MatmulPlan plan) : plan_(std::move(plan)) {}
  /// As Runtime::make_plan; PlanOptions::kernel may also name the baseline.
  [[nodiscard]] static Result<Runnable> create(const Runtime& runtime, const AttentionDesc& desc,
                                               const PlanOptions& options);
  /// Of what the problem asks for. Options that its plans have not are errors.
  [[nodiscard]] static Result<Runnable> create(const Runtime& runtime, const bench::Problem& problem,
                                               const PlanOptions& options);

  [[nodiscard]] std::string_view kernel_name() const;
  /// AttentionPlan::probability_type().
  [[nodiscard]] DataType probability_type() const;
  /// AttentionPlan::arithmetic_type().
  [[nodiscard]] DataType arithmetic_type() const;
  /// For the library's own: the plan's.
  /// @{
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::vector<PipelineInfo> pipelines() const;
  [[nodiscard]] Result<std::vector<PipelineStatistics>> statistics(bool listings) const;
  /// @}
  /// An empty buffer where none is needed.
  [[nodiscard]] Result<Buffer> create_workspace(const Runtime& runtime) const;
  /// The tensors are those of the plan's kind.
  [[nodiscard]] Result<Bindings> make_bindings(const AnyTensors& tensors, const BufferRange& workspace) const;
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;

 private:
  std::variant<AttentionPlan, UnfusedPlan, BackwardPlan, MatmulPlan> plan_;
};

}  // namespace vkattn::harness

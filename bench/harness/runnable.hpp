// A plan to be run on the tensors of a problem, whoever made it.
#pragma once

#include <vkattn/runtime.hpp>

#include <string_view>
#include <variant>

#include "harness/unfused_plan.hpp"

namespace vkattn::harness {

/// A plan of the library's or the laboratory's baseline. Cheap to copy.
class Runnable {
 public:
  Runnable(AttentionPlan plan) : plan_(std::move(plan)) {}
  Runnable(UnfusedPlan plan) : plan_(std::move(plan)) {}
  /// As Runtime::make_plan; PlanOptions::kernel may also name the baseline.
  [[nodiscard]] static Result<Runnable> create(const Runtime& runtime, const AttentionDesc& desc,
                                               const PlanOptions& options);

  [[nodiscard]] std::string_view kernel_name() const;
  /// AttentionPlan::probability_type().
  [[nodiscard]] DataType probability_type() const;
  /// An empty buffer where none is needed.
  [[nodiscard]] Result<Buffer> create_workspace(const Runtime& runtime) const;
  [[nodiscard]] Result<Bindings> make_bindings(const AttentionTensors& tensors,
                                               const BufferRange& workspace) const;
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;

 private:
  std::variant<AttentionPlan, UnfusedPlan> plan_;
};

}  // namespace vkattn::harness

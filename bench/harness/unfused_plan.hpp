// Attention without fusion: scores, softmax and weighted sum are passes of their own, and the score matrix
// lies in memory. It is the baseline that the library's kernels are measured against, for plain problems.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/bindings.hpp>

#include <memory>
#include <string_view>

#include "program/program.hpp"

namespace vkattn::harness {

/// The baseline's name wherever a kernel is named.
inline constexpr std::string_view kUnfused = "unfused";

/// Immutable and cheap to copy, like AttentionPlan.
class UnfusedPlan {
 public:
  /// Uses the options max_dispatch_ns and pipeline_cache alone. Refuses a descriptor that breaks a rule, a
  /// feature or a score function (the baseline has neither), and a tensor or a score matrix that does not fit
  /// one descriptor.
  [[nodiscard]] static Result<UnfusedPlan> create(const Device& device, const AttentionDesc& desc,
                                                  const PlanOptions& options = {});

  /// The size of the score matrix: 4 bytes for each query row and key.
  [[nodiscard]] VkDeviceSize workspace_bytes() const { return program().workspace_bytes; }
  [[nodiscard]] Result<Bindings> make_bindings(const AttentionTensors& tensors,
                                               const BufferRange& workspace) const;
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;

  /// The description of the recorded program.
  [[nodiscard]] const detail::ProgramDesc& program() const { return program_->desc(); }

 private:
  explicit UnfusedPlan(std::shared_ptr<const detail::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const detail::Program> program_;
};

}  // namespace vkattn::harness

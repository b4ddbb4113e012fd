// Attention as it is without fusion: scores, softmax and weighted sum as passes of their own, with the score
// matrix in memory. The baseline that the library's kernels are measured against, for plain problems.
#pragma once

#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/bindings.hpp>

#include <memory>
#include <string_view>

#include "program/program.hpp"

namespace vkattn::harness {

/// What the baseline is called where a kernel is named.
inline constexpr std::string_view kUnfused = "unfused";

/// As an AttentionPlan: immutable, cheap to copy.
class UnfusedPlan {
 public:
  /// Of the options, max_dispatch_ns and pipeline_cache count. Errors: a broken rule of the descriptor, a
  /// feature or a score function (the baseline does neither), a tensor or a score matrix that does not fit
  /// one descriptor.
  [[nodiscard]] static Result<UnfusedPlan> create(const Device& device, const AttentionDesc& desc,
                                                  const PlanOptions& options = {});

  /// The score matrix: 4 bytes for each query row and key.
  [[nodiscard]] VkDeviceSize workspace_bytes() const { return program().workspace_bytes; }
  [[nodiscard]] Result<Bindings> make_bindings(const AttentionTensors& tensors,
                                               const BufferRange& workspace) const;
  void record(VkCommandBuffer commands, const Bindings& bindings) const noexcept;

  /// What is recorded.
  [[nodiscard]] const detail::ProgramDesc& program() const { return program_->desc(); }

 private:
  explicit UnfusedPlan(std::shared_ptr<const detail::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const detail::Program> program_;
};

}  // namespace vkattn::harness

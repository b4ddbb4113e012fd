/// @file
/// Matrix multiplication for the projections around attention: Y = X W + b and its gradients.
#pragma once

#include <vkattn/buffer_range.hpp>
#include <vkattn/capabilities.hpp>
#include <vkattn/kernels.hpp>
#include <vkattn/matmul_desc.hpp>
#include <vkattn/plan.hpp>

#include <utility>
#include <vector>

namespace vkattn {

/// The tensors of one execution. Bindings whose output overlaps another tensor are refused.
struct MatmulTensors {
  BufferRange a{};       ///< null where MatmulDesc::a_is_ones
  BufferRange b{};       ///< as MatmulDesc::b says
  BufferRange bias{};    ///< where MatmulDesc::has_bias
  BufferRange output{};  ///< as MatmulDesc::output says
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MatmulDesc& desc);

/// Every kernel for a matrix multiplication in the order of preference, with the reason against each.
[[nodiscard]] std::vector<KernelSupport> kernel_support(const MatmulDesc& desc,
                                                        const Capabilities& capabilities);

/// A plan of a matrix multiplication: one to four passes; a split over `inner` and copies take a workspace.
/// Each tensor must fit maxStorageBufferRange. Two runs on one device with the same inputs give the same
/// bits.
class MatmulPlan : public PlanOf<MatmulPlan, MatmulDesc, MatmulTensors> {
 public:
  /// The block sizes in force.
  [[nodiscard]] MatmulTile tile() const;
  /// The operands that are copied.
  [[nodiscard]] MatmulCopies copies() const;

 private:
  friend PlanOf;
  explicit MatmulPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn

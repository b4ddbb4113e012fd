// A problem's backward pass on a device: the forward pass, a random gradient of its output, poisoned
// gradients between guard bands, and the comparison with the float64 reference.
#pragma once

#include <vkattn/backward.hpp>

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "backward/gradient_table.hpp"
#include "gpu/support.hpp"
#include "harness/host_view.hpp"
#include "reference/gradients.hpp"

namespace vkattn::tests {

/// What of a problem's gradients is asked for, beyond those of Q, K and V.
[[nodiscard]] BackwardDesc with_all_gradients(const AttentionDesc& desc);

class BackwardRun {
 public:
  /// Runs the forward pass. The descriptor's problem is the problem's own.
  [[nodiscard]] static Result<BackwardRun> create(const Runtime& runtime, const Problem& problem,
                                                  const BackwardDesc& desc);

  [[nodiscard]] const BackwardDesc& desc() const { return desc_; }
  [[nodiscard]] harness::ProblemRun& forward() { return forward_; }
  [[nodiscard]] BackwardTensors tensors() const;
  [[nodiscard]] const harness::TensorBuffer& tensor(BufferRange BackwardTensors::*which) const {
    return tensors_[detail::gradient_index(which)];
  }

  /// Poisons the gradients, and the workspace with NaN, and runs the plan.
  [[nodiscard]] Result<void> execute(const BackwardPlan& plan);
  /// Every gradient against the reference, and guard bands; a message where something is wrong. The largest
  /// share of a tolerance goes to `share`.
  [[nodiscard]] std::string check(double& share) const;
  /// The bytes of all gradients with what lies around them.
  [[nodiscard]] std::vector<std::vector<std::byte>> bytes() const;

 private:
  BackwardRun(const Runtime& runtime, harness::ProblemRun forward, BackwardDesc desc)
      : runtime_(&runtime), forward_(std::move(forward)), desc_(std::move(desc)) {}
  [[nodiscard]] Result<void> fill_grad_output();
  [[nodiscard]] std::string check_all(const reference::Inputs& inputs, double& share) const;
  [[nodiscard]] std::string check_gradient(const detail::GradientRow& row,
                                           const reference::Gradient& expected,
                                           const std::function<bool(const harness::Position&)>& is_written,
                                           double& share) const;

  const Runtime* runtime_;
  harness::ProblemRun forward_;
  BackwardDesc desc_;
  std::array<harness::TensorBuffer, detail::kGradientCount> tensors_;
};

}  // namespace vkattn::tests

// A problem's backward pass on a device: the forward pass, a random gradient of its output, poisoned
// gradients between guard bands, and the comparison with the float64 reference.
#pragma once

#include <vkattn/backward.hpp>

#include <functional>
#include <string_view>
#include <vector>

#include "backward/gradient_table.hpp"
#include "harness/problem_run.hpp"
#include "problem/gradients.hpp"
#include "reference/gradients.hpp"

namespace vkattn::harness {

using bench::with_all_gradients;

class BackwardRun {
 public:
  /// Runs the forward pass, by the kernel of that name or by the library's choice, and makes up a gradient of
  /// its output. The descriptor's problem is the problem's own.
  [[nodiscard]] static Result<BackwardRun> create(const Runtime& runtime, const Problem& problem,
                                                  const BackwardDesc& desc,
                                                  std::string_view forward_kernel = "lane");
  /// After a forward pass that wrote its lse. The gradient of its output is still to be written.
  [[nodiscard]] static Result<BackwardRun> after(const Runtime& runtime, ProblemRun forward,
                                                 const BackwardDesc& desc);

  [[nodiscard]] const BackwardDesc& desc() const { return desc_; }
  [[nodiscard]] ProblemRun& forward() { return forward_; }
  [[nodiscard]] const ProblemRun& forward() const { return forward_; }
  [[nodiscard]] BackwardTensors tensors() const;
  [[nodiscard]] const TensorBuffer& tensor(BufferRange BackwardTensors::*which) const {
    return tensors_[which];
  }

  /// What its elements are stored as.
  [[nodiscard]] DataType type(BufferRange BackwardTensors::*which) const {
    return detail::row_of(which).storage(desc_).type;
  }

  /// Poisons the gradients, and the workspace with NaN, and runs the plan; nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares gradients with the reference, and checks the guard bands. Where not all rows are wanted and
  /// there are many, of Q, K and V about so many each, and nothing of what is summed over all of them.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {}) const;
  /// The bytes of all gradients with what lies around them.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> bytes() const;

 private:
  BackwardRun(const Runtime& runtime, ProblemRun forward, BackwardDesc desc)
      : runtime_(&runtime), forward_(std::move(forward)), desc_(std::move(desc)) {}
  [[nodiscard]] Result<void> fill_grad_output();
  [[nodiscard]] Result<void> check_all(const reference::Inputs& inputs, const RowSelection& selection,
                                       CheckReport& report) const;
  [[nodiscard]] Result<void> check_gradient(const detail::GradientRow& row,
                                            const reference::Gradient& expected,
                                            const std::function<bool(const Position&)>& is_written,
                                            CheckReport& report) const;

  const Runtime* runtime_;
  ProblemRun forward_;
  BackwardDesc desc_;
  detail::PerTensor<TensorBuffer, BackwardTensors> tensors_;
  DataType factor_type_ = DataType::kFloat32;  ///< BackwardPlan::probability_type() of the plan executed last
  double least_largest_weight_ = 0;            ///< the same: detail::least_largest_weight()
};

}  // namespace vkattn::harness

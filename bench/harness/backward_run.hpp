// The backward pass of a problem on a device: the forward pass, random gradients of its results, poisoned
// gradients between guard bands, and the comparison with the float64 reference.
#pragma once

#include <vkattn/backward.hpp>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "backward/gradient_table.hpp"
#include "harness/problem_run.hpp"
#include "problem/gradients.hpp"
#include "reference/gradients.hpp"

namespace vkattn::harness {

using bench::with_all_gradients;

class WrittenRows;

class BackwardRun {
 public:
  /// Runs the forward pass with the kernel of that name or with the library's choice, and makes random
  /// gradients of its results. The problem inside `desc` must be `problem.desc`.
  [[nodiscard]] static Result<BackwardRun> create(const Runtime& runtime, const Problem& problem,
                                                  const BackwardDesc& desc,
                                                  std::string_view forward_kernel = "lane");
  /// Starts from a forward pass that wrote its lse. The caller still has to write the gradients of its
  /// results.
  [[nodiscard]] static Result<BackwardRun> after(const Runtime& runtime, ProblemRun forward,
                                                 const BackwardDesc& desc);

  [[nodiscard]] const BackwardDesc& desc() const { return desc_; }
  [[nodiscard]] ProblemRun& forward() { return forward_; }
  [[nodiscard]] const ProblemRun& forward() const { return forward_; }
  [[nodiscard]] BackwardTensors tensors() const;
  [[nodiscard]] const TensorBuffer& tensor(BufferRange BackwardTensors::*which) const {
    return tensors_[which];
  }

  /// The type that the elements of a tensor are stored as.
  [[nodiscard]] DataType type(BufferRange BackwardTensors::*which) const {
    return detail::row_of(which).storage(desc_).type;
  }

  /// Poisons the gradients and executes the plan once (Runnable::execute). Returns the nanoseconds of the
  /// execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares gradients with the reference, and checks the guard bands. If `selection` limits the rows and
  /// there are more, it compares about that many rows of each of Q, K and V, and no gradient that is summed
  /// over all rows.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {}) const;
  /// The bytes of all gradients and of their guard bands.
  [[nodiscard]] Result<std::vector<std::vector<std::byte>>> bytes() const;

 private:
  BackwardRun(const Runtime& runtime, ProblemRun forward, BackwardDesc desc)
      : runtime_(&runtime), forward_(std::move(forward)), desc_(std::move(desc)) {}
  [[nodiscard]] Result<void> fill_inputs();
  [[nodiscard]] Result<void> fill_input(const detail::GradientRow& row, const WrittenRows& written,
                                        std::uint64_t stream);
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
  double least_largest_weight_ = 0;            ///< detail::least_largest_weight() of the plan executed last
};

}  // namespace vkattn::harness

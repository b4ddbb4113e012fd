// A matrix multiplication on a device, as ProblemRun is for attention: random inputs between NaN, poisoned
// outputs, guard bands, execution, and the comparison with the float64 reference.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/problem_run.hpp"
#include "matmul/matmul_tensors.hpp"

namespace vkattn::harness {

/// A multiplication with random data.
struct MatmulProblem {
  MatmulDesc desc;
  std::uint64_t seed = 1;
  std::int64_t shift = 0;  ///< elements between an aligned place and the first element of each tensor
};

/// The buffers of one problem.
class MatmulRun {
 public:
  /// Allocates and fills the inputs, and poisons the output. An output that is added to begins with random
  /// numbers.
  [[nodiscard]] static Result<MatmulRun> create(const Runtime& runtime, const MatmulProblem& problem);

  /// Fills the output again with its first contents.
  [[nodiscard]] Result<void> poison_output();
  /// Executes the plan once (Runnable::execute). Returns the nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares rows that are spread over all products. It checks the guard bands and looks for unwritten
  /// elements in all rows.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {}) const;

  /// The resolved descriptor.
  [[nodiscard]] const MatmulDesc& desc() const { return problem_.desc; }
  [[nodiscard]] MatmulTensors tensors() const { return ranges_of(buffers_); }
  /// The bytes of the output's whole buffer.
  [[nodiscard]] Result<std::vector<std::byte>> output_bytes() const;
  /// The buffer of a tensor, and the tensor's place in it.
  [[nodiscard]] const TensorBuffer& buffer(BufferRange MatmulTensors::*tensor) const {
    return buffers_[tensor];
  }

 private:
  MatmulRun(const Runtime& runtime, MatmulProblem problem)
      : runtime_(&runtime), problem_(std::move(problem)) {}
  [[nodiscard]] Result<void> fill(const detail::MatmulTensorRow& row);

  const Runtime* runtime_;
  MatmulProblem problem_;
  detail::PerTensor<TensorBuffer, MatmulTensors> buffers_;
  std::vector<std::byte> before_;  ///< the first contents of an output that is added to
};

}  // namespace vkattn::harness

// A matrix multiplication brought to life on a device, as ProblemRun does it for attention: random inputs
// between NaN, poisoned outputs, guard bands, execution, and the comparison with the float64 reference.
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

/// What to multiply, with random data.
struct MatmulProblem {
  MatmulDesc desc;
  std::uint64_t seed = 1;
  std::int64_t shift = 0;  ///< elements between an aligned place and the first element of each tensor
};

/// Buffers of one problem.
class MatmulRun {
 public:
  /// Allocates and fills inputs, poisons the output; what accumulates begins with random numbers.
  [[nodiscard]] static Result<MatmulRun> create(const Runtime& runtime, const MatmulProblem& problem);

  /// Fills the output once more with what it had at first.
  [[nodiscard]] Result<void> poison_output();
  /// Makes bindings, executes the plan once and waits; nanoseconds of the execution.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Compares rows of all products, spread over them; guard bands and elements that were not written are
  /// those of all.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection = {}) const;

  /// The resolved descriptor.
  [[nodiscard]] const MatmulDesc& desc() const { return problem_.desc; }
  [[nodiscard]] MatmulTensors tensors() const { return ranges_of(buffers_); }
  /// The bytes of the output's whole buffer.
  [[nodiscard]] Result<std::vector<std::byte>> output_bytes() const;
  /// What lies in the buffer of a tensor.
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
  std::vector<std::byte> before_;  ///< of the output, where it accumulates
};

}  // namespace vkattn::harness

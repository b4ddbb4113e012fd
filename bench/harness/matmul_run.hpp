// A matrix multiplication brought to life on a device, as ProblemRun does it for attention: random inputs
// between NaN, poisoned outputs, guard bands, execution, and the comparison with the float64 reference.
#pragma once

#include <vkattn/matmul.hpp>
#include <vkattn/runtime.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/tensor_buffer.hpp"

namespace vkattn::harness {

/// What to multiply, with random data.
struct MatmulProblem {
  MatmulDesc desc;
  std::uint64_t seed = 1;
  std::int64_t shift = 0;  ///< elements between an aligned place and the first element of each tensor
};

/// The outcome of a comparison with the reference.
struct MatmulCheck {
  std::int64_t elements = 0;                    ///< compared
  std::int64_t elements_telling = 0;            ///< of those, where a zero would have failed
  std::int64_t unwritten = 0;                   ///< of all elements: what still holds the poison
  double largest_share = 0;                     ///< of the tolerance; NaN against a number is infinity
  std::int64_t batch = 0, row = 0, column = 0;  ///< of that element
  double expected = 0, got = 0;                 ///< there
  std::string guard_message;                    ///< where bytes outside of the output were written
  [[nodiscard]] bool passed() const {
    return largest_share <= 1.0 && unwritten == 0 && guard_message.empty();
  }
  /// One line.
  [[nodiscard]] std::string to_string() const;
};

/// Buffers of one problem.
class MatmulRun {
 public:
  /// Allocates and fills inputs, poisons the output; what accumulates begins with random numbers.
  [[nodiscard]] static Result<MatmulRun> create(const Runtime& runtime, const MatmulProblem& problem);

  /// Fills the output once more with what it had at first.
  [[nodiscard]] Result<void> poison_output();
  /// Makes bindings, executes the plan once and waits.
  [[nodiscard]] Result<void> execute(const MatmulPlan& plan);
  /// Compares up to so many rows of all products, spread over them; guard bands and elements that were not
  /// written are those of all.
  [[nodiscard]] Result<MatmulCheck> check(std::int64_t max_rows) const;

  /// The resolved descriptor.
  [[nodiscard]] const MatmulDesc& desc() const { return problem_.desc; }
  [[nodiscard]] MatmulTensors tensors() const;
  /// The bytes of the output's whole buffer.
  [[nodiscard]] Result<std::vector<std::byte>> output_bytes() const;
  /// What lies in the buffer of a tensor.
  [[nodiscard]] const TensorBuffer& buffer(BufferRange MatmulTensors::*tensor) const;

 private:
  MatmulRun(const Runtime& runtime, MatmulProblem problem)
      : runtime_(&runtime), problem_(std::move(problem)) {}
  [[nodiscard]] Result<void> fill(std::size_t tensor);

  const Runtime* runtime_;
  MatmulProblem problem_;
  std::array<TensorBuffer, 4> buffers_;  ///< a, b, bias, output
  std::vector<std::byte> before_;        ///< of the output, where it accumulates
};

}  // namespace vkattn::harness

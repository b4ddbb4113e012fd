// A problem of any kind on a device.
#pragma once

#include <cstdint>
#include <variant>

#include "harness/backward_run.hpp"
#include "harness/matmul_run.hpp"

namespace vkattn::harness {

class AnyRun {
 public:
  /// Writes the inputs and poisons the outputs. For a backward pass it also runs the forward pass, with the
  /// kernel that the library chooses.
  [[nodiscard]] static Result<AnyRun> create(const Runtime& runtime, const Problem& problem);

  /// Executes a plan of the problem once and waits. Returns nanoseconds.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// Checks as the run of the problem's kind does.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection, const Progress& progress) const;
  [[nodiscard]] AnyTensors tensors() const;
  /// The stored bytes of inputs and outputs, without the small inputs.
  [[nodiscard]] std::uint64_t tensor_bytes() const;
  /// The forward pass: of the problem itself, or the one before its backward pass. A matrix multiplication
  /// has none.
  [[nodiscard]] ProblemRun& forward();

 private:
  explicit AnyRun(ProblemRun run) : run_(std::move(run)) {}
  explicit AnyRun(BackwardRun run) : run_(std::move(run)) {}
  explicit AnyRun(MatmulRun run) : run_(std::move(run)) {}

  std::variant<ProblemRun, BackwardRun, MatmulRun> run_;
};

}  // namespace vkattn::harness

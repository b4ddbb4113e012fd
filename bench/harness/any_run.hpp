// A problem brought to life on a device, whatever it asks for.
#pragma once

#include <cstdint>
#include <variant>

#include "harness/backward_run.hpp"
#include "harness/matmul_run.hpp"

namespace vkattn::harness {

class AnyRun {
 public:
  /// With inputs that are written and outputs that are poisoned. Of a backward pass the forward pass has run,
  /// by the kernel that the library chooses.
  [[nodiscard]] static Result<AnyRun> create(const Runtime& runtime, const Problem& problem);

  /// Executes a plan of the problem once and waits; nanoseconds.
  [[nodiscard]] Result<double> execute(const Runnable& plan);
  /// As the run of its kind does it.
  [[nodiscard]] Result<CheckReport> check(const RowSelection& selection, const Progress& progress) const;
  [[nodiscard]] AnyTensors tensors() const;
  /// Of inputs and outputs as they are stored, but for small ones.
  [[nodiscard]] std::uint64_t tensor_bytes() const;
  /// The forward pass, of the problem itself or before its backward pass; a matrix multiplication has none.
  [[nodiscard]] ProblemRun& forward();

 private:
  explicit AnyRun(ProblemRun run) : run_(std::move(run)) {}
  explicit AnyRun(BackwardRun run) : run_(std::move(run)) {}
  explicit AnyRun(MatmulRun run) : run_(std::move(run)) {}

  std::variant<ProblemRun, BackwardRun, MatmulRun> run_;
};

}  // namespace vkattn::harness

// Runs of problems of any kind: see any_run.hpp.
#include "harness/any_run.hpp"

#include <utility>

namespace vkattn::harness {

namespace {

std::uint64_t bytes_of(const ProblemRun& run) {
  std::uint64_t bytes = 0;
  for (const auto* const tensor : {&run.query(), &run.key(), &run.value(), &run.output(), &run.lse()}) {
    bytes += tensor->bytes;
  }
  return bytes;
}

std::uint64_t bytes_of(const BackwardRun& run) {
  std::uint64_t bytes = bytes_of(run.forward());
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>())
    bytes += run.tensor(row.range).bytes;
  return bytes;
}

std::uint64_t bytes_of(const MatmulRun& run) {
  std::uint64_t bytes = 0;
  for (const auto& row : detail::tensor_table<MatmulTensors>()) bytes += run.buffer(row.range).bytes;
  return bytes;
}

}  // namespace

Result<AnyRun> AnyRun::create(const Runtime& runtime, const Problem& problem) {
  if (problem.operation == bench::Operation::kBackward) {
    auto run = BackwardRun::create(runtime, problem, with_all_gradients(problem.desc), {});
    if (!run.ok()) return run.error();
    return AnyRun(*std::move(run));
  }
  if (problem.operation == bench::Operation::kMatmul) {
    auto run = MatmulRun::create(runtime, {problem.matmul, problem.seed, problem.shift});
    if (!run.ok()) return run.error();
    return AnyRun(*std::move(run));
  }
  auto run = ProblemRun::create(runtime, problem);
  if (!run.ok()) return run.error();
  if (const Result<void> s = run->fill_inputs(); !s.ok()) return s.error();
  if (const Result<void> s = run->poison_outputs(); !s.ok()) return s.error();
  return AnyRun(*std::move(run));
}

Result<double> AnyRun::execute(const Runnable& plan) {
  return std::visit([&](auto& run) { return run.execute(plan); }, run_);
}

Result<CheckReport> AnyRun::check(const RowSelection& selection, const Progress& progress) const {
  if (const auto* const run = std::get_if<BackwardRun>(&run_)) return run->check(selection);
  if (const auto* const run = std::get_if<MatmulRun>(&run_)) return run->check(selection);
  return std::get_if<ProblemRun>(&run_)->check(selection, progress);
}

AnyTensors AnyRun::tensors() const {
  return std::visit([](const auto& run) -> AnyTensors { return run.tensors(); }, run_);
}

std::uint64_t AnyRun::tensor_bytes() const {
  return std::visit([](const auto& run) { return bytes_of(run); }, run_);
}

ProblemRun& AnyRun::forward() {
  if (auto* const run = std::get_if<BackwardRun>(&run_)) return run->forward();
  return *std::get_if<ProblemRun>(&run_);
}

}  // namespace vkattn::harness

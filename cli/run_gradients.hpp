// The gradients of `vkattn run`: the backward pass after the forward one.
#pragma once

#include <vkattn/backward.hpp>

#include <string>

#include "harness/backward_run.hpp"
#include "run_inputs.hpp"
#include "run_outputs.hpp"
#include "run_transfer.hpp"

namespace vkattn::cli {

/// That the mask, keys and values have the gradients that are asked for; throws CommandError.
void require_inputs_with_gradients(const OutputPaths& paths, const RunInputs& inputs);

/// The backward pass of a run's problem, which keeps its lse; gradients are stored as the tensors are, in C
/// order.
[[nodiscard]] BackwardDesc gradient_desc(const OutputPaths& paths, const Problem& problem);

/// The kernel of gradients: that of --backward-kernel, else of --kernel, else empty. One that gradients do
/// not have is refused.
[[nodiscard]] std::string backward_kernel(const std::string& kernel, const std::string& backward_kernel);

/// What a backward pass found out.
struct GradientOutcome {
  std::string kernel;
  double execute_ns = 0;
  bool is_checked = false;
  double largest_share = 0;  ///< of a gradient's tolerance
  std::string wrong;         ///< of what is checked, where something is
};

/// Runs it after the forward pass, whose tensors it takes over, and writes the gradients' files, not yet in
/// their places. `check`: every gradient is compared with the reference.
[[nodiscard]] GradientOutcome run_gradients(const Transfer& transfer, const BackwardDesc& desc,
                                            const PlanOptions& options, InputFile& grad_output,
                                            RunOutputs& outputs, bool check);

}  // namespace vkattn::cli

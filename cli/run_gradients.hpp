// Gradients in `vkattn run`: the backward pass after the forward pass.
#pragma once

#include <vkattn/backward.hpp>

#include <string>

#include "execution.hpp"
#include "harness/backward_run.hpp"
#include "run_inputs.hpp"
#include "run_outputs.hpp"
#include "run_transfer.hpp"

namespace vkattn::cli {

/// Checks that the mask, keys and values have the gradients that are asked for. Throws CommandError.
void require_inputs_with_gradients(const OutputPaths& paths, const RunInputs& inputs);

/// The backward pass of a run's problem. The problem must keep its lse. Gradients have the types of their
/// tensors and lie in C order.
[[nodiscard]] BackwardDesc gradient_desc(const OutputPaths& paths, const RunInputs& inputs);

/// The kernel for gradients: that of --backward-kernel, else that of --kernel, else empty. Refuses a kernel
/// that gradients do not have.
[[nodiscard]] std::string backward_kernel(const std::string& kernel, const std::string& backward_kernel);

/// The results of a backward pass for its report.
struct GradientOutcome {
  std::string kernel;
  Execution execution;
  bool is_checked = false;
  double largest_share = 0;  ///< share of a gradient's tolerance
  std::string wrong;         ///< the checked quantities that are wrong; empty if all are right
};

/// Runs after the forward pass and takes over its tensors. It writes the gradients' files but does not yet
/// rename them. With `check` every gradient is compared with the reference.
[[nodiscard]] GradientOutcome run_gradients(const Transfer& transfer, const BackwardDesc& desc,
                                            const PlanOptions& options, RunInputs& inputs,
                                            RunOutputs& outputs, bool check);

}  // namespace vkattn::cli

// The gradients of `vkattn run`: its files, and the backward pass after the forward one.
#pragma once

#include <vkattn/backward.hpp>

#include <string>

#include "command.hpp"
#include "console.hpp"
#include "file_names.hpp"
#include "harness/backward_run.hpp"
#include "run_inputs.hpp"
#include "run_transfer.hpp"

namespace vkattn::cli {

/// The options as typed: a file to read and those to write.
struct GradientArguments {
  std::string grad_output;
  std::string grad_query, grad_key, grad_value, grad_mask, grad_alibi_slopes, grad_sink;

  [[nodiscard]] bool any() const;  ///< that a gradient is to be written
};

/// What is to be given for them, beside the files of the forward pass.
struct GradientContext {
  bool has_mask = false, has_alibi_slopes = false, has_sinks = false;
};

void add_gradient_options(CLI::App& app, GradientArguments& arguments);
void add_gradient_files(FileNames& files, const GradientArguments& arguments);
/// Throws CommandError where an option lacks another.
void require_sense_of_gradients(const GradientArguments& arguments, const GradientContext& context);

/// That the mask has the gradient that is asked for; throws CommandError.
void require_mask_with_gradient(const GradientArguments& arguments, const RunInputs& inputs);

/// The backward pass of a run's problem, which keeps its lse; gradients are stored as the tensors are, in C
/// order.
[[nodiscard]] BackwardDesc gradient_desc(const GradientArguments& arguments, const Problem& problem);

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
                                            InputFile& grad_output, RunOutputs& outputs, bool check);

}  // namespace vkattn::cli

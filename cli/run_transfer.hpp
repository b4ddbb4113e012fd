// Moves data between .npy files and the device's memory in pieces, so that the host never holds a second
// copy.
#pragma once

#include <vkattn/runtime.hpp>

#include <string>
#include <vector>

#include "console.hpp"
#include "harness/problem_run.hpp"
#include "run_inputs.hpp"
#include "run_outputs.hpp"

namespace vkattn::cli {

/// The run whose data move, and the messages about them.
struct Transfer {
  const Runtime& runtime;
  harness::ProblemRun& run;
  console::ProgressBar& bar;
  std::vector<std::string>& warnings;
  bool is_float16_arithmetic = false;
};

/// Writes every input to the device, and the joined keys and values to their files.
void upload(const Transfer& transfer, RunInputs& inputs, RunOutputs& outputs);

/// Writes the results to their files. A row that was not computed is 0, but -inf in the lse and the scores.
void download(const Transfer& transfer, RunOutputs& outputs);

/// The same for a backward pass.
/// @{
void upload_gradient(const Transfer& transfer, InputFile& file, DataType type,
                     const harness::TensorBuffer& tensor);
void download_gradient(const Transfer& transfer, const harness::TensorBuffer& tensor, DataType type,
                       OutputFile& output);
/// @}

}  // namespace vkattn::cli

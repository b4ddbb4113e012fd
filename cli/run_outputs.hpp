// The files that `vkattn run` writes: one table with a row for each file.
#pragma once

#include <vkattn/backward.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "atomic_file.hpp"
#include "command.hpp"
#include "file_names.hpp"
#include "json.hpp"
#include "npy.hpp"
#include "run_inputs.hpp"

namespace vkattn::cli {

/// The options as typed. A path is empty if its option is not given.
struct OutputPaths {
  std::string output, lse, weights, present_key, present_value;
  std::string grad_query, grad_key, grad_value, grad_mask, grad_alibi_slopes, grad_sinks;
};

/// A file that a run writes.
struct OutputFile {
  AtomicFile file;
  npy::ElementType type = npy::ElementType::kFloat32;
  std::vector<std::int64_t> shape;
};

/// The output in text, such as "O.npy  float32 (7, 12)", and in JSON.
/// @{
[[nodiscard]] std::string output_text(const OutputFile& output);
[[nodiscard]] Json output_json(const OutputFile& output);
/// @}

struct RunOutputs {
  std::optional<OutputFile> output, lse, weights, present_key, present_value;
  std::optional<OutputFile> grad_query, grad_key, grad_value, grad_mask, grad_alibi_slopes, grad_sinks;
};

/// The input that an output is the gradient of.
struct GradientOutput {
  BufferRange BackwardTensors::*tensor = nullptr;  ///< null if the output is no gradient
  bool BackwardDesc::*wanted = nullptr;
  const char* of = nullptr;  ///< the option that gives the input; null if the input is required anyway
};

struct OutputRow {
  FileOption<OutputPaths> option;
  std::optional<OutputFile> RunOutputs::*file;
  const char* name;   ///< in JSON
  const char* label;  ///< in text
  npy::ElementType (*type)(const RunInputs& inputs);
  std::vector<std::int64_t> (*shape)(const RunInputs& inputs);
  GradientOutput gradient = {};

  [[nodiscard]] bool is_gradient() const { return gradient.tensor != nullptr; }
  [[nodiscard]] bool is_given(const OutputPaths& paths) const { return !(paths.*option.path).empty(); }
};

/// The results of the forward pass, and then its gradients.
[[nodiscard]] std::span<const OutputRow> output_rows();

/// Whether any file is written.
[[nodiscard]] bool writes_any(const OutputPaths& paths);
/// Whether any gradient is written.
[[nodiscard]] bool asks_for_gradients(const OutputPaths& paths);

void add_output_options(CLI::App& app, OutputPaths& paths, bool of_gradients);
void add_output_files(FileNames& files, const OutputPaths& paths);

/// Opens the files that were asked for.
[[nodiscard]] RunOutputs open_outputs(const OutputPaths& paths, const RunInputs& inputs);
/// Renames all files to their final names.
void commit(RunOutputs& outputs);

}  // namespace vkattn::cli

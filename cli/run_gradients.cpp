// Gradients on files: see run_gradients.hpp.
#include "run_gradients.hpp"

#include <span>
#include <utility>

#include "error.hpp"

namespace vkattn::cli {
namespace {

constexpr FileOption<GradientArguments> kGradientInputs[] = {
    {"--grad-output", &GradientArguments::grad_output, "G.npy",
     "The gradient of a loss with respect to the output, of O.npy's shape: what the gradients of the inputs "
     "are made of"}};

constexpr FileOption<GradientArguments> kGradientOutputs[] = {
    {"--grad-query", &GradientArguments::grad_query, "G.npy",
     "Write the gradient of the queries, of their shape", true},
    {"--grad-key", &GradientArguments::grad_key, "G.npy", "Write the gradient of the keys", true},
    {"--grad-value", &GradientArguments::grad_value, "G.npy", "Write the gradient of the values", true},
    {"--grad-mask", &GradientArguments::grad_mask, "G.npy",
     "Write the gradient of --mask, an additive one, of its shape", true},
    {"--grad-alibi-slopes", &GradientArguments::grad_alibi_slopes, "G.npy",
     "Write the gradient of --alibi-slopes, float32 (heads,)", true},
    {"--grad-sink", &GradientArguments::grad_sink, "G.npy", "Write the gradient of --sink, float32 (heads,)",
     true}};

/// As the file has it: rows without padding.
TensorDesc in_c_order(AttentionDesc desc, TensorDesc AttentionDesc::*tensor) {
  (desc.*tensor).strides.reset();
  return desc.resolved().*tensor;
}

/// Of the mask's shape, which has a size of 1 along the dimensions that it repeats along: there gradients are
/// summed.
TensorDesc mask_in_c_order(const Problem& problem) {
  const TensorExtents scores = score_extents(problem.desc);
  const bench::MaskDims& dims = problem.mask_dims;
  TensorDesc gradient;
  gradient.type = problem.desc.mask.type == MaskType::kFloat16 ? DataType::kFloat16 : DataType::kFloat32;
  Strides strides{0, 0, 0, 0};
  std::int64_t reach = 1;
  const auto take_axis = [&](bool is_there, std::int64_t extent, std::int64_t& stride) {
    if (!is_there) return;
    stride = reach;
    reach *= extent;
  };
  take_axis(dims.key, scores.dims, strides.dim);
  take_axis(dims.query, scores.rows, strides.row);
  take_axis(dims.head, scores.heads, strides.head);
  take_axis(dims.batch, scores.batch, strides.batch);
  gradient.strides = strides;
  return gradient;
}

}  // namespace

bool GradientArguments::any() const {
  for (const FileOption<GradientArguments>& option : kGradientOutputs) {
    if (!(this->*option.path).empty()) return true;
  }
  return false;
}

void add_gradient_options(CLI::App& app, GradientArguments& a) {
  add_file_options(app, kGradientInputs, a);
  add_file_options(app, kGradientOutputs, a);
}

void add_gradient_files(FileNames& files, const GradientArguments& a) {
  files.add(kGradientInputs, a);
  files.add(kGradientOutputs, a);
}

void require_sense_of_gradients(const GradientArguments& a, const GradientContext& context) {
  for (const FileOption<GradientArguments>& option : kGradientOutputs) {
    if ((a.*option.path).empty() || !a.grad_output.empty()) continue;
    fail_usage(std::string(option.name) +
               " is made of the gradient of the output; give --grad-output with it");
  }
  if (!a.grad_output.empty() && !a.any()) {
    fail_usage(
        "--grad-output is what gradients are made of; say which to write: --grad-query, --grad-key, "
        "--grad-value, --grad-mask, --grad-alibi-slopes or --grad-sink");
  }
  if (!a.grad_mask.empty() && !context.has_mask)
    fail_usage("--grad-mask is the gradient of --mask; give both");
  if (!a.grad_alibi_slopes.empty() && !context.has_alibi_slopes)
    fail_usage("--grad-alibi-slopes is the gradient of --alibi-slopes; give both");
  if (!a.grad_sink.empty() && !context.has_sinks)
    fail_usage("--grad-sink is the gradient of --sink; give both");
}

void require_mask_with_gradient(const GradientArguments& arguments, const RunInputs& inputs) {
  if (arguments.grad_mask.empty()) return;
  const npy::Reader& mask = inputs.mask->reader;
  const std::string text = "mask " + mask.path().string() + " " + npy::shape_text(mask.header().shape);
  if (inputs.problem.desc.mask.type == MaskType::kBytes) {
    fail_usage(text + " is boolean, so there is no gradient for --grad-mask; an additive one has floats");
  }
  if (inputs.mask->missing != 0) {
    fail_usage(text + " has fewer keys than the " + std::to_string(inputs.problem.desc.kv_length) +
               " that there are, which --grad-mask needs all; pad it with -inf");
  }
}

BackwardDesc gradient_desc(const GradientArguments& arguments, const Problem& problem) {
  BackwardDesc desc;
  desc.attention = problem.desc;
  desc.attention.has_lse = true;
  desc.has_grad_query = !arguments.grad_query.empty();
  desc.has_grad_key = !arguments.grad_key.empty();
  desc.has_grad_value = !arguments.grad_value.empty();
  desc.has_grad_mask = !arguments.grad_mask.empty();
  if (desc.has_grad_mask) desc.grad_mask = mask_in_c_order(problem);
  desc.has_grad_alibi_slopes = !arguments.grad_alibi_slopes.empty();
  desc.has_grad_sinks = !arguments.grad_sink.empty();
  desc.grad_query = in_c_order(problem.desc, &AttentionDesc::query);
  desc.grad_key = in_c_order(problem.desc, &AttentionDesc::key);
  desc.grad_value = in_c_order(problem.desc, &AttentionDesc::value);
  return desc;
}

GradientOutcome run_gradients(const Transfer& transfer, const BackwardDesc& desc, InputFile& grad_output,
                              RunOutputs& outputs, bool check) {
  const BackwardPlan plan = take(transfer.runtime.make_backward_plan(desc));
  harness::BackwardRun run =
      take(harness::BackwardRun::after(transfer.runtime, std::move(transfer.run), desc));
  upload_gradient(transfer, grad_output, run.desc().grad_output->type,
                  run.tensor(&BackwardTensors::grad_output));
  transfer.bar.update(0, "computing gradients");
  GradientOutcome outcome{std::string(plan.kernel_name()), take(run.execute(plan)), check};
  const std::pair<std::optional<OutputFile>*, BufferRange BackwardTensors::*> written[] = {
      {&outputs.grad_query, &BackwardTensors::grad_query},
      {&outputs.grad_key, &BackwardTensors::grad_key},
      {&outputs.grad_value, &BackwardTensors::grad_value},
      {&outputs.grad_mask, &BackwardTensors::grad_mask},
      {&outputs.grad_alibi_slopes, &BackwardTensors::grad_alibi_slopes},
      {&outputs.grad_sink, &BackwardTensors::grad_sinks}};
  for (const auto& [file, tensor] : written) {
    if (file->has_value()) download_gradient(transfer, run.tensor(tensor), run.type(tensor), **file);
  }
  if (check) {
    transfer.bar.update(0, "checking gradients");
    const harness::CheckReport report = take(run.check());
    outcome.largest_share = report.largest_share;
    if (!report.passed()) outcome.wrong = report.to_string();
  }
  return outcome;
}

}  // namespace vkattn::cli

// Gradients on files: see run_gradients.hpp.
#include "run_gradients.hpp"

#include <optional>
#include <tuple>
#include <utility>

#include "console.hpp"
#include "error.hpp"
#include "work.hpp"

namespace vkattn::cli {
namespace {

/// The tensor as its file has it: rows without padding.
TensorDesc in_c_order(AttentionDesc desc, TensorDesc AttentionDesc::*tensor) {
  (desc.*tensor).strides.reset();
  return desc.resolved().*tensor;
}

/// The gradient of a mask has the mask's shape. Its size is 1 along the dimensions that the mask repeats
/// along, because gradients are summed there.
TensorDesc mask_in_c_order(const Problem& problem) {
  const TensorExtents mask = mask_extents(problem.desc);
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
  take_axis(dims.key, mask.dims, strides.dim);
  take_axis(dims.query, mask.rows, strides.row);
  take_axis(dims.head, mask.heads, strides.head);
  take_axis(dims.batch, mask.batch, strides.batch);
  gradient.strides = strides;
  return gradient;
}

}  // namespace

namespace {

void require_mask_with_gradient(const OutputPaths& paths, const RunInputs& inputs) {
  if (paths.grad_mask.empty()) return;
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

}  // namespace

void require_inputs_with_gradients(const OutputPaths& paths, const RunInputs& inputs) {
  require_mask_with_gradient(paths, inputs);
  const AttentionDesc& desc = inputs.problem.desc;
  for (const auto& [option, path, input] : {std::tuple("--grad-key", &paths.grad_key, &inputs.key),
                                            std::tuple("--grad-value", &paths.grad_value, &inputs.value)}) {
    if (path->empty() || !repeats(*input, desc)) continue;
    fail_usage(std::string(option) + " is a gradient for each batch entry, but " + input->text() +
               " is one entry for " + std::to_string(desc.batch) + "; give it all of them (numpy.repeat)");
  }
}

BackwardDesc gradient_desc(const OutputPaths& paths, const RunInputs& inputs) {
  const Problem& problem = inputs.problem;
  BackwardDesc desc;
  desc.attention = problem.desc;
  desc.attention.has_lse = true;
  desc.has_grad_lse = inputs.grad_lse.has_value();
  for (const OutputRow& row : output_rows()) {
    if (row.is_gradient()) desc.*row.gradient.wanted = row.is_given(paths);
  }
  if (desc.has_grad_mask) desc.grad_mask = mask_in_c_order(problem);
  desc.grad_query = in_c_order(problem.desc, &AttentionDesc::query);
  desc.grad_key = in_c_order(problem.desc, &AttentionDesc::key);
  desc.grad_value = in_c_order(problem.desc, &AttentionDesc::value);
  return desc;
}

std::string backward_kernel(const std::string& kernel, const std::string& backward_kernel) {
  const bool is_own = !backward_kernel.empty();
  const std::string& wanted = is_own ? backward_kernel : kernel;
  std::string names;
  for (const KernelSupport& support : kernel_support(BackwardDesc{}, Capabilities{})) {
    if (support.kernel == wanted) return wanted;
    names += (names.empty() ? "" : ", ") + std::string(support.kernel);
  }
  if (wanted.empty()) return wanted;
  fail_usage((is_own ? "--backward-kernel '" : "--kernel '") + console::printable(wanted) +
             "' is no kernel of gradients; " + (is_own ? "" : "name theirs with --backward-kernel: ") +
             (is_own ? "theirs are " : "") + names);
}

GradientOutcome run_gradients(const Transfer& transfer, const BackwardDesc& desc, const PlanOptions& options,
                              RunInputs& inputs, RunOutputs& outputs, bool check) {
  const BackwardPlan plan = take(transfer.runtime.make_plan(desc, options));
  constexpr double kProducts = 2.5;  // a backward pass has five products, a forward pass two
  const double flops = kProducts * bench::count_work(transfer.run.problem()).flops;
  harness::BackwardRun run =
      take(harness::BackwardRun::after(transfer.runtime, std::move(transfer.run), desc));
  for (const auto& [file, tensor] : {std::pair(&inputs.grad_output, &BackwardTensors::grad_output),
                                     std::pair(&inputs.grad_lse, &BackwardTensors::grad_lse)}) {
    if (*file) upload_gradient(transfer, **file, run.type(tensor), run.tensor(tensor));
  }
  transfer.bar.update(0, "computing gradients");
  GradientOutcome outcome{std::string(plan.kernel_name()), execute_timed(run, plan, flops), check};
  for (const OutputRow& row : output_rows()) {
    std::optional<OutputFile>& file = outputs.*row.file;
    if (!row.is_gradient() || !file) continue;
    download_gradient(transfer, run.tensor(row.gradient.tensor), run.type(row.gradient.tensor), *file);
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

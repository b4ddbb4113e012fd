// A backward pass on a device: see backward_run.hpp.
#include "harness/backward_run.hpp"

#include <algorithm>
#include <span>

#include "harness/guard.hpp"
#include "harness/host_view.hpp"
#include "harness/runnable.hpp"
#include "harness/share.hpp"
#include "harness/tensor_memory.hpp"
#include "reference/positions.hpp"

namespace vkattn::harness {

namespace {

constexpr std::uint64_t kGradOutputStream = 40;

TensorShape shape_of_row(const detail::GradientRow& row, const BackwardDesc& desc) {
  return shape_of(row.storage(desc), row.extents(desc));
}

/// Rows of packed keys that belong to a sequence; of others all.
std::vector<bool> written_keys(const AttentionDesc& desc, const reference::Inputs& inputs) {
  const TensorExtents extents = key_extents(desc, 1);
  std::vector<bool> written(static_cast<std::size_t>(extents.batch * extents.rows), !desc.has_packed_keys());
  if (!desc.has_packed_keys()) return written;
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    for (std::int64_t j = 0; j < reference::key_length(desc, inputs, b); ++j) {
      written[static_cast<std::size_t>(reference::stored_key(desc, inputs, b, j).row)] = true;
    }
  }
  return written;
}

std::string text_of(const Position& p) {
  return "(" + std::to_string(p.batch) + ", " + std::to_string(p.head) + ", " + std::to_string(p.row) + ", " +
         std::to_string(p.dim) + ")";
}

}  // namespace

BackwardDesc with_all_gradients(const AttentionDesc& desc) {
  BackwardDesc all;
  all.attention = desc;
  all.attention.has_lse = true;
  all.has_grad_mask = desc.mask.type == MaskType::kFloat32 || desc.mask.type == MaskType::kFloat16;
  all.has_grad_alibi_slopes = desc.alibi == Alibi::kGiven;
  all.has_grad_sinks = desc.has_sinks;
  return all;
}

Result<BackwardRun> BackwardRun::create(const Runtime& runtime, const Problem& given,
                                        const BackwardDesc& desc) {
  Problem problem = given;
  problem.desc.has_lse = true;
  auto forward = ProblemRun::create(runtime, problem);
  if (!forward.ok()) return forward.error();
  if (Result<void> s = forward->fill_inputs(); !s.ok()) return s.error();
  if (Result<void> s = forward->poison_outputs(); !s.ok()) return s.error();
  PlanOptions options;
  options.kernel = "lane";
  const auto plan = Runnable::create(runtime, problem.desc, options);
  if (!plan.ok()) return plan.error();
  if (const auto done = forward->execute(*plan); !done.ok()) return done.error();
  auto run = after(runtime, *std::move(forward), desc);
  if (!run.ok()) return run.error();
  if (Result<void> s = run->fill_grad_output(); !s.ok()) return s.error();
  return run;
}

Result<BackwardRun> BackwardRun::after(const Runtime& runtime, ProblemRun forward, const BackwardDesc& desc) {
  BackwardRun run(runtime, std::move(forward), desc.resolved());
  const std::int64_t shift = run.forward_.problem().shift;
  for (const detail::GradientRow& row : detail::gradient_table()) {
    if (!row.is_used(run.desc_)) continue;
    const auto index = static_cast<std::size_t>(&row - detail::gradient_table().data());
    if (Result<void> s = place(runtime, shape_of_row(row, run.desc_), shift, run.tensors_[index]); !s.ok()) {
      return s.error();
    }
  }
  return run;
}

/// Of rows that the forward pass has written; all others are poisoned.
Result<void> BackwardRun::fill_grad_output() {
  const detail::GradientRow& row = detail::gradient_table()[0];
  const TensorShape shape = shape_of_row(row, desc_);
  const DataType type = shape.desc.type;
  Result<void> filled;
  const Result<void> visited = forward_.visit_inputs([&](const reference::Inputs& inputs) {
    const WrittenRows written(desc_.attention, inputs);
    NormalNumbers normal(stream_of(forward_.problem().seed, kGradOutputStream));
    const auto fill = [&](const PutElement& put) {
      std::uint64_t number = 0;
      AddressOrder(shape).for_each([&](std::int64_t offset, const Position& position) {
        const std::uint32_t bits = stored_bits(static_cast<float>(normal.at(number++)), type);
        if (!written.stored(position)) return;
        const std::int64_t size = element_bytes(type);
        put(offset * size, std::as_bytes(std::span(&bits, 1)).first(static_cast<std::size_t>(size)));
      });
    };
    filled = fill_with(*runtime_, tensors_[0], input_filler(type), fill);
  });
  return visited.ok() ? filled : visited;
}

BackwardTensors BackwardRun::tensors() const {
  BackwardTensors tensors;
  tensors.forward = forward_.tensors();
  const auto table = detail::gradient_table();
  for (std::size_t i = 0; i < table.size(); ++i) tensors.*table[i].range = range_of(tensors_[i]);
  return tensors;
}

Result<double> BackwardRun::execute(const BackwardPlan& plan) {
  const auto table = detail::gradient_table();
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (!table[i].use.written || !table[i].is_used(desc_)) continue;
    const Pattern poison = output_poison(table[i].storage(desc_).type);
    if (Result<void> s = fill_pattern(*runtime_, tensors_[i], poison); !s.ok()) return s.error();
  }
  const auto workspace = runtime_->create_workspace(plan);
  if (!workspace.ok()) return workspace.error();
  const std::vector<std::byte> poison(static_cast<std::size_t>(plan.workspace_bytes()), std::byte{0xff});
  if (Result<void> s = runtime_->write(*workspace, 0, poison); !s.ok()) return s.error();
  const auto bindings = plan.make_bindings(tensors(), workspace->range());
  if (!bindings.ok()) return bindings.error();
  const auto done = runtime_->execute([&](VkCommandBuffer commands) { plan.record(commands, *bindings); });
  if (!done.ok()) return done.error();
  return done->front();
}

Result<std::vector<std::vector<std::byte>>> BackwardRun::bytes() const {
  std::vector<std::vector<std::byte>> all;
  for (std::size_t i = 1; i < tensors_.size(); ++i) {
    const auto view = HostView::of(*runtime_, tensors_[i]);
    if (!view.ok()) return view.error();
    all.emplace_back(view->bytes().begin(), view->bytes().end());
  }
  return all;
}

std::string BackwardRun::check(double& share) const {
  std::string message;
  const Result<void> visited =
      forward_.visit_inputs([&](const reference::Inputs& inputs) { message = check_all(inputs, share); });
  return visited.ok() ? message : visited.error().message;
}

std::string BackwardRun::check_all(const reference::Inputs& inputs, double& share) const {
  const AttentionDesc& desc = desc_.attention;
  const auto grad_output = HostView::of(*runtime_, tensors_[0]);
  if (!grad_output.ok()) return grad_output.error().message;
  reference::BackwardInputs all;
  all.forward = inputs;
  all.grad_output = HostInput(grad_output->tensor());
  all.grad_output_desc = *desc_.grad_output;
  all.grad_mask = *desc_.grad_mask->strides;
  all.probability_type = forward_.probability_type();
  const reference::Gradients gradients = reference::compute_gradients(desc, all);
  const WrittenRows rows(desc, inputs);
  const std::vector<bool> keys = written_keys(desc, inputs);
  const std::int64_t key_rows = key_extents(desc, 1).rows;
  const auto always = [](const Position&) { return true; };
  const auto of_query = [&](const Position& p) { return !desc.has_packed_queries() || rows.stored(p); };
  const auto of_key = [&](const Position& p) {
    return keys[static_cast<std::size_t>(p.batch * key_rows + p.row)];
  };
  const auto table = detail::gradient_table();
  return check_gradient(table[1], gradients.query, of_query, share) +
         check_gradient(table[2], gradients.key, of_key, share) +
         check_gradient(table[3], gradients.value, of_key, share) +
         check_gradient(table[4], gradients.mask, always, share) +
         check_gradient(table[5], gradients.alibi_slopes, always, share) +
         check_gradient(table[6], gradients.sinks, always, share);
}

std::string BackwardRun::check_gradient(const detail::GradientRow& row, const reference::Gradient& expected,
                                        const std::function<bool(const Position&)>& is_written,
                                        double& share) const {
  if (!row.is_used(desc_)) return {};
  const auto index = static_cast<std::size_t>(&row - detail::gradient_table().data());
  const TensorShape shape = shape_of_row(row, desc_);
  const auto view = HostView::of(*runtime_, tensors_[index]);
  if (!view.ok()) return view.error().message;
  const std::span<const std::byte> bytes = view->bytes();
  std::string message;
  double worst = 1;
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
    if (!is_written(p)) return;
    const std::size_t element = expected.index(p.batch, p.head, p.row, p.dim);
    const std::size_t at =
        tensors_[index].offset + static_cast<std::size_t>(offset) * element_bytes(shape.desc.type);
    const double got = loaded(bytes.data() + at, shape.desc.type);
    const double its =
        share_of(expected.values[element], got,
                 reference::gradient_tolerance(expected, element, shape.desc.type), shape.desc.type);
    share = std::max(share, its);
    if (its <= worst) return;
    worst = its;
    message = std::string(row.name) + text_of(p) + " is " + std::to_string(got) + " and should be " +
              std::to_string(expected.values[element]) + ": " + std::to_string(its) + " of the tolerance. ";
  });
  CheckReport report;
  check_guards(row.name, shape, tensors_[index], bytes, is_written, report);
  if (!report.guard_intact) message += report.guard_message + ". ";
  if (report.elements_unwritten != 0) {
    message += std::to_string(report.elements_unwritten) + " elements of " + std::string(row.name) +
               " were not written. ";
  }
  return message;
}

}  // namespace vkattn::harness

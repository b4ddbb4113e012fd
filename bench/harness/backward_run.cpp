// A backward pass on a device: see backward_run.hpp.
#include "harness/backward_run.hpp"

#include <algorithm>
#include <span>

#include "backward/backward_kernel.hpp"
#include "common/integers.hpp"
#include "harness/guard.hpp"
#include "harness/host_view.hpp"
#include "harness/runnable.hpp"
#include "harness/share.hpp"
#include "harness/tensor_memory.hpp"
#include "reference/positions.hpp"

namespace vkattn::harness {

namespace {

constexpr std::uint64_t kFirstInputStream = 40;

/// Which rows of packed keys belong to a sequence. If keys are not packed, all do.
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

/// If the float64 reference would take more than about a second for everything, this selects rows and keys
/// from one end to the other, of the first and the last KV head, or of the last KV head alone.
reference::GradientSelection selected(const AttentionDesc& desc, const RowSelection& selection) {
  constexpr double kFewPairs = 1 << 19, kManyPairs = 1 << 21;
  const double of_head = static_cast<double>(desc.query_length) * static_cast<double>(desc.kv_length) *
                         static_cast<double>(desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1));
  const std::int64_t heads = desc.batch * desc.kv_heads;
  reference::GradientSelection chosen;
  if (selection.max_rows < 0 || of_head * static_cast<double>(heads) <= kFewPairs) return chosen;
  chosen.heads = {{desc.batch - 1, desc.kv_heads - 1}};
  if (heads > 1 && of_head <= kManyPairs) chosen.heads.emplace_back(0, 0);
  const std::int64_t each =
      std::max<std::int64_t>(1, selection.max_rows / static_cast<std::int64_t>(chosen.heads.size()));
  // A row's position in its block varies, because the step is odd.
  const auto step = [&](std::int64_t length) { return detail::divide_up(length, each) | 1; };
  chosen.row_step = step(desc.query_length);
  chosen.key_step = step(desc.kv_length);
  return chosen;
}

}  // namespace

Result<BackwardRun> BackwardRun::create(const Runtime& runtime, const Problem& given,
                                        const BackwardDesc& desc, std::string_view forward_kernel) {
  Problem problem = given;
  problem.desc.has_lse = true;
  auto forward = ProblemRun::create(runtime, problem);
  if (!forward.ok()) return forward.error();
  if (Result<void> s = forward->fill_inputs(); !s.ok()) return s.error();
  if (Result<void> s = forward->poison_outputs(); !s.ok()) return s.error();
  PlanOptions options;
  options.kernel = forward_kernel;
  const auto plan = Runnable::create(runtime, problem.desc, options);
  if (!plan.ok()) return plan.error();
  if (const auto done = forward->execute(*plan); !done.ok()) return done.error();
  auto run = after(runtime, *std::move(forward), desc);
  if (!run.ok()) return run.error();
  if (Result<void> s = run->fill_inputs(); !s.ok()) return s.error();
  return run;
}

Result<BackwardRun> BackwardRun::after(const Runtime& runtime, ProblemRun forward, const BackwardDesc& desc) {
  BackwardRun run(runtime, std::move(forward), desc.resolved());
  const std::int64_t shift = run.forward_.problem().shift;
  if (Result<void> s = place_used(runtime, run.desc_, shift, run.tensors_); !s.ok()) return s.error();
  return run;
}

/// Fills the gradients of what the forward pass has written, in the rows that it has written. All other rows
/// are poisoned.
Result<void> BackwardRun::fill_inputs() {
  Result<void> filled;
  const Result<void> visited = forward_.visit_inputs([&](const reference::Inputs& inputs) {
    const WrittenRows written(desc_.attention, inputs);
    std::uint64_t stream = kFirstInputStream;
    for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>()) {
      if (row.use.written || !row.is_used(desc_) || !filled.ok()) continue;
      filled = fill_input(row, written, stream_of(forward_.problem().seed, stream++));
    }
  });
  return visited.ok() ? filled : visited;
}

Result<void> BackwardRun::fill_input(const detail::GradientRow& row, const WrittenRows& written,
                                     std::uint64_t stream) {
  const TensorShape shape = shape_of(row, desc_);
  const DataType type = shape.desc.type;
  NormalNumbers normal(stream);
  const auto fill = [&](const PutElement& put) {
    std::uint64_t number = 0;
    AddressOrder(shape).for_each([&](std::int64_t offset, const Position& position) {
      const std::uint32_t bits = stored_bits(static_cast<float>(normal.at(number++)), type);
      if (!written.stored(position)) return;
      const std::int64_t size = element_bytes(type);
      put(offset * size, std::as_bytes(std::span(&bits, 1)).first(static_cast<std::size_t>(size)));
    });
  };
  return fill_with(*runtime_, tensor(row.range), input_filler(type), fill);
}

BackwardTensors BackwardRun::tensors() const {
  BackwardTensors tensors = ranges_of(tensors_);
  tensors.forward = forward_.tensors();
  return tensors;
}

Result<double> BackwardRun::execute(const Runnable& plan) {
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>()) {
    if (!row.use.written || !row.is_used(desc_)) continue;
    const Pattern poison = output_poison(row.storage(desc_).type);
    if (Result<void> s = fill_pattern(*runtime_, tensor(row.range), poison); !s.ok()) return s.error();
  }
  factor_type_ = plan.probability_type();
  least_largest_weight_ = detail::least_largest_weight(plan.kernel_name());
  return plan.execute(*runtime_, tensors());
}

Result<std::vector<std::vector<std::byte>>> BackwardRun::bytes() const {
  std::vector<std::vector<std::byte>> all;
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>()) {
    if (!row.use.written) continue;
    const auto view = HostView::of(*runtime_, tensor(row.range));
    if (!view.ok()) return view.error();
    all.emplace_back(view->bytes().begin(), view->bytes().end());
  }
  return all;
}

Result<CheckReport> BackwardRun::check(const RowSelection& selection) const {
  CheckReport report;
  Result<void> checked;
  const Result<void> visited = forward_.visit_inputs(
      [&](const reference::Inputs& inputs) { checked = check_all(inputs, selection, report); });
  if (!visited.ok()) return visited.error();
  if (!checked.ok()) return checked.error();
  return report;
}

Result<void> BackwardRun::check_all(const reference::Inputs& inputs, const RowSelection& selection,
                                    CheckReport& report) const {
  const AttentionDesc& desc = desc_.attention;
  const auto grad_output = HostView::of(*runtime_, tensor(&BackwardTensors::grad_output));
  if (!grad_output.ok()) return grad_output.error();
  const auto grad_lse = HostView::of(*runtime_, tensor(&BackwardTensors::grad_lse));
  if (!grad_lse.ok()) return grad_lse.error();
  reference::BackwardInputs all;
  all.forward = inputs;
  all.grad_output = HostInput(grad_output->tensor());
  all.grad_output_desc = *desc_.grad_output;
  all.grad_lse = HostInput(grad_lse->tensor());
  all.grad_mask = *desc_.grad_mask->strides;
  all.probability_type = forward_.probability_type();
  all.factor_type = factor_type_;
  all.least_largest_weight = least_largest_weight_;
  const reference::Gradients gradients = reference::compute_gradients(desc, all, selected(desc, selection));
  const WrittenRows rows(desc, inputs);
  const std::vector<bool> keys = written_keys(desc, inputs);
  const std::int64_t key_rows = key_extents(desc, 1).rows;
  const auto always = [](const Position&) { return true; };
  const auto of_query = [&](const Position& p) { return !desc.has_packed_queries() || rows.stored(p); };
  const auto of_key = [&](const Position& p) {
    return keys[static_cast<std::size_t>(p.batch * key_rows + p.row)];
  };
  using T = BackwardTensors;
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>()) {
    if (!row.use.written || !row.is_used(desc_)) continue;
    std::function<bool(const Position&)> is_written = always;
    if (row.range == &T::grad_query) is_written = of_query;
    if (row.range == &T::grad_key || row.range == &T::grad_value) is_written = of_key;
    if (Result<void> s = check_gradient(row, gradients.of(row.range), is_written, report); !s.ok()) return s;
  }
  return {};
}

Result<void> BackwardRun::check_gradient(const detail::GradientRow& row, const reference::Gradient& expected,
                                         const std::function<bool(const Position&)>& is_written,
                                         CheckReport& report) const {
  const TensorBuffer& buffer = tensor(row.range);
  const TensorShape shape = shape_of(row, desc_);
  const DataType type = shape.desc.type;
  const auto view = HostView::of(*runtime_, buffer);
  if (!view.ok()) return view.error();
  const std::span<const std::byte> bytes = view->bytes();
  AddressOrder(shape).for_each([&](std::int64_t offset, const Position& p) {
    if (!is_written(p) || expected.is_partial[expected.row_index(p.batch, p.head, p.row)]) return;
    const std::size_t element = expected.index(p.batch, p.head, p.row, p.dim);
    const std::size_t at = buffer.offset + static_cast<std::size_t>(offset) * element_bytes(type);
    if (p.dim == 0) ++report.rows_checked;
    report.add({{p.batch, p.head, p.row}, CheckedOutput::kGradient, p.dim, row.name},
               expected.values[element], loaded(bytes.data() + at, type),
               reference::gradient_tolerance(expected, element, type), type);
  });
  check_guards(row.name, shape, buffer, bytes, is_written, report);
  return {};
}

}  // namespace vkattn::harness

// The gradients of attention as an operation.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "attention/tensor_table.hpp"
#include "backward/backward_program.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

static_assert(kTensorCount + kGradientCount <= kMostTensors);

class BackwardOperation final : public OperationOf<BackwardOperation, BackwardDesc, BackwardTensors> {
 public:
  using OperationOf::OperationOf;

  [[nodiscard]] const BackwardKernel& kernel() const { return selection_.config; }
  [[nodiscard]] const BackwardLayout& layout() const { return layout_; }

  [[nodiscard]] std::string_view name() const override { return "gradients of attention"; }
  [[nodiscard]] OptionSet used_options() const override { return kBackwardOptions; }
  [[nodiscard]] Result<void> check(const PlanOptions& options,
                                   const Capabilities& /*capabilities*/) const override {
    if (!options.tile || !options.kernel.empty()) return {};
    return invalid("PlanOptions::tile needs PlanOptions::kernel, whose block sizes they are");
  }
  [[nodiscard]] std::optional<TunedOptions> tuned(const PlanOptions& given,
                                                  const Capabilities& /*capabilities*/,
                                                  std::string& note) const override;
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& options, const Capabilities& capabilities,
                                          std::string_view& kernel) override;

  [[nodiscard]] ChosenKernel chosen() const override {
    return {kernel().name, kernel().summary, {}, selection_.considered, kernel().uses_matrix_units};
  }
  [[nodiscard]] std::string configuration() const override {
    const AttentionDesc& attention = desc().attention;
    return message("backward ", kernel().name, ", ", vkattn::name(attention.query.type), " ",
                   vkattn::name(attention.key.type), " ", vkattn::name(attention.value.type), " ",
                   vkattn::name(desc().grad_output->type), ", d", attention.head_dim, " dv",
                   attention.value_dim);
  }
  /// The passes of the first chunk: those of other chunks are equal, and other passes are no kernels of its
  /// own.
  [[nodiscard]] std::span<const ProgramPass> kernel_passes(std::span<const ProgramPass> all) const override {
    const std::size_t own = (runs_numbers(kernel()) ? 1U : 0U) + (runs_rows(desc(), kernel()) ? 1U : 0U) +
                            (desc().has_grad_key || desc().has_grad_value ? 1U : 0U);
    return all.first(std::min(all.size(), own));
  }
  [[nodiscard]] std::string_view way_to_shorten() const override {
    return "cut the keys with chunk_keys, or take fewer rows at once";
  }
  [[nodiscard]] std::string form_on(const PlanOptions& options,
                                    const Capabilities& capabilities) const override {
    const auto selection = select_backward_kernel(desc(), capabilities, options);
    if (!selection) return {};
    return message(selection->config.name, " (", selection->config.rows.shader, ")");
  }
  [[nodiscard]] std::string problem_lines() const override;
  [[nodiscard]] std::string program_lines(const ProgramDesc& program) const override {
    return message("dispatches: ", program.steps.size(), " over ", layout_.chunks,
                   layout_.chunks == 1 ? " chunk of " : " chunks of ", layout_.chunk_keys,
                   " keys; workspace: ", layout_.workspace_bytes, " bytes\n");
  }

  [[nodiscard]] Result<void> add_tensors(const BackwardTensors& tensors, OperationCall& call) const override {
    call.add_table(tensors.forward);
    call.add_table(tensors);
    call.words = dropout_words(tensors.forward);
    return {};
  }
  [[nodiscard]] std::size_t tensor_index(BufferRange BackwardTensors::*tensor) const override {
    return kTensorCount + detail::tensor_index(tensor);
  }

 private:
  BackwardSelection selection_;
  BackwardLayout layout_;
};

std::optional<TunedOptions> BackwardOperation::tuned(const PlanOptions& given,
                                                     const Capabilities& capabilities,
                                                     std::string& note) const {
  if (given.tile) return std::nullopt;
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest_backward(desc().attention); },
      [&](const TunedBackward& measured, PlanOptions& options) -> Result<std::string> {
        options.kernel = measured.kernel;
        options.tile = measured.tile;
        if (options.tile) {
          const auto known = select_backward_kernel(desc(), capabilities, options);
          if (!known) return known.error();
        }
        if (options.chunk_keys == 0) options.chunk_keys = measured.chunk_keys;
        std::string words = measured.kernel;
        if (options.tile) words += message(" (", to_string(*options.tile), ")");
        if (options.chunk_keys != 0) words += message(" (chunks of ", options.chunk_keys, " keys)");
        return words;
      });
}

Result<ProgramDesc> BackwardOperation::build(const PlanOptions& options, const Capabilities& capabilities,
                                             std::string_view& name) {
  auto selection = select_backward_kernel(desc(), capabilities, options);
  if (!selection) return selection.error();
  selection_ = *std::move(selection);
  name = kernel().name;
  const auto layout = lay_out_backward(desc(), capabilities, kernel(), options);
  if (!layout) return layout.error();
  layout_ = *layout;
  return backward_program(desc(), capabilities, kernel(), layout_, options);
}

std::string gradient_names(const BackwardDesc& desc) {
  std::string names;
  for (const GradientRow& row : tensor_table<BackwardTensors>()) {
    if (!row.use.written || !row.is_used(desc)) continue;
    names += message(names.empty() ? "" : ", ", row.name, " ", name(row.storage(desc).type));
  }
  return names;
}

std::string BackwardOperation::problem_lines() const {
  const AttentionDesc& d = desc().attention;
  return message("backward: batch ", d.batch, ", query_heads ", d.query_heads, ", kv_heads ", d.kv_heads,
                 ", query_length ", d.query_length, ", kv_length ", d.kv_length, ", head_dim ", d.head_dim,
                 ", value_dim ", d.value_dim, d.causal ? ", causal" : "",
                 "\ngradients: ", gradient_names(desc()), "\n");
}

}  // namespace

template <>
struct OperationFor<BackwardDesc> {
  using Type = BackwardOperation;
};

}  // namespace detail

template class PlanOf<BackwardPlan, BackwardDesc, BackwardTensors>;

DataType BackwardPlan::probability_type() const {
  return detail::operation_of<BackwardDesc>(state()).kernel().probability_type;
}

std::uint32_t BackwardPlan::chunk_keys() const {
  return detail::operation_of<BackwardDesc>(state()).layout().chunk_keys;
}

bool BackwardPlan::keeps_gradients() const {
  return detail::operation_of<BackwardDesc>(state()).layout().keeps_gradients;
}

const TileSizes& BackwardPlan::tile() const {
  return detail::operation_of<BackwardDesc>(state()).kernel().tile;
}

VkDeviceSize BackwardPlan::range_bytes(BufferRange AttentionTensors::*tensor, VkDeviceSize offset) const {
  if (tensor == &AttentionTensors::block_mask) return 0;
  return detail::range_bytes(state(), detail::tensor_index(tensor), offset);
}

}  // namespace vkattn

// Attention as an operation.
#include <vkattn/attention_plan.hpp>

#include <span>
#include <string>
#include <utility>

#include "attention/tensor_table.hpp"
#include "common/message.hpp"
#include "forward/attention_program.hpp"
#include "forward/forward_program.hpp"
#include "forward/layout.hpp"
#include "forward/params.hpp"
#include "kernels/select.hpp"
#include "kernels/tile_table.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

static_assert(kBlockMaskTensor + 1 <= kMostTensors);

class AttentionOperation final : public OperationOf<AttentionOperation, AttentionDesc, AttentionTensors> {
 public:
  using OperationOf::OperationOf;

  [[nodiscard]] const KernelConfig& config() const { return selection_.config; }
  [[nodiscard]] const ForwardLayout& layout() const { return layout_; }

  [[nodiscard]] std::string_view name() const override { return "attention"; }
  [[nodiscard]] OptionSet used_options() const override { return kAttentionOptions; }
  [[nodiscard]] Result<void> check(const PlanOptions& options,
                                   const Capabilities& /*capabilities*/) const override;
  [[nodiscard]] std::optional<TunedOptions> tuned(const PlanOptions& given,
                                                  const Capabilities& /*capabilities*/,
                                                  std::string& note) const override;
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& options, const Capabilities& capabilities,
                                          std::string_view& kernel) override;
  /// A kernel that accepts may still fail: a limit of the device where it cannot cut the keys of one head, a
  /// score function that does not compile in it, or the driver's compiler.
  [[nodiscard]] bool is_of_kernel(const Error& error) const override {
    return error.code == ErrorCode::kLimitExceeded || error.code == ErrorCode::kUnsupported;
  }

  [[nodiscard]] ChosenKernel chosen() const override {
    return {config().name, config().summary, {}, selection_.considered, config().uses_matrix_units};
  }
  [[nodiscard]] std::string configuration() const override {
    const AttentionDesc& d = desc();
    return message(config().name, ", ", vkattn::name(d.query.type), " ", vkattn::name(d.key.type), " ",
                   vkattn::name(d.value.type), " ", vkattn::name(d.output.type), ", d", d.head_dim, " dv",
                   d.value_dim);
  }
  [[nodiscard]] std::span<const ProgramPass> kernel_passes(std::span<const ProgramPass> all) const override {
    return all.empty() ? all : all.subspan(kernel_pass_, 1);
  }
  [[nodiscard]] std::string_view way_to_shorten() const override { return "cut the keys with kv_splits"; }
  [[nodiscard]] std::string form_on(const PlanOptions& options,
                                    const Capabilities& capabilities) const override {
    if (desc().is_empty()) return {};
    const auto selection = select_kernel(desc(), capabilities, options);
    if (!selection) return {};
    const auto layout = lay_out({desc(), capabilities, selection->config, options});
    const bool in_kernel = layout && layout->combines_in_kernel();
    return message(selection->config.name, " (", selection->config.shader, ")",
                   in_kernel ? ", parts merged in the kernel" : "");
  }
  [[nodiscard]] std::string problem_lines() const override;
  [[nodiscard]] std::string kernel_lines() const override;
  [[nodiscard]] std::string program_lines(const ProgramDesc& program) const override;

  [[nodiscard]] Result<void> add_tensors(const AttentionTensors& tensors, OperationCall& call) const override;
  [[nodiscard]] std::size_t tensor_index(BufferRange AttentionTensors::*tensor) const override {
    return tensor == &AttentionTensors::block_mask ? kBlockMaskTensor : detail::tensor_index(tensor);
  }

 private:
  Selection selection_;
  ForwardLayout layout_;  ///< without windows if nothing is to be computed
  std::uint32_t kernel_pass_ = 0;
};

Result<void> AttentionOperation::check(const PlanOptions& options,
                                       const Capabilities& /*capabilities*/) const {
  if (options.tile && options.kernel.empty()) {
    return invalid("PlanOptions::tile needs PlanOptions::kernel, whose block sizes they are");
  }
  if (options.arithmetic_type != DataType::kFloat32 && options.arithmetic_type != DataType::kFloat16) {
    return invalid("PlanOptions::arithmetic_type is ", vkattn::name(options.arithmetic_type),
                   "; it can be float32 or float16");
  }
  return {};
}

std::optional<TunedOptions> AttentionOperation::tuned(const PlanOptions& given,
                                                      const Capabilities& /*capabilities*/,
                                                      std::string& note) const {
  if (given.tile) return std::nullopt;
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest(desc(), given.arithmetic_type); },
      [&](const TunedProblem& measured, PlanOptions& options) -> Result<std::string> {
        options.kernel = measured.best.kernel;
        options.tile = measured.best.tile;
        // The number of parts depends on the keys that the window leaves.
        const bool same_window = measured.desc.window == desc().window;
        if (options.kv_splits == 0 && same_window) options.kv_splits = measured.kv_splits;
        return known_tile(measured.best.kernel, measured.best.tile,
                          all_tiles(measured.best.kernel, given.arithmetic_type));
      });
}

Result<ProgramDesc> AttentionOperation::build(const PlanOptions& options, const Capabilities& capabilities,
                                              std::string_view& kernel) {
  auto selection = select_kernel(desc(), capabilities, options);
  if (!selection) return selection.error();
  selection_ = *std::move(selection);
  kernel = config().name;
  layout_ = {};
  if (desc().is_empty()) return ProgramDesc();
  const LayoutRequest request{desc(), capabilities, config(), options};
  auto layout = lay_out(request);
  if (!layout) return layout.error();
  layout_ = *std::move(layout);
  return forward_program(request, layout_, kernel_pass_);
}

std::string AttentionOperation::problem_lines() const {
  const AttentionDesc& d = desc();
  return message("attention: batch ", d.batch, ", query_heads ", d.query_heads, ", kv_heads ", d.kv_heads,
                 ", query_length ", d.query_length, ", kv_length ", d.kv_length, ", head_dim ", d.head_dim,
                 ", value_dim ", d.value_dim, d.causal ? ", causal" : "", "\n");
}

std::string AttentionOperation::kernel_lines() const {
  const auto& function = desc().score_function;
  if (!function) return {};
  return message("score function: ", function->name(), function->hides_keys() ? ", hides keys" : "", "\n");
}

std::string AttentionOperation::program_lines(const ProgramDesc& program) const {
  std::string text = message("dispatches: ", program.steps.size(), " over ", layout_.windows.size(),
                             layout_.windows.size() == 1 ? " window" : " windows",
                             " of the tensors; workspace: ", layout_.workspace_bytes, " bytes\n");
  if (layout_.gathers) {
    text += "storage buffers: few, so small tensors are copied to the workspace, where results lie too\n";
  }
  if (layout_.splits_keys() && layout_.split.splits > 1) {
    text += message("split over keys: ", layout_.split.splits, " parts of ", layout_.split.keys,
                    layout_.combines_in_kernel() ? ", merged by the last workgroup of each tile of rows\n"
                                                 : ", merged by the combine pass\n");
  } else if (layout_.sums_in_workspace) {
    text += "sums: kept as float32 in the workspace\n";
  }
  return text;
}

Result<void> AttentionOperation::add_tensors(const AttentionTensors& tensors, OperationCall& call) const {
  call.add_table(tensors);
  for (const BufferRange& range : tensors.score_buffers) call.add(range);
  call.add(tensors.block_mask);
  call.words = dropout_words(tensors);
  if (layout_.block_mask_bytes == 0 || !tensors.block_mask_complete) return {};
  if (tensors.block_mask.buffer == VK_NULL_HANDLE) {
    return invalid("the block mask is said to be complete but its buffer is null");
  }
  // The passes before the kernel compute only the block mask, so they are skipped.
  call.skipped = {0, kernel_pass_};
  return {};
}

}  // namespace

template <>
struct OperationFor<AttentionDesc> {
  using Type = AttentionOperation;
};

}  // namespace detail

template class PlanOf<AttentionPlan, AttentionDesc, AttentionTensors>;

const TileSizes& AttentionPlan::tile() const {
  return detail::operation_of<AttentionDesc>(state()).config().tile;
}

std::uint32_t AttentionPlan::shared_memory_bytes() const {
  return detail::operation_of<AttentionDesc>(state()).config().shared_bytes;
}

DataType AttentionPlan::probability_type() const {
  return detail::operation_of<AttentionDesc>(state()).config().probability_type;
}

DataType AttentionPlan::arithmetic_type() const {
  return detail::operation_of<AttentionDesc>(state()).config().arithmetic_type;
}

VkDeviceSize AttentionPlan::block_mask_bytes() const {
  return detail::operation_of<AttentionDesc>(state()).layout().block_mask_bytes;
}

std::optional<BlockMaskLayout> AttentionPlan::block_mask_layout() const {
  const auto& operation = detail::operation_of<AttentionDesc>(state());
  const detail::ForwardLayout& layout = operation.layout();
  if (layout.block_mask_bytes == 0 || layout.windows.size() != 1) return std::nullopt;
  const detail::FeatureParams params =
      detail::window_feature_params(operation.desc(), layout.windows.front());
  const detail::KernelConfig& config = operation.config();
  return BlockMaskLayout{config.rows_per_workgroup, config.block_mask_keys, params.block_batch_stride,
                         params.block_head_stride, params.block_row_stride};
}

}  // namespace vkattn

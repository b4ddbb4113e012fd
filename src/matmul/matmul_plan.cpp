// A matrix multiplication as an operation.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "attention/tensor_rules.hpp"
#include "common/message.hpp"
#include "matmul/matmul_copies.hpp"
#include "matmul/matmul_program.hpp"
#include "matmul/matmul_tensors.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

class MatmulOperation final : public OperationOfTable<MatmulOperation, MatmulDesc, MatmulTensors> {
 public:
  using OperationOfTable::OperationOfTable;

  [[nodiscard]] const MatmulConfig& config() const { return selection_.config; }

  [[nodiscard]] std::string_view name() const override { return "a matrix multiplication"; }
  [[nodiscard]] OptionSet used_options() const override { return kMatmulOptions; }
  [[nodiscard]] Result<void> check(const PlanOptions& /*options*/,
                                   const Capabilities& /*capabilities*/) const override {
    return check_built({desc().b.type});
  }
  [[nodiscard]] std::optional<TunedOptions> tuned(const PlanOptions& given, const Capabilities& capabilities,
                                                  std::string& note) const override;
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& options, const Capabilities& capabilities,
                                          std::string_view& kernel) override;

  [[nodiscard]] ChosenKernel chosen() const override {
    return {config().name, config().summary, config().view.bias_by_row ? ", rows and columns exchanged" : "",
            selection_.considered, config().uses_matrix_units};
  }
  [[nodiscard]] std::string configuration() const override {
    const MatmulDesc& d = desc();
    return message("matmul ", config().name, ", ", d.a_is_ones ? "ones" : vkattn::name(d.a.type), " ",
                   vkattn::name(d.b.type), " ", vkattn::name(d.output.type));
  }
  /// Copies and the combine pass are no kernels of their own.
  [[nodiscard]] std::span<const ProgramPass> kernel_passes(std::span<const ProgramPass> all) const override {
    const auto kernel =
        std::ranges::find_if(all, [&](const ProgramPass& pass) { return pass.name == config().name; });
    return all.subspan(static_cast<std::size_t>(kernel - all.begin()), kernel == all.end() ? 0 : 1);
  }
  [[nodiscard]] std::string_view way_to_shorten() const override { return "cut inner with inner_splits"; }
  [[nodiscard]] std::string form_on(const PlanOptions& options,
                                    const Capabilities& capabilities) const override {
    const auto selection = select_matmul_kernel(desc(), capabilities, options);
    if (!selection) return {};
    return message(selection->config.name, " (", selection->config.shader, ")");
  }
  [[nodiscard]] std::string problem_lines() const override {
    const MatmulDesc& d = desc();
    return message("matmul: batch ", d.batch, ", rows ", d.rows, ", columns ", d.columns, ", inner ", d.inner,
                   ", ", d.a_is_ones ? "ones" : vkattn::name(d.a.type), " x ", vkattn::name(d.b.type), " to ",
                   vkattn::name(d.output.type), d.has_bias ? ", bias" : "",
                   d.accumulates ? ", accumulates" : "", "\n");
  }
  [[nodiscard]] std::string program_lines(const ProgramDesc& program) const override;

 private:
  MatmulSelection selection_;
  InnerSplit split_;
};

std::optional<TunedOptions> MatmulOperation::tuned(const PlanOptions& given, const Capabilities& capabilities,
                                                   std::string& note) const {
  if (given.matmul_tile) return std::nullopt;
  return tuned_options(
      given, note, [&](const Tuning& tuning) { return tuning.nearest_matmul(desc()); },
      [&](const TunedMatmul& measured, PlanOptions& options) -> Result<std::string> {
        options.kernel = measured.best.kernel;
        options.matmul_tile = measured.best.tile;
        if (options.inner_splits == 0) options.inner_splits = measured.inner_splits;
        return known_tile(measured.best.kernel, measured.best.tile,
                          matmul_tiles(measured.best.kernel, capabilities));
      });
}

Result<ProgramDesc> MatmulOperation::build(const PlanOptions& options, const Capabilities& capabilities,
                                           std::string_view& kernel) {
  auto selection = select_matmul_kernel(desc(), capabilities, options);
  if (!selection) return selection.error();
  selection_ = *std::move(selection);
  kernel = config().name;
  // Parts that nobody asks for are left out if there is no buffer for their sums.
  const std::uint32_t fewest_parts = has_buffer_for_workspace(desc(), capabilities) ? 0 : 1;
  const auto split = choose_inner_split(config(), capabilities, std::max(options.inner_splits, fewest_parts));
  if (!split) return split.error();
  split_ = *split;
  return matmul_program(desc(), config(), split_, options, capabilities);
}

std::string MatmulOperation::program_lines(const ProgramDesc& program) const {
  std::string text =
      message("dispatches: ", program.steps.size(), "; workspace: ", program.workspace_bytes, " bytes\n");
  for (const MatmulOperand& operand : {config().view.a, config().view.b}) {
    if (!operand.is_copied || program.steps.empty()) continue;
    text += message(operand.tensor == 0 ? "a" : "b",
                    " is copied first, as float32 in rows of inner: ", copy_bytes(operand, config().view),
                    " bytes of workspace\n");
  }
  if (split_.parts > 1) {
    text += message("split over inner: ", split_.parts, " parts of ", split_.inner,
                    ", added by the combine pass\n");
  }
  return text;
}

}  // namespace

template <>
struct OperationFor<MatmulDesc> {
  using Type = MatmulOperation;
};

}  // namespace detail

template class PlanOf<MatmulPlan, MatmulDesc, MatmulTensors>;

MatmulTile MatmulPlan::tile() const {
  return detail::operation_of<MatmulDesc>(state()).config().tile;
}

MatmulCopies MatmulPlan::copies() const {
  const detail::MatmulView& view = detail::operation_of<MatmulDesc>(state()).config().view;
  MatmulCopies copies;
  for (const detail::MatmulOperand* operand : {&view.a, &view.b})
    (operand->tensor == 0 ? copies.a : copies.b) = operand->is_copied;
  return copies;
}

}  // namespace vkattn

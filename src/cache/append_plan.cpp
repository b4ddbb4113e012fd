// An append as an operation.

#include "attention/tensor_rules.hpp"
#include "cache/append_tasks.hpp"
#include "cache/append_tensors.hpp"
#include "common/message.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

std::string_view words_for(const CacheLayout& cache) {
  switch (cache.mapping) {
    case KeyMapping::kRing:
      return "ring";
    case KeyMapping::kPaged:
      return "pages";
    case KeyMapping::kContiguous:
      break;
  }
  return "contiguous rows";
}

class AppendOperation final : public OperationOfTable<AppendOperation, AppendDesc, AppendTensors> {
 public:
  using OperationOfTable::OperationOfTable;

  [[nodiscard]] std::string_view name() const override { return "an append"; }
  [[nodiscard]] Result<void> check(const PlanOptions& /*options*/,
                                   const Capabilities& /*capabilities*/) const override {
    return check_built({desc().cache_key.type, desc().cache_value.type});
  }
  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& /*options*/, const Capabilities& capabilities,
                                          std::string_view& /*kernel*/) override {
    return append_program(desc(), capabilities);
  }

  [[nodiscard]] std::string form_on(const PlanOptions& /*options*/,
                                    const Capabilities& capabilities) const override {
    std::string forms;
    const auto program = append_program(desc(), capabilities);
    if (!program) return forms;
    for (const ProgramPass& pass : program->passes) {
      forms += message(forms.empty() ? "" : ", ", pass.name, " (", pass.shader, ")");
    }
    return forms;
  }
  [[nodiscard]] std::string problem_lines() const override;
  [[nodiscard]] std::string program_lines(const ProgramDesc& program) const override {
    std::string text;
    for (const ProgramStep& step : program.steps) {
      const ProgramPass& pass = program.passes[step.pass];
      text += message("dispatch: ", pass.name, ", ", step.unit_count, " invocations, ", pass.shader,
                      pass.barrier ? ", after all others" : "", "\n");
    }
    return text;
  }
};

std::string AppendOperation::problem_lines() const {
  const AppendDesc& d = desc();
  std::string text =
      message("append: batch ", d.batch, ", query_heads ", d.query_heads, ", kv_heads ", d.kv_heads,
              ", new_length ", d.new_length, ", head_dim ", d.head_dim, ", value_dim ", d.value_dim,
              d.new_lengths == Lengths::kPacked ? message(", ", d.total_new_length, " packed rows") : "",
              "\n", "cache: ", words_for(d.cache), ", keys ", vkattn::name(d.cache_key.type), ", values ",
              vkattn::name(d.cache_value.type), ", room for ", append_capacity(d), " keys\n");
  if (d.rotary.style != RotaryStyle::kNone) {
    text += message("rotary: ", d.rotary.dims, " dims, ",
                    d.rotary.style == RotaryStyle::kInterleaved ? "interleaved" : "half-split",
                    d.rotary.has_frequencies ? ", frequencies given\n" : "\n");
  }
  return text;
}

}  // namespace

template <>
struct OperationFor<AppendDesc> {
  using Type = AppendOperation;
};

}  // namespace detail

template class PlanOf<AppendPlan, AppendDesc, AppendTensors>;

}  // namespace vkattn

// A layer and its gradients as operations.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/message.hpp"
#include "kernels/select.hpp"
#include "module/layer_steps.hpp"
#include "operation/plan_of.hpp"

namespace vkattn {

namespace detail {

namespace {

/// Checks the options of both passes, as callers often give both the same.
Result<void> check_options(const MultiHeadAttentionOptions& options) {
  Result<void> s = check_refusals(options.attention.refusals);
  if (s) s = check_refusals(options.matmul.refusals, "matmul.refusals");
  if (s) s = check_refusals(options.backward.refusals, "backward.refusals");
  if (s && options.attention.push_descriptors) {
    return invalid("MultiHeadAttentionOptions::attention has push_descriptors: set that of the layer");
  }
  return s;
}

std::string summary(const MultiHeadAttentionDesc& desc) {
  constexpr const char* kInputs[] = {"self-attention", "cross-attention", "separate inputs"};
  return message(kInputs[static_cast<std::size_t>(desc.inputs)], ", d_model ", desc.d_model, ", ",
                 desc.packed_weights ? "packed" : "separate", " weights ", name(*desc.weight_type), ", rows ",
                 name(desc.type), desc.has_cache ? ", cache" : "",
                 desc.rotary.style == RotaryStyle::kNone ? "" : ", rotary", "\n");
}

/// The common part of both passes of a layer. `MainPlan` is the plan of the step that is attention or its
/// gradients.
template <class Own, class Desc, class Tensors, class MainPlan>
class LayerOperation : public OperationOf<Own, Desc, Tensors> {
 public:
  /// Checks every rule that needs no device.
  [[nodiscard]] static Result<std::unique_ptr<Own>> make(const Device& device, const Desc& given,
                                                         const MultiHeadAttentionOptions& options) {
    if (Result<void> s = validate(given); !s) return s.error();
    if (Result<void> s = check_options(options); !s) return s.error();
    return std::make_unique<Own>(device, given.resolved(), options);
  }

  /// Device and options are used while the plan is made, and not afterwards.
  LayerOperation(const Device& device, Desc resolved, const MultiHeadAttentionOptions& options)
      : OperationOf<Own, Desc, Tensors>(std::move(resolved)), device_(device), options_(options) {}

  [[nodiscard]] const Tensors& symbols() const { return symbols_; }
  [[nodiscard]] const MainPlan& main_plan() const { return std::get<MainPlan>(steps_[main_].step.plan); }
  [[nodiscard]] const LayerMemory& memory() const { return memory_; }
  [[nodiscard]] std::vector<LayerStep> steps() const {
    std::vector<LayerStep> all;
    for (const PlacedStep& placed : steps_) all.push_back(placed.step);
    return all;
  }

  [[nodiscard]] Result<ProgramDesc> build(const PlanOptions& /*options*/,
                                          const Capabilities& /*capabilities*/,
                                          std::string_view& /*kernel*/) override {
    std::size_t tensors = 0;
    for_each_range(symbols_, [&](const BufferRange&) { ++tensors; });
    LayerProgram program(device_, options_, tensors);
    if (Result<void> s = add_steps(program); !s) return s.error();
    ProgramDesc whole = program.finish();
    steps_ = program.take_steps();
    while (!std::holds_alternative<MainPlan>(steps_[main_].step.plan)) ++main_;
    return whole;
  }
  /// Its steps have tried other kernels already.
  [[nodiscard]] bool is_of_kernel(const Error& /*error*/) const override { return false; }
  [[nodiscard]] std::string program_lines(const ProgramDesc& /*program*/) const override {
    std::string text;
    for (const PlacedStep& placed : steps_) {
      text += message("step: ", placed.step.name, placed.waits ? ", after all before it" : "", "\n",
                      plan_of(placed.step).describe());
    }
    return text;
  }

  [[nodiscard]] Result<void> add_tensors(const Tensors& tensors, OperationCall& call) const override {
    for_each_range(tensors, [&](const BufferRange& range) { call.add(range); });
    // The numbers of a call that attention uses beside ranges.
    OperationCall main;
    if (Result<void> s =
            typed_operation<MainPlan>(main_plan().state()).add_tensors(main_tensors(tensors), main);
        !s) {
      return s;
    }
    call.words = main.words;
    const std::uint32_t first = steps_[main_].first_pass;
    call.skipped = {first + main.skipped.begin, first + main.skipped.end};
    return {};
  }
  [[nodiscard]] std::size_t tensor_index(BufferRange Tensors::*tensor) const override {
    return number_of(symbols_.*tensor);
  }

 protected:
  [[nodiscard]] virtual Result<void> add_steps(LayerProgram& program) = 0;
  [[nodiscard]] virtual typename MainPlan::Tensors main_tensors(const Tensors& tensors) const = 0;
  [[nodiscard]] LayerMemory& memory() { return memory_; }

 private:
  const Device& device_;
  const MultiHeadAttentionOptions& options_;
  const Tensors symbols_ = detail::symbols<Tensors>();
  LayerMemory memory_;
  std::vector<PlacedStep> steps_;
  std::size_t main_ = 0;
};

class ForwardLayer final
    : public LayerOperation<ForwardLayer, MultiHeadAttentionDesc, MultiHeadAttentionTensors, AttentionPlan> {
 public:
  using LayerOperation::LayerOperation;

  [[nodiscard]] std::string_view name() const override { return "a layer"; }
  [[nodiscard]] std::string problem_lines() const override { return "layer: " + summary(desc()); }

 private:
  [[nodiscard]] Result<void> add_steps(LayerProgram& program) override {
    const LayerShape shape = layer_shape(desc());
    memory() = layer_memory(desc(), shape);
    name_layer_tensors(desc(), shape, symbols(), memory().bytes, true, program);
    name_output_tensors(desc(), shape, symbols(), program);
    return add_forward_steps(desc(), symbols(), program);
  }
  [[nodiscard]] AttentionTensors main_tensors(const MultiHeadAttentionTensors& tensors) const override {
    return tensors.attention;
  }
};

class BackwardLayer final : public LayerOperation<BackwardLayer, MultiHeadAttentionBackwardDesc,
                                                  MultiHeadAttentionBackwardTensors, BackwardPlan> {
 public:
  using LayerOperation::LayerOperation;

  [[nodiscard]] std::string_view name() const override { return "gradients of a layer"; }
  [[nodiscard]] std::string problem_lines() const override {
    return "gradients of a layer: " + summary(desc().forward);
  }

 private:
  [[nodiscard]] Result<void> add_steps(LayerProgram& program) override {
    const MultiHeadAttentionDesc& forward = desc().forward;
    const LayerShape shape = layer_shape(forward);
    memory() = layer_memory(forward, shape);
    name_layer_tensors(forward, shape, symbols().forward, memory().bytes, false, program);
    name_gradient_tensors(desc(), shape, symbols(), program);
    return add_backward_steps(desc(), symbols(), program);
  }
  [[nodiscard]] BackwardTensors main_tensors(
      const MultiHeadAttentionBackwardTensors& tensors) const override {
    BackwardTensors backward = tensors.attention;
    backward.forward = tensors.forward.attention;
    return backward;
  }
};

}  // namespace

template <>
struct OperationFor<MultiHeadAttentionDesc> {
  using Type = ForwardLayer;
};
template <>
struct OperationFor<MultiHeadAttentionBackwardDesc> {
  using Type = BackwardLayer;
};

namespace {

const ForwardLayer& forward_of(const PlanState& plan) {
  return operation_of<MultiHeadAttentionDesc>(plan);
}
const BackwardLayer& backward_of(const PlanState& plan) {
  return operation_of<MultiHeadAttentionBackwardDesc>(plan);
}

VkDeviceSize symbol_bytes(const PlanState& plan, const BufferRange& symbol, VkDeviceSize offset) {
  return range_bytes(plan, number_of(symbol), offset);
}

}  // namespace

}  // namespace detail

template class PlanOf<MultiHeadAttentionPlan, MultiHeadAttentionDesc, MultiHeadAttentionTensors,
                      MultiHeadAttentionOptions>;
template class PlanOf<MultiHeadAttentionBackwardPlan, MultiHeadAttentionBackwardDesc,
                      MultiHeadAttentionBackwardTensors, MultiHeadAttentionOptions>;

PlanOptions MultiHeadAttentionOptions::plan_options() const {
  PlanOptions options;
  options.pipeline_cache = pipeline_cache;
  options.max_dispatch_ns = max_dispatch_ns;
  options.capture_statistics = capture_statistics;
  options.push_descriptors = push_descriptors;
  options.deferred_compilation = deferred_compilation;
  return options;
}

const AttentionPlan& MultiHeadAttentionPlan::attention() const {
  return detail::forward_of(state()).main_plan();
}

std::vector<LayerStep> MultiHeadAttentionPlan::steps() const {
  return detail::forward_of(state()).steps();
}

VkDeviceSize MultiHeadAttentionPlan::saved_bytes() const {
  return desc().saves_for_gradients ? detail::forward_of(state()).memory().bytes : 0;
}

VkDeviceSize MultiHeadAttentionPlan::range_bytes(BufferRange MultiHeadAttentionParameters::*tensor,
                                                 VkDeviceSize offset) const {
  return detail::symbol_bytes(state(), detail::forward_of(state()).symbols().parameters.*tensor, offset);
}

VkDeviceSize MultiHeadAttentionPlan::range_bytes(BufferRange AttentionTensors::*tensor,
                                                 VkDeviceSize offset) const {
  return detail::symbol_bytes(state(), detail::forward_of(state()).symbols().attention.*tensor, offset);
}

std::vector<LayerStep> MultiHeadAttentionBackwardPlan::steps() const {
  return detail::backward_of(state()).steps();
}

VkDeviceSize MultiHeadAttentionBackwardPlan::range_bytes(BufferRange MultiHeadAttentionParameters::*gradient,
                                                         VkDeviceSize offset) const {
  const auto& symbols = detail::backward_of(state()).symbols();
  return detail::symbol_bytes(state(), symbols.grad_parameters.*gradient, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::range_bytes(BufferRange BackwardTensors::*gradient,
                                                         VkDeviceSize offset) const {
  return detail::symbol_bytes(state(), detail::backward_of(state()).symbols().attention.*gradient, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(
    BufferRange MultiHeadAttentionTensors::*tensor, VkDeviceSize offset) const {
  return detail::symbol_bytes(state(), detail::backward_of(state()).symbols().forward.*tensor, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(
    BufferRange MultiHeadAttentionParameters::*tensor, VkDeviceSize offset) const {
  const auto& symbols = detail::backward_of(state()).symbols();
  return detail::symbol_bytes(state(), symbols.forward.parameters.*tensor, offset);
}

VkDeviceSize MultiHeadAttentionBackwardPlan::forward_range_bytes(BufferRange AttentionTensors::*tensor,
                                                                 VkDeviceSize offset) const {
  const auto& symbols = detail::backward_of(state()).symbols();
  return detail::symbol_bytes(state(), symbols.forward.attention.*tensor, offset);
}

}  // namespace vkattn

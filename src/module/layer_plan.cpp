// The plans of a layer.
#include <algorithm>
#include <cstring>
#include <utility>

#include "common/message.hpp"
#include "kernels/select.hpp"
#include "module/layer_steps.hpp"
#include "vulkan/debug.hpp"
#include "vulkan/device_state.hpp"

namespace vkattn {

namespace detail {

namespace {

/// Of both passes: options are often the same for both.
Result<void> check_options(const MultiHeadAttentionOptions& options) {
  Result<void> s = check_refusals(options.attention.refusals);
  if (s) s = check_refusals(options.matmul_refusals, "matmul_refusals");
  if (s) s = check_refusals(options.backward_refusals, "backward_refusals");
  return s;
}

Result<AttentionPlan> attention_plan(const Device& device, const MultiHeadAttentionDesc& desc,
                                     const MultiHeadAttentionOptions& options) {
  if (const auto& given = options.attention_plan) {
    if (given->is_on(device) && given->desc() == desc.attention) return *given;
    return invalid("MultiHeadAttentionOptions::attention_plan is of another problem or device; make it of ",
                   "MultiHeadAttentionDesc::resolved().attention");
  }
  PlanOptions how = options.attention;
  how.pipeline_cache = options.pipeline_cache;
  if (how.max_dispatch_ns == 0) how.max_dispatch_ns = options.max_dispatch_ns;
  how.deferred_compilation = options.deferred_compilation;
  return made_by(options.make_attention, "make_attention", device, desc.attention, how);
}

Result<Shared<const ModuleState>> make_forward(const Device& device, const MultiHeadAttentionDesc& given,
                                               const MultiHeadAttentionOptions& options) {
  if (Result<void> s = validate(given); !s) return s.error();
  if (Result<void> s = check_options(options); !s) return s.error();
  if (options.attention.push_descriptors) {
    return invalid("MultiHeadAttentionOptions::attention has push_descriptors, but a layer has bindings");
  }
  auto made = std::make_shared<ModuleState>(device, options);
  ModuleState& state = *made;
  state.desc = given.resolved();
  auto attention = attention_plan(device, state.desc, options);
  if (!attention) return attention.error();
  const LayerShape shape = layer_shape(state.desc);
  state.memory = layer_memory(state.desc, shape);
  add_layer_tensors(state.desc, shape, state.memory.bytes, true, state.program);
  add_output_tensors(state.desc, shape, state.program);
  ProgramTensor block_mask;
  block_mask.name = "block mask";
  block_mask.bytes = attention->block_mask_bytes();
  block_mask.written = true;
  state.program.add_place(std::move(block_mask), place_of(&AttentionTensors::block_mask));
  if (Result<void> s = add_forward_steps(state.desc, *attention, state.program); !s) return s.error();
  state.attention = *std::move(attention);
  return Shared<const ModuleState>(std::move(made));
}

Result<Shared<const ModuleState>> make_backward(const Device& device,
                                                const MultiHeadAttentionBackwardDesc& given,
                                                const MultiHeadAttentionOptions& options) {
  if (Result<void> s = validate(given); !s) return s.error();
  if (Result<void> s = check_options(options); !s) return s.error();
  auto made = std::make_shared<ModuleState>(device, options);
  ModuleState& state = *made;
  state.backward = given.resolved();
  state.desc = state.backward.forward;
  const LayerShape shape = layer_shape(state.desc);
  state.memory = layer_memory(state.desc, shape);
  add_layer_tensors(state.desc, shape, state.memory.bytes, false, state.program);
  add_gradient_tensors(state.backward, shape, state.program);
  if (Result<void> s = add_backward_steps(state.backward, state.program); !s) return s.error();
  return Shared<const ModuleState>(std::move(made));
}

/// Only the forward pass averages weights.
bool averages_weights(const ModuleState& state) {
  return state.desc.has_averaged_weights && state.attention;
}

std::size_t head_share_bytes(const ModuleState& state) {
  return static_cast<std::size_t>(state.desc.attention.query_heads) * sizeof(float);
}

Result<ParameterPiece> make_head_shares(const ModuleState& state) {
  if (!averages_weights(state)) return ParameterPiece();
  const auto heads = static_cast<std::size_t>(state.desc.attention.query_heads);
  auto piece = state.program.device().state().parameters->take(head_share_bytes(state));
  if (!piece) return piece.error();
  // The memory may be the caller's, mapped at any address.
  const float share = 1.0F / static_cast<float>(heads);
  for (std::size_t i = 0; i < heads; ++i)
    std::memcpy(piece->data() + i * sizeof(share), &share, sizeof(share));
  return piece;
}

BufferRange range_of(const ParameterPiece& shares, const ModuleState& state) {
  if (shares.buffer() == VkBuffer{}) return {};
  return {shares.buffer(), shares.offset(), head_share_bytes(state)};
}

ModuleCall call_of(const MultiHeadAttentionTensors& tensors, const BufferRange& workspace,
                   const ParameterPiece& shares, const ModuleState& state) {
  return {tensors, nullptr, workspace, range_of(shares, state)};
}

ModuleCall call_of(const MultiHeadAttentionBackwardTensors& tensors, const BufferRange& workspace,
                   const ParameterPiece& shares, const ModuleState& state) {
  return {tensors.forward, &tensors, workspace, range_of(shares, state)};
}

template <class Tensors>
Result<MultiHeadAttentionBindings> bind_layer(const Shared<const ModuleState>& state, const Tensors& tensors,
                                              const BufferRange& workspace, VkDescriptorPool pool) {
  auto bindings = std::make_unique<ModuleBindingsState>();
  bindings->plan = state;
  auto shares = make_head_shares(*state);
  if (!shares) return shares.error();
  bindings->head_shares = *std::move(shares);
  auto steps = state->program.bind(call_of(tensors, workspace, bindings->head_shares, *state), pool);
  if (!steps) return steps.error();
  bindings->steps = *std::move(steps);
  return MultiHeadAttentionBindings(std::move(bindings));
}

template <class Tensors>
Result<void> rewrite_layer(const Shared<const ModuleState>& state, const MultiHeadAttentionBindings& bindings,
                           const Tensors& tensors, const BufferRange& workspace) {
  ModuleBindingsState& own = bindings.state();
  if (own.plan != state) return invalid("these bindings were made by another plan");
  const ModuleCall call = call_of(tensors, workspace, own.head_shares, *state);
  if (Result<void> s = state->program.check(call); !s) return s;
  own.is_complete = false;
  const Result<void> s = state->program.rewrite(own.steps, call);
  own.is_complete = s.ok();
  return s;
}

void record_layer(const Shared<const ModuleState>& state, VkCommandBuffer commands,
                  const MultiHeadAttentionBindings& bindings, const RecordOptions& options) noexcept {
  const ModuleBindingsState& own = bindings.state();
  if (own.plan != state || !own.is_complete) {
    write_text(state->program.device().state().log, LogLevel::kWarning,
               "bindings of another layer, or that failed to be rewritten, record nothing");
    return;
  }
  state->program.record(commands, own.steps, options);
}

std::string summary(const MultiHeadAttentionDesc& desc) {
  constexpr const char* kInputs[] = {"self-attention", "cross-attention", "separate inputs"};
  return message(kInputs[static_cast<std::size_t>(desc.inputs)], ", d_model ", desc.d_model, ", ",
                 desc.packed_weights ? "packed" : "separate", " weights ", name(*desc.weight_type), ", rows ",
                 name(desc.type), desc.has_cache ? ", cache" : "",
                 desc.rotary.style == RotaryStyle::kNone ? "" : ", rotary", "\n");
}

}  // namespace

}  // namespace detail

MultiHeadAttentionBindings::MultiHeadAttentionBindings(Shared<detail::ModuleBindingsState> state)
    : state_(std::move(state)) {}
MultiHeadAttentionBindings::MultiHeadAttentionBindings(MultiHeadAttentionBindings&&) noexcept = default;
MultiHeadAttentionBindings& MultiHeadAttentionBindings::operator=(MultiHeadAttentionBindings&&) noexcept =
    default;
MultiHeadAttentionBindings::~MultiHeadAttentionBindings() = default;

bool MultiHeadAttentionBindings::is_complete() const noexcept {
  return state_->is_complete;
}

Result<MultiHeadAttentionPlan> MultiHeadAttentionPlan::create(const Device& device,
                                                              const MultiHeadAttentionDesc& desc,
                                                              const MultiHeadAttentionOptions& options) {
  return detail::without_exceptions([&]() -> Result<MultiHeadAttentionPlan> {
    auto state = detail::make_forward(device, desc, options);
    if (!state) return state.error();
    const MultiHeadAttentionPlan plan(*std::move(state));
    detail::log_description(device.state().log, plan);
    return plan;
  });
}

Result<void> MultiHeadAttentionPlan::compile() const {
  return detail::without_exceptions([&] { return state_->program.compile(); });
}

bool MultiHeadAttentionPlan::is_compiled() const noexcept {
  return state_->program.is_compiled();
}

const MultiHeadAttentionDesc& MultiHeadAttentionPlan::desc() const {
  return state_->desc;
}

const AttentionPlan& MultiHeadAttentionPlan::attention() const {
  return *state_->attention;
}

std::vector<LayerStep> MultiHeadAttentionPlan::steps() const {
  return state_->program.plans();
}

std::string MultiHeadAttentionPlan::describe() const {
  return "layer: " + detail::summary(state_->desc) + state_->program.describe();
}

std::vector<DispatchInfo> MultiHeadAttentionPlan::dispatches() const {
  return state_->program.dispatches();
}

PlanRequirements MultiHeadAttentionPlan::requirements() const {
  PlanRequirements needs = state_->program.requirements();
  if (detail::averages_weights(*state_)) {
    const std::size_t bytes = detail::head_share_bytes(*state_);
    const auto& parameters = *state_->program.device().state().parameters;
    needs.parameter_bytes += static_cast<std::uint32_t>(parameters.piece_bytes(bytes));
  }
  return needs;
}

VkDeviceSize MultiHeadAttentionPlan::saved_bytes() const {
  return state_->desc.saves_for_gradients ? state_->memory.bytes : 0;
}

Result<MultiHeadAttentionBindings> MultiHeadAttentionPlan::make_bindings(
    const MultiHeadAttentionTensors& tensors, const BufferRange& workspace, VkDescriptorPool pool) const {
  return detail::without_exceptions([&] { return detail::bind_layer(state_, tensors, workspace, pool); });
}

Result<void> MultiHeadAttentionPlan::rewrite(MultiHeadAttentionBindings& bindings,
                                             const MultiHeadAttentionTensors& tensors,
                                             const BufferRange& workspace) const {
  return detail::without_exceptions(
      [&] { return detail::rewrite_layer(state_, bindings, tensors, workspace); });
}

bool MultiHeadAttentionPlan::has_made(const MultiHeadAttentionBindings& bindings) const noexcept {
  return bindings.state().plan == state_;
}

void MultiHeadAttentionPlan::record(VkCommandBuffer commands, const MultiHeadAttentionBindings& bindings,
                                    const RecordOptions& options) const noexcept {
  detail::record_layer(state_, commands, bindings, options);
}

Result<MultiHeadAttentionBackwardPlan> MultiHeadAttentionBackwardPlan::create(
    const Device& device, const MultiHeadAttentionBackwardDesc& desc,
    const MultiHeadAttentionOptions& options) {
  return detail::without_exceptions([&]() -> Result<MultiHeadAttentionBackwardPlan> {
    auto state = detail::make_backward(device, desc, options);
    if (!state) return state.error();
    const MultiHeadAttentionBackwardPlan plan(*std::move(state));
    detail::log_description(device.state().log, plan);
    return plan;
  });
}

Result<void> MultiHeadAttentionBackwardPlan::compile() const {
  return detail::without_exceptions([&] { return state_->program.compile(); });
}

bool MultiHeadAttentionBackwardPlan::is_compiled() const noexcept {
  return state_->program.is_compiled();
}

const MultiHeadAttentionBackwardDesc& MultiHeadAttentionBackwardPlan::desc() const {
  return state_->backward;
}

std::vector<LayerStep> MultiHeadAttentionBackwardPlan::steps() const {
  return state_->program.plans();
}

std::string MultiHeadAttentionBackwardPlan::describe() const {
  return "gradients of a layer: " + detail::summary(state_->desc) + state_->program.describe();
}

std::vector<DispatchInfo> MultiHeadAttentionBackwardPlan::dispatches() const {
  return state_->program.dispatches();
}

PlanRequirements MultiHeadAttentionBackwardPlan::requirements() const {
  return state_->program.requirements();
}

Result<MultiHeadAttentionBindings> MultiHeadAttentionBackwardPlan::make_bindings(
    const MultiHeadAttentionBackwardTensors& tensors, const BufferRange& workspace,
    VkDescriptorPool pool) const {
  return detail::without_exceptions([&] { return detail::bind_layer(state_, tensors, workspace, pool); });
}

Result<void> MultiHeadAttentionBackwardPlan::rewrite(MultiHeadAttentionBindings& bindings,
                                                     const MultiHeadAttentionBackwardTensors& tensors,
                                                     const BufferRange& workspace) const {
  return detail::without_exceptions(
      [&] { return detail::rewrite_layer(state_, bindings, tensors, workspace); });
}

bool MultiHeadAttentionBackwardPlan::has_made(const MultiHeadAttentionBindings& bindings) const noexcept {
  return bindings.state().plan == state_;
}

void MultiHeadAttentionBackwardPlan::record(VkCommandBuffer commands,
                                            const MultiHeadAttentionBindings& bindings,
                                            const RecordOptions& options) const noexcept {
  detail::record_layer(state_, commands, bindings, options);
}

}  // namespace vkattn

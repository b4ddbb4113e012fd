// Steps of a layer: plans of other folders one after the other, with barriers where one reads what another
// has written. Described as the layer goes along, then bound and recorded like one plan.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/message.hpp"
#include "module/layer_shape.hpp"
#include "program/program.hpp"
#include "vulkan/parameter_memory.hpp"

namespace vkattn::detail {

/// What one execution works on; `backward` is null in a forward pass.
struct ModuleCall {
  const MultiHeadAttentionTensors& forward;
  const MultiHeadAttentionBackwardTensors* backward = nullptr;
  BufferRange workspace;
  BufferRange head_shares;  ///< float32, 1 / query_heads for each query head
};

/// Where a step's tensor lies: a range of the call, or a part of it.
struct Place {
  using Find = const BufferRange& (*)(const ModuleCall& call, const Place& place);
  Find find = nullptr;
  BufferRange MultiHeadAttentionTensors::*tensor = nullptr;
  BufferRange MultiHeadAttentionBackwardTensors::*gradient = nullptr;
  BufferRange MultiHeadAttentionParameters::*parameter = nullptr;
  BufferRange AttentionTensors::*feature = nullptr;
  std::size_t score_buffer = 0;
  VkDeviceSize byte = 0;
  VkDeviceSize bytes = 0;  ///< 0: all that lies behind `byte`

  [[nodiscard]] Place behind(VkDeviceSize more) const;
  [[nodiscard]] BufferRange in(const ModuleCall& call) const;
};

/// @{
[[nodiscard]] Place place_of(BufferRange MultiHeadAttentionTensors::*tensor);
[[nodiscard]] Place place_of(BufferRange MultiHeadAttentionBackwardTensors::*gradient);
[[nodiscard]] Place place_of(BufferRange MultiHeadAttentionParameters::*parameter);
[[nodiscard]] Place place_of(BufferRange AttentionTensors::*feature);
[[nodiscard]] Place place_of_score_buffer(std::size_t index);
[[nodiscard]] Place gradient_of(BufferRange MultiHeadAttentionParameters::*parameter);
[[nodiscard]] Place saved(const Piece& piece);
[[nodiscard]] Place in_workspace(const Piece& piece);
[[nodiscard]] Place head_shares();
/// @}

/// A tensor of the caller's that the layer checks by its own name and shape, before its steps do by theirs.
struct LayerTensor {
  std::string name;
  Place place;
  std::vector<std::int64_t> shape;
  DataType type = DataType::kFloat32;
  std::uint32_t alignment_bytes = 0;  ///< 0: that of an element
  bool written = false;

  /// To the end of the word in which the last element ends, where the tensor begins at byte `offset`.
  [[nodiscard]] VkDeviceSize range_bytes(VkDeviceSize offset) const;
};

template <class Plan, class Tensors>
struct StepOf {
  Plan plan;
  std::function<Tensors(const ModuleCall& call)> tensors;
};

/// A plan among others. Those of one phase work on different data.
struct ModuleStep {
  std::string name;
  std::variant<StepOf<MatmulPlan, MatmulTensors>, StepOf<AttentionPlan, AttentionTensors>,
               StepOf<BackwardPlan, BackwardTensors>, StepOf<AppendPlan, AppendTensors>>
      of;
  std::uint32_t phase = 0;
  Piece workspace{};
  PlanRequirements needs{};
  std::uint32_t first_dispatch = 0;  ///< of its own among those of all
  bool waits = false;  ///< the first of its phase that records something, and not the first of all
};

/// A plan by what makes it, where there is such, else by its create(). `name` is that of the option; plans on
/// another device or of another problem are refused.
template <class Plan, class Desc, class Options>
[[nodiscard]] Result<Plan> made_by(const std::function<Result<Plan>(const Desc&, const Options&)>& make,
                                   std::string_view name, const Device& device, const Desc& desc,
                                   const Options& options) {
  if (!make) return Plan::create(device, desc, options);
  auto plan = make(desc, options);
  if (!plan) return plan;
  if (!plan->is_on(device)) {
    return invalid("MultiHeadAttentionOptions::", name,
                   " made a plan on another VkDevice: make it on the one that the layer is planned on");
  }
  if (plan->desc() != desc.resolved()) {
    return invalid("MultiHeadAttentionOptions::", name,
                   " made a plan of another problem: make it of the descriptor that it is called with");
  }
  return plan;
}

struct MatmulPlaces {
  Place a, b, bias, output;
};

class ModuleProgram {
 public:
  ModuleProgram(const Device& device, const MultiHeadAttentionOptions& options)
      : device_(device), options_(options) {}

  /// Memory that steps share.
  [[nodiscard]] Piece take(VkDeviceSize bytes) { return pieces_.take(bytes); }
  /// What is added from here on reads what was added before.
  void begin_phase() { ++phase_; }
  /// Plans the step and adds it.
  /// @{
  [[nodiscard]] Result<void> add(std::string name, const MatmulDesc& desc, const MatmulPlaces& places);
  [[nodiscard]] Result<void> add(std::string name, const AppendDesc& desc,
                                 std::function<AppendTensors(const ModuleCall&)> tensors);
  [[nodiscard]] Result<void> add(std::string name, const BackwardDesc& desc,
                                 std::function<BackwardTensors(const ModuleCall&)> tensors);
  void add(std::string name, AttentionPlan plan, std::function<AttentionTensors(const ModuleCall&)> tensors);
  /// @}
  void add_tensor(LayerTensor tensor);
  /// Adds a tensor of the caller's that steps check by themselves, so that nothing that the layer writes lies
  /// on it; its number, for ProgramTensor::in_place_of.
  std::uint32_t add_place(ProgramTensor tensor, const Place& place);
  /// After the last step: deals out workspaces and finds where steps wait.
  void finish();

  [[nodiscard]] const Device& device() const { return device_; }
  [[nodiscard]] const MultiHeadAttentionOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<ModuleStep>& steps() const { return steps_; }
  /// The same for the caller.
  [[nodiscard]] std::vector<LayerStep> plans() const;
  [[nodiscard]] Result<void> compile() const;
  [[nodiscard]] bool is_compiled() const noexcept;
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::vector<DispatchInfo> dispatches() const;
  [[nodiscard]] PlanRequirements requirements() const;
  /// 0 for a place that no tensor has.
  [[nodiscard]] VkDeviceSize range_bytes(const Place& place, VkDeviceSize offset) const;

  [[nodiscard]] Result<std::vector<Bindings>> bind(const ModuleCall& call, VkDescriptorPool pool) const;
  /// What can be known before a step looks at the call.
  [[nodiscard]] Result<void> check(const ModuleCall& call) const;
  /// Of a call that was checked. After an error some steps are of this call and some of the one before.
  [[nodiscard]] Result<void> rewrite(std::vector<Bindings>& bindings, const ModuleCall& call) const;
  void record(VkCommandBuffer commands, const std::vector<Bindings>& bindings,
              const RecordOptions& options) const noexcept;

 private:
  template <class Plan, class Tensors>
  void push(std::string name, Plan plan, std::function<Tensors(const ModuleCall&)> tensors);

  Device device_;
  MultiHeadAttentionOptions options_;
  PieceList pieces_;
  std::uint32_t phase_ = 0;
  VkDeviceSize workspace_bytes_ = 0;
  std::vector<ModuleStep> steps_;
  std::vector<LayerTensor> tensors_;
  std::vector<ProgramTensor> placed_;  ///< all that the caller gives
  std::vector<Place> places_;          ///< of them
};

/// A plan of either pass.
struct ModuleState {
  ModuleState(const Device& device, const MultiHeadAttentionOptions& options) : program(device, options) {}

  MultiHeadAttentionDesc desc;
  MultiHeadAttentionBackwardDesc backward;
  LayerMemory memory;
  std::optional<AttentionPlan> attention;
  ModuleProgram program;
};

struct ModuleBindingsState {
  Shared<const ModuleState> plan;
  std::vector<Bindings> steps;
  ParameterPiece head_shares;
  bool is_complete = true;  ///< all steps are of one call
};

}  // namespace vkattn::detail

// The program of a layer, joined from the programs of its steps: plans of other folders one after the other,
// with a barrier before a step that reads the results of another.
#pragma once

#include <vkattn/backward.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/multi_head_attention.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/message.hpp"
#include "module/layer_shape.hpp"
#include "operation/plan_state.hpp"
#include "program/program.hpp"

namespace vkattn {

// Instantiated beside their operations, which layers do not see: sources of a folder may be compiled as one.
extern template class PlanOf<AttentionPlan, AttentionDesc, AttentionTensors>;
extern template class PlanOf<AppendPlan, AppendDesc, AppendTensors>;
extern template class PlanOf<BackwardPlan, BackwardDesc, BackwardTensors>;
extern template class PlanOf<MatmulPlan, MatmulDesc, MatmulTensors>;

}  // namespace vkattn

namespace vkattn::detail {

/// A step at its place among the others. Steps of one phase work on different data.
struct PlacedStep {
  LayerStep step;
  OperationCall tensors;  ///< symbols (layer_symbols.hpp)
  std::uint32_t phase = 0;
  std::uint32_t first_pass = 0;  ///< number of its first pass among all passes
  bool waits = false;            ///< the first of its phase that records something, and not the first of all
};

class LayerProgram {
 public:
  /// `tensors` is the number of tensors of a call, as for_each_range() counts them. Keeps references to
  /// device and options.
  LayerProgram(const Device& device, const MultiHeadAttentionOptions& options, std::size_t tensors);

  /// Memory that steps share, as a symbol.
  [[nodiscard]] BufferRange take(VkDeviceSize bytes);
  /// Steps that are added from here on read results of the steps before.
  void begin_phase() { ++phase_; }
  /// Plans the step and adds it.
  /// @{
  [[nodiscard]] Result<void> add(std::string name, const MatmulDesc& desc, const MatmulTensors& tensors);
  [[nodiscard]] Result<void> add(std::string name, const AppendDesc& desc, const AppendTensors& tensors);
  [[nodiscard]] Result<void> add(std::string name, const BackwardDesc& desc, const BackwardTensors& tensors);
  [[nodiscard]] Result<void> add(std::string name, const AttentionDesc& desc,
                                 const AttentionTensors& tensors);
  /// @}
  /// Gives a caller's tensor a name and a shape of the layer's own, in place of those of its steps.
  void name_tensor(const BufferRange& symbol, ProgramTensor tensor);
  /// Makes the numbers whose symbol is kHeadSharesNumber: 1 / query_heads for each query head.
  void set_head_shares(std::int64_t query_heads);

  /// After the last step: deals out workspaces, finds the steps that wait, and joins all.
  [[nodiscard]] ProgramDesc finish();
  /// In the order in which they are recorded.
  [[nodiscard]] std::vector<PlacedStep> take_steps() { return std::move(steps_); }

 private:
  template <class Plan>
  [[nodiscard]] Result<void> push(std::string name, const Result<Plan>& plan,
                                  const typename Plan::Tensors& tensors);
  [[nodiscard]] PlanOptions options_of(const PlanOptions& step) const;
  void join_step(PlacedStep& step, VkDeviceSize workspace_byte);

  const Device& device_;
  const MultiHeadAttentionOptions& options_;
  PieceList pieces_;
  std::uint32_t phase_ = 0;
  std::vector<PlacedStep> steps_;
  std::vector<float> head_shares_;
  VkDeviceSize head_shares_byte_ = 0;
  ProgramDesc whole_;
};

/// The plan of a step, of any kind.
[[nodiscard]] const Plan& plan_of(const LayerStep& step);

}  // namespace vkattn::detail

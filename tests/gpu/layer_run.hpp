// A layer of multi-head attention on a device: inputs between NaN, poisoned outputs between guard bands, a
// poisoned workspace, and the comparison with the same layer in float64.
#pragma once

#include <vkattn/multi_head_attention.hpp>
#include <vkattn/runtime.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "harness/tensor_buffer.hpp"
#include "support/layer_reference.hpp"

namespace vkattn::tests {

/// Random numbers for everything that a layer reads except features, rounded to its storage types.
[[nodiscard]] LayerData random_layer_data(const MultiHeadAttentionDesc& desc, std::uint64_t seed);

/// The bytes of a parameter. Those of random_layer_data() are stored exactly.
[[nodiscard]] std::vector<std::byte> stored_parameter(const ParameterShape& parameter,
                                                      std::span<const float> values);

class LayerRun {
 public:
  /// Allocates and writes the tensors. `features` is MultiHeadAttentionTensors::attention. Tensors begin
  /// `shift` elements after an aligned place.
  [[nodiscard]] static LayerRun create(const Runtime& runtime, const MultiHeadAttentionDesc& desc,
                                       const LayerData& data, const AttentionTensors& features,
                                       std::int64_t shift = 0);

  /// Poisons what the plan writes, or fills it with ones if the plan adds to it. Then runs the plan and
  /// waits. `slice` dispatches are submitted at a time.
  /// @{
  void execute(const MultiHeadAttentionPlan& plan, std::uint32_t slice = ~0U);
  void execute(const MultiHeadAttentionBackwardPlan& plan, std::uint32_t slice = ~0U);
  /// @}

  /// Compares the outputs with the expected ones. Returns a message if something is wrong. `share` gets the
  /// largest share of a tolerance.
  [[nodiscard]] std::string check(const LayerResults& expected, double& share) const;
  /// Every byte of the outputs and of their guard bands.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> bytes() const;

  [[nodiscard]] MultiHeadAttentionTensors tensors() const;
  [[nodiscard]] MultiHeadAttentionBackwardTensors backward_tensors() const;
  /// The most that an element may be off: this many times the unit roundoff of the coarsest type that it
  /// passes, times the largest magnitude of its tensor.
  static constexpr double kUnits = 64;

 private:
  struct Tensor {
    harness::TensorBuffer buffer;
    DataType type = DataType::kFloat32;
    std::int64_t rows = 0, columns = 0;
    bool adds = false;  ///< results are added to ones
  };
  using Tensors = std::map<std::string, Tensor>;

  LayerRun(const Runtime& runtime, MultiHeadAttentionDesc desc)
      : runtime_(&runtime), desc_(std::move(desc)) {}
  void add(const std::string& name, std::int64_t rows, std::int64_t columns, DataType type,
           const std::vector<float>* values);
  void add_parameter(const ParameterShape& parameter, std::span<const float> values);
  void place_all(const LayerData& data);
  void prepare(const std::string& name, bool adds);
  /// Prepares the gradients of the mask, which is written without padding, of slopes and of sinks.
  void prepare_score_gradients(const MultiHeadAttentionBackwardDesc& desc);
  [[nodiscard]] Buffer poisoned_buffer(VkDeviceSize bytes) const;
  [[nodiscard]] BufferRange range(const std::string& name) const;
  template <class Plan, class CallTensors>
  void run_plan(const Plan& plan, const CallTensors& call_tensors, std::uint32_t slice) const;
  [[nodiscard]] std::string compare(const std::string& name, const std::vector<double>& expected,
                                    double& share) const;

  const Runtime* runtime_;
  MultiHeadAttentionDesc desc_;
  AttentionTensors features_;
  std::int64_t shift_ = 0;
  Tensors tensors_;
  Buffer saved_;
  std::vector<bool> is_row_written_;  ///< rows of the output; empty: all are written
  std::vector<std::string> written_;  ///< tensors that the last execution of each plan wrote
};

}  // namespace vkattn::tests

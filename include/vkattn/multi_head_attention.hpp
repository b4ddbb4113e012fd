/// @file
/// Multi-head attention as a layer: projections, attention, output projection, and its gradients.
/// docs/semantics.md ("Multi-head attention") defines every result. Parameters lie as PyTorch's
/// nn.MultiheadAttention stores them.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/attention_plan.hpp>
#include <vkattn/attention_tensors.hpp>
#include <vkattn/backward.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/cache.hpp>
#include <vkattn/data_type.hpp>
#include <vkattn/device.hpp>
#include <vkattn/initialisation.hpp>
#include <vkattn/matmul.hpp>
#include <vkattn/recording.hpp>
#include <vkattn/result.hpp>
#include <vkattn/shared.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vkattn {

/// Which inputs a layer has.
enum class LayerInputs : std::uint32_t {
  kSelf = 0,      ///< one: Q, K and V are projections of `query`
  kCross = 1,     ///< two: K and V are projections of `key`, the memory of a decoder
  kSeparate = 2,  ///< three, as the arguments query, key and value of nn.MultiheadAttention
};

/// A layer: with W_Q, W_K, W_V and W_O stored (outputs, inputs) and x one row of an input,
///
///     Q = x_query W_Q^T + b_Q     K = x_key W_K^T + b_K     V = x_value W_V^T + b_V
///     output = concat over query heads of attention(Q, K, V)[head]  W_O^T + b_O
///
/// Shapes: inputs `query` and `output` (batch, query_length, d_model), `key` (batch, kv_length,
/// key_input_dim), `value` (batch, kv_length, value_input_dim), all without padding; packed sequences have
/// rows in place of batch and length. Head h of Q is its elements h * head_dim on, of K and V likewise; these
/// are read where the projections put them.
struct MultiHeadAttentionDesc {
  using Plan = class MultiHeadAttentionPlan;  ///< what computes it

  /// The problem of the heads: batch, lengths, heads, dims, causality, masks, dropout, weights and all else
  /// that AttentionDesc has. head_dim not given: d_model / query_heads. kv_length not given where K and V are
  /// of `query`: query_length. Storage of Q, K, V and O, and has_lse, are the layer's own and stay at their
  /// defaults here; with a cache `layout`, `key` and `value` are those of the cache.
  AttentionDesc attention{};
  std::int64_t d_model = kUnset;            ///< elements of a row of `query` and `output`; must be given
  LayerInputs inputs = LayerInputs::kSelf;  ///< which tensors the projections read
  std::int64_t key_input_dim = kUnset;      ///< of a row of `key`; not given: d_model (kdim in PyTorch)
  std::int64_t value_input_dim = kUnset;    ///< of a row of `value`; not given: key_input_dim of kCross, else
                                            ///< d_model (vdim)

  /// W_Q, W_K and W_V are one tensor, in_proj_weight; else q_proj_weight, k_proj_weight and v_proj_weight.
  /// Packed weights need one input dim; projections that read one input become one multiplication.
  bool packed_weights = true;
  bool has_input_bias = true;   ///< in_proj_bias: b_Q, b_K and b_V, packed in either case
  bool has_output_bias = true;  ///< out_proj_bias: b_O

  /// Of inputs, output and what lies between: float32, float16 or bfloat16. Sums are float32.
  DataType type = DataType::kFloat32;
  /// Of weights and biases likewise; not given: `type`.
  std::optional<DataType> parameter_type{};
  /// The type of weights alone, if it is not parameter_type: also q8_0 or q4_0, blocks of 32 along the
  /// inputs, which quantise_desc(ParameterShape) makes of floats. Rows are then multiples of 32, and the
  /// layer has no gradients.
  std::optional<DataType> weight_type{};
  /// As TensorDesc::alignment_bytes, of inputs, output, parameters and their gradients.
  std::uint32_t alignment_bytes = 16;

  /// Rotary embedding of Q and K before attention. Only of kSelf. Positions are counted from 0 in each batch
  /// entry, or from `positions` where there is a cache.
  RotaryDesc rotary{};

  /// K and V of the rows of `query`, which are new, are appended to cache_key and cache_value, and attention
  /// is over all that the cache holds: attention.kv_length is then its most rows, attention.cache its
  /// mapping, attention.key and attention.value its storage (any type), and query_length is the most new rows
  /// of a batch entry. Of kSelf; causality and windows take Align::kBottomRight.
  bool has_cache = false;

  /// Write averaged_weights, float32 (batch, query_length, kv_length): the mean of the weights over the query
  /// heads (need_weights with average_attn_weights in PyTorch, where dropout is in them). Of each head:
  /// attention.weights = WeightsStage::kProbabilities.
  bool has_averaged_weights = false;
  /// What `output` holds is added to it, as of a residual connection.
  bool adds_to_output = false;
  /// Keep what gradients need in MultiHeadAttentionTensors::saved, else in the workspace.
  bool saves_for_gradients = false;

  /// This layer with everything given that follows: dims, lengths and the whole attention problem, with the
  /// strides by which it reads projections. The plan has it as desc(). It is of no use for a descriptor that
  /// validate() refuses.
  [[nodiscard]] MultiHeadAttentionDesc resolved() const;

  bool operator==(const MultiHeadAttentionDesc&) const = default;  ///< equal in every member
};

/// Where parameters lie, or their gradients; those that the layer has not are null. Weights are (outputs,
/// inputs), rows without padding.
struct MultiHeadAttentionParameters {
  BufferRange in_proj_weight{};   ///< rows of W_Q, W_K, W_V; where packed_weights
  BufferRange q_proj_weight{};    ///< W_Q (query_heads * head_dim, d_model); where not packed_weights
  BufferRange k_proj_weight{};    ///< W_K (kv_heads * head_dim, key_input_dim); likewise
  BufferRange v_proj_weight{};    ///< W_V (kv_heads * value_dim, value_input_dim); likewise
  BufferRange in_proj_bias{};     ///< b_Q, b_K, b_V, side by side; where has_input_bias
  BufferRange out_proj_weight{};  ///< W_O (d_model, query_heads * value_dim)
  BufferRange out_proj_bias{};    ///< b_O (d_model); where has_output_bias
};

/// A parameter that a layer has.
struct ParameterShape {
  std::string_view
      name;  ///< as nn.MultiheadAttention's state_dict has it: in_proj_weight, out_proj.weight, …
  BufferRange MultiHeadAttentionParameters::*range = nullptr;  ///< its member
  std::int64_t rows = 0;                                       ///< outputs; of a bias its elements
  std::int64_t columns = 0;            ///< inputs; 0 of a bias, which has one dimension
  DataType type = DataType::kFloat32;  ///< that it is stored as

  /// All of them.
  [[nodiscard]] std::int64_t elements() const { return columns == 0 ? rows : rows * columns; }
};

/// The parameters of a valid descriptor, in the order of MultiHeadAttentionParameters.
[[nodiscard]] std::vector<ParameterShape> parameters(const MultiHeadAttentionDesc& desc);
/// Errors: a parameter of nn.MultiheadAttention that no layer here has (bias_k and bias_v, of add_bias_kv). A
/// file with one of them holds another function than its other parameters do.
[[nodiscard]] Result<void> check_parameter_name(std::string_view name);
/// Whether a tensor of a file is this parameter of a valid descriptor. Errors: another shape (both are
/// named), another name (all are listed), or that of check_parameter_name().
[[nodiscard]] Result<void> check_parameter(const MultiHeadAttentionDesc& desc, std::string_view name,
                                           std::span<const std::int64_t> shape);
/// Converting a weight of floats, from AppendTensors::key to AppendTensors::cache_key, to the q8_0 or q4_0
/// that its `type` says: the other quantise_desc(), over blocks.
[[nodiscard]] AppendDesc quantise_desc(const ParameterShape& weight, DataType source = DataType::kFloat32);
/// First values of a parameter. A bias is 0. A weight has its columns as fan_in and its rows as fan_out (the
/// packed weight all its rows), as in nn.MultiheadAttention. The parameter's name counts like the seed: one
/// seed gives each parameter of a layer its own numbers, and so does the next seed.
[[nodiscard]] std::vector<float> initial_values(const ParameterShape& parameter, Initialisation how,
                                                std::uint64_t seed);
/// The same, written to memory of parameter.elements() numbers.
void initial_values(const ParameterShape& parameter, Initialisation how, std::uint64_t seed,
                    std::span<float> values);

/// The tensors of one execution. Tensors that the descriptor does not use may be null. A written tensor, or
/// the workspace, that overlaps another tensor is refused. adds_to_output adds to the content of `output`,
/// but `output` is still no place for an input.
struct MultiHeadAttentionTensors {
  BufferRange query{};                        ///< the input of Q, and of K and V where LayerInputs::kSelf
  BufferRange key{};                          ///< the input of K, and of V where LayerInputs::kCross
  BufferRange value{};                        ///< the input of V, of LayerInputs::kSeparate
  BufferRange output{};                       ///< written
  MultiHeadAttentionParameters parameters{};  ///< read
  /// MultiHeadAttentionPlan::saved_bytes() from a multiple of 16 on: written, and read by the backward pass.
  BufferRange saved{};
  BufferRange averaged_weights{};  ///< float32; written
  /// Tensors that features of `attention` ask for: kv_lengths, mask, weights (written), …, and the dropout
  /// seed. Its query, key, value, output and lse are not looked at. With a cache, kv_lengths are written
  /// (`positions` plus new rows) and then read by attention; they may be `positions` itself.
  AttentionTensors attention{};
  BufferRange cache_key{};    ///< of which the new rows are written
  BufferRange cache_value{};  ///< likewise
  BufferRange positions{};    ///< int32, one per batch entry: rows that the cache holds already
  BufferRange frequencies{};  ///< float32, rotary.dims / 2, where rotary.has_frequencies
};

/// How to plan a layer. The library decides options that are left at their defaults.
struct MultiHeadAttentionOptions {
  /// As in PlanOptions, for the layer and each of its steps. These members of the steps' own options are not
  /// looked at, except max_dispatch_ns, which comes before this one.
  /// @{
  VkPipelineCache pipeline_cache = {};  ///< owned by the caller; may be null
  std::uint64_t max_dispatch_ns = 0;
  bool capture_statistics = false;
  bool push_descriptors = false;
  bool deferred_compilation = false;  ///< leave compilation to compile()
  /// @}
  PlanOptions attention{};  ///< of the attention in the forward pass
  PlanOptions backward{};   ///< of the gradients of attention
  PlanOptions matmul{};     ///< of every projection
  /// In place of one made with `attention`: a plan for MultiHeadAttentionDesc::resolved().attention.
  std::optional<AttentionPlan> attention_plan{};
  /// Functions that make the plans of steps on the layer's device, in place of create(), so that each can be
  /// tested before it is used (self_test.hpp). They are called only while the layer is planned. Plans on
  /// another device or of another descriptor are refused.
  /// @{
  std::function<Result<AttentionPlan>(const AttentionDesc&, const PlanOptions&)> make_attention{};
  std::function<Result<BackwardPlan>(const BackwardDesc&, const PlanOptions&)> make_backward{};
  std::function<Result<MatmulPlan>(const MatmulDesc&, const PlanOptions&)> make_matmul{};
  /// @}

  /// The options of the layer as a whole.
  [[nodiscard]] PlanOptions plan_options() const;
};

/// A plan that a layer is made of. It computes its part by itself, and shares its pipelines with the layer;
/// with deferred_compilation it is compiled by its own compile().
struct LayerStep {
  std::string name;  ///< as the layer's describe() has it: projection to Q K V, attention, …
  std::variant<MatmulPlan, AttentionPlan, BackwardPlan, AppendPlan> plan;  ///< what computes it
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MultiHeadAttentionDesc& desc);

/// A plan of the forward pass: multiplications, an append where there is a cache, attention, and the barriers
/// between them, joined to one program. Its workspace holds what lies between the steps. Errors of create():
/// also a tensor that does not fit maxStorageBufferRange, and those of its steps, by their names.
class MultiHeadAttentionPlan : public PlanOf<MultiHeadAttentionPlan, MultiHeadAttentionDesc,
                                             MultiHeadAttentionTensors, MultiHeadAttentionOptions> {
 public:
  /// The plan of its attention.
  [[nodiscard]] const AttentionPlan& attention() const;
  /// The plans that it is made of, in the order in which they are recorded.
  [[nodiscard]] std::vector<LayerStep> steps() const;
  /// Bytes of MultiHeadAttentionTensors::saved; 0 without saves_for_gradients.
  [[nodiscard]] VkDeviceSize saved_bytes() const;

  using PlanOf::range_bytes;
  /// The same of a parameter.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange MultiHeadAttentionParameters::*tensor,
                                         VkDeviceSize offset = 0) const;
  /// The same of what features of attention ask for.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange AttentionTensors::*tensor,
                                         VkDeviceSize offset = 0) const;

 private:
  friend PlanOf;
  explicit MultiHeadAttentionPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

/// The gradients of a layer. With L a number that depends on `output` alone, grad_output is dL/doutput.
struct MultiHeadAttentionBackwardDesc {
  using Plan = class MultiHeadAttentionBackwardPlan;  ///< what computes it

  MultiHeadAttentionDesc forward{};  ///< as the forward pass was planned, with saves_for_gradients

  bool has_grad_query = true;       ///< write grad_query: all of the input's of LayerInputs::kSelf
  bool has_grad_key = true;         ///< write grad_key, where the layer has this input
  bool has_grad_value = true;       ///< write grad_value, likewise
  bool has_grad_parameters = true;  ///< write the gradients of all parameters
  /// Gradients of what features of forward.attention take: has_grad_mask, grad_mask, has_grad_alibi_slopes
  /// and so on. Its problem and the gradients of Q, K and V are the layer's own and stay at their defaults
  /// here.
  BackwardDesc attention{};
  bool adds_to_inputs = false;      ///< what grad_query, grad_key and grad_value hold is added to them
  bool adds_to_parameters = false;  ///< likewise of parameters: sums over several batches
  /// Of the parameters' gradients: float32, float16 or bfloat16; not given: parameter_type.
  std::optional<DataType> grad_parameter_type{};

  /// The same with everything given.
  [[nodiscard]] MultiHeadAttentionBackwardDesc resolved() const;

  bool operator==(const MultiHeadAttentionBackwardDesc&) const = default;  ///< equal in every member
};

/// The tensors of one execution. No gradient may overlap another tensor, nor the workspace: such
/// bindings are refused.
struct MultiHeadAttentionBackwardTensors {
  MultiHeadAttentionTensors
      forward{};              ///< those of the forward pass, with `saved` as it has written it; read
  BufferRange grad_output{};  ///< with the shape of output; read
  BufferRange grad_query{};   ///< with the shape of query; written
  BufferRange grad_key{};     ///< with the shape of key; written
  BufferRange grad_value{};   ///< with the shape of value; written
  MultiHeadAttentionParameters grad_parameters{};  ///< written
  /// Gradients that MultiHeadAttentionBackwardDesc::attention asks for; written. Those of Q, K, V and O, and
  /// `forward`, are not looked at.
  BackwardTensors attention{};
};

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const MultiHeadAttentionBackwardDesc& desc);

/// A plan of the gradients, as MultiHeadAttentionPlan. Two runs with the same inputs give the same bits.
class MultiHeadAttentionBackwardPlan
    : public PlanOf<MultiHeadAttentionBackwardPlan, MultiHeadAttentionBackwardDesc,
                    MultiHeadAttentionBackwardTensors, MultiHeadAttentionOptions> {
 public:
  /// As that of MultiHeadAttentionPlan.
  [[nodiscard]] std::vector<LayerStep> steps() const;

  using PlanOf::range_bytes;
  /// The same of a parameter's gradient.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange MultiHeadAttentionParameters::*gradient,
                                         VkDeviceSize offset = 0) const;
  /// The same of MultiHeadAttentionBackwardTensors::attention.
  [[nodiscard]] VkDeviceSize range_bytes(BufferRange BackwardTensors::*gradient,
                                         VkDeviceSize offset = 0) const;
  /// The same of MultiHeadAttentionBackwardTensors::forward, which is read.
  /// @{
  [[nodiscard]] VkDeviceSize forward_range_bytes(BufferRange MultiHeadAttentionTensors::*tensor,
                                                 VkDeviceSize offset = 0) const;
  [[nodiscard]] VkDeviceSize forward_range_bytes(BufferRange MultiHeadAttentionParameters::*tensor,
                                                 VkDeviceSize offset = 0) const;
  [[nodiscard]] VkDeviceSize forward_range_bytes(BufferRange AttentionTensors::*tensor,
                                                 VkDeviceSize offset = 0) const;
  /// @}

 private:
  friend PlanOf;
  explicit MultiHeadAttentionBackwardPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn

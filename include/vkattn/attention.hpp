/// @file
/// What to compute: a value type without handles. docs/semantics.md defines every result.
#pragma once

#include <vkattn/cache_layout.hpp>
#include <vkattn/data_type.hpp>
#include <vkattn/mask.hpp>
#include <vkattn/result.hpp>
#include <vkattn/score_shaders.hpp>
#include <vkattn/shared.hpp>
#include <vkattn/strides.hpp>

#include <cstdint>
#include <optional>

/// Attention on Vulkan devices: describe a problem, plan it, bind tensors, record. Everything of the library
/// in C++ is here.
namespace vkattn {

/// A size that was not given. A size that follows from others is derived from them; validate() names any
/// other that is missing.
inline constexpr std::int64_t kUnset = INT64_MIN;

/// Storage of Q, K, V or O: element type, strides, and what the caller promises about alignment.
struct TensorDesc {
  DataType type = DataType::kFloat32;  ///< Q and O: float32, float16 or bfloat16; K and V: any
  /// Not given: the strides of the descriptor's `layout`.
  std::optional<Strides> strides{};
  /// Promised alignment of the first element in its buffer: a power of two, or 0 for the element's size
  /// alone. With 16 the kernels load 16 bytes at a time if the strides allow it too. With less they are
  /// slower, and matrix2 refuses bfloat16. A binding that is aligned to less than promised is refused. Block
  /// formats need strides that are multiples of 32 and a dim stride of 1.
  std::uint32_t alignment_bytes = 16;

  bool operator==(const TensorDesc&) const = default;  ///< equal in every member
};

/// The usual memory orders, without padding.
enum class Layout : std::uint32_t {
  kBhsd = 0,  ///< (batch, head, length, dim)
  kBshd = 1,  ///< (batch, length, head, dim)
  /// One tensor of Q, K and V, (batch, length, query_heads + 2 * kv_heads, dim). O is as in kBshd.
  kPackedQkv = 2,
};

/// A stage at which the attention weights of every query and key can be had, as ONNX numbers them.
enum class WeightsStage : std::uint32_t {
  kNone = 0,           ///< none are written
  kScores = 1,         ///< scale * Q K^T
  kSoftcap = 2,        ///< after softcap
  kMasked = 3,         ///< after bias, ALiBi and masks: -inf where hidden
  kProbabilities = 4,  ///< after softmax, before dropout: 0 where hidden
};

/// How many queries, or keys, or new rows a batch entry has.
enum class Lengths : std::uint32_t {
  kUniform = 0,   ///< every entry has the same number
  kPerEntry = 1,  ///< a device buffer of one int32 per batch entry says (seqused_k in FlashAttention)
  kPacked = 2,    ///< entries lie one after the other without padding, and a device buffer of batch + 1 int32
                  ///< says where each begins (varlen, cu_seqlens)
};

/// Which key position lines up with query 0. Never inferred from the shape.
enum class Align {
  kTopLeft,      ///< 0
  kBottomRight,  ///< kv_length[b] - query_length[b], with the lengths of the batch entry
  kOffset,       ///< AttentionDesc::offset
};

/// One forward attention problem: softmax(scale * Q K^T + mask) V for each batch entry and query head.
/// Query head h reads KV head h / (query_heads / kv_heads).
///
/// Shapes: Q (batch, query_heads, query_length, head_dim), K (batch, kv_heads, kv_length, head_dim),
/// V (batch, kv_heads, kv_length, value_dim), O (batch, query_heads, query_length, value_dim),
/// lse (batch, query_heads, query_length), natural logarithm, float32.
struct AttentionDesc {
  using Plan = class AttentionPlan;  ///< what computes it

  std::int64_t batch = 1;              ///< batch entries; batch * query_heads is below 2^31
  std::int64_t query_heads = 1;        ///< a multiple of kv_heads
  std::int64_t kv_heads = kUnset;      ///< not given: query_heads
  std::int64_t query_length = kUnset;  ///< queries of a batch entry, or the most of one; must be given
  std::int64_t kv_length = kUnset;     ///< keys of a batch entry, or the most of one; must be given
  std::int64_t head_dim = kUnset;      ///< elements of a query or key, 1 to kMaxHeadDim; must be given
  std::int64_t value_dim = kUnset;     ///< elements of a value, 1 to kMaxHeadDim; not given: head_dim

  /// The memory order of Q, K, V and O without strides of their own. K and V of a ring or of pages lie in
  /// kBshd's order if kBshd is asked for, else in kBhsd's. Lse is always (batch, head, row), weights and mask
  /// are (batch, head, query, key); rows of a mask of bits are whole words.
  Layout layout = Layout::kBhsd;
  TensorDesc query{};   ///< Q
  TensorDesc key{};     ///< K
  TensorDesc value{};   ///< V
  TensorDesc output{};  ///< O

  /// Multiplies Q K^T; up to 2.358e38 in magnitude, 1/sqrt(head_dim) where not given.
  std::optional<float> scale{};

  /// Query i sees key j only where j <= i + offset, with the offset named by `align`.
  bool causal = false;
  Align align = Align::kTopLeft;  ///< which key lines up with query 0, for causality, window and ALiBi
  std::int64_t offset = 0;        ///< of Align::kOffset: a key position, -2^30 to 2^30

  /// kPerEntry: rows i >= query_lengths[b] are not written; values are clamped to [0, query_length] on the
  /// device. kPacked: Q, O and lse are tensors of total_query_length rows without a batch dimension, in which
  /// batch entry b has the rows cumulative_query_lengths[b] … [b + 1] - 1. query_length is then the longest
  /// sequence that may occur; what lies beyond it or beyond the tensors is cut off, and batch strides of the
  /// three are ignored.
  Lengths query_lengths = Lengths::kUniform;
  /// kPerEntry: keys j < kv_lengths[b] are visible; values are clamped to [0, kv_length]. kPacked: K and V
  /// are packed like Q, by cumulative_kv_lengths and total_kv_length; needs packed queries, and keys in one
  /// piece. Packed queries over a cache (continuous batching) take one of the other two.
  Lengths kv_lengths = Lengths::kUniform;
  std::int64_t total_query_length = kUnset;  ///< of packed queries
  std::int64_t total_kv_length = kUnset;     ///< of packed keys

  /// Where K and V of a cache lie; kv_length is then the longest that may occur.
  CacheLayout cache{};

  /// Above 0, from 1e-30 to 1e30: scores become softcap * tanh(score / softcap), before bias and mask.
  float softcap = 0;
  MaskDesc mask{};  ///< AttentionTensors::mask: what is added to scores, or which keys are hidden
  /// With `causal`, both hold.
  SlidingWindow window{};
  Alibi alibi = Alibi::kNone;  ///< which slopes are subtracted, times the distance, or multiply the mask
  /// AttentionTensors::sinks, float32, one per query head: a logit in the softmax that has no value.
  bool has_sinks = false;
  /// Share of the probabilities that are dropped, 0 <= dropout <= 1; the others are multiplied by 1 / (1 -
  /// dropout), computed from this float32. With 1 all are dropped, and O is 0. Philox4x32-10 (Salmon et al.,
  /// SC 2011), keyed by AttentionTensors::dropout_seed, chooses them.
  float dropout = 0;

  /// A function of the user's own that changes scores after softcap or hides keys, made by
  /// vkattn/score_function.hpp (elsewhere: score_mod, mask_mod); its tables are
  /// AttentionTensors::score_buffers.
  Shared<const ScoreShaders> score_function{};

  /// Write the log-sum-exp of each row; -inf for a row that sees nothing. lse_strides.dim is ignored.
  bool has_lse = false;
  std::optional<Strides> lse_strides{};  ///< not given: (batch, head, row) without padding

  /// Write the weights of one stage, float32 (batch, query_heads, query_length, kv_length). Nothing else here
  /// takes memory that grows with query_length x kv_length. For a query i < query_lengths[b] the weights of
  /// every key are written.
  WeightsStage weights = WeightsStage::kNone;
  std::optional<Strides> weights_strides{};  ///< not given: (batch, head, query, key) without padding

  /// Sets `layout` and forgets all strides that were given.
  void set_layout(Layout new_layout);
  /// Sets the storage type of Q, K, V and O.
  void set_type(DataType type);
  /// The scale in force.
  [[nodiscard]] float effective_scale() const;
  /// That Q, O and lse have no batch dimension.
  [[nodiscard]] bool has_packed_queries() const { return query_lengths == Lengths::kPacked; }
  /// That K and V have no batch dimension.
  [[nodiscard]] bool has_packed_keys() const { return kv_lengths == Lengths::kPacked; }
  /// Nothing to write: batch, query_heads, query_length or, of packed queries, total_query_length is 0.
  [[nodiscard]] bool is_empty() const {
    return batch == 0 || query_heads == 0 || query_length == 0 ||
           (has_packed_queries() && total_query_length == 0);
  }
  /// This problem with kv_heads, value_dim and all strides given, as AttentionPlan::desc() has them. Lengths
  /// and head_dim that were not given stay so.
  [[nodiscard]] AttentionDesc resolved() const;

  /// Equal in every member; of score functions the same object.
  bool operator==(const AttentionDesc&) const = default;
};

/// Largest head_dim and value_dim.
inline constexpr std::int64_t kMaxHeadDim = 576;

/// Bytes from a tensor's first element to the end of its last (a BufferRange reaches to the end of a 32-bit
/// word: AttentionPlan::range_bytes()), 0 for a tensor with no elements; an error
/// where it has no strides, the number does not fit 63 bits, or a size or stride is negative.
[[nodiscard]] Result<std::int64_t> tensor_bytes(const TensorDesc& tensor, std::int64_t batch,
                                                std::int64_t heads, std::int64_t rows, std::int64_t dims);

/// The extents of a tensor of a problem: (batch, head, row, dim).
struct TensorExtents {
  std::int64_t batch = 0;  ///< batch entries; 1 of packed sequences; of pages, pages
  std::int64_t heads = 0;  ///< query heads or KV heads
  std::int64_t rows = 0;   ///< queries or keys
  std::int64_t dims = 0;   ///< elements of a row

  bool operator==(const TensorExtents&) const = default;  ///< equal in every member
};

/// The extents of Q, O and lse: packed tensors are one batch entry of total_query_length rows. `dims` is
/// head_dim, value_dim or 1.
[[nodiscard]] TensorExtents query_extents(const AttentionDesc& desc, std::int64_t dims);
/// The extents of K and V: packed tensors are one batch entry of total_kv_length rows; a ring has ring_length
/// rows; pages are batch entries of page_size rows.
[[nodiscard]] TensorExtents key_extents(const AttentionDesc& desc, std::int64_t dims);
/// The extents of the weights: rows are queries, dims are keys.
[[nodiscard]] TensorExtents score_extents(const AttentionDesc& desc);
/// The extents of the mask, those of the scores with the mask's own heads. It may repeat along each.
[[nodiscard]] TensorExtents mask_extents(const AttentionDesc& desc);
/// Bytes from a mask's first element to the end of its last.
[[nodiscard]] Result<std::int64_t> mask_bytes(const AttentionDesc& desc);

/// Checks every rule that needs no device; the first broken one is the error. Sizes up to 2^30 rows.
[[nodiscard]] Result<void> validate(const AttentionDesc& desc);

}  // namespace vkattn

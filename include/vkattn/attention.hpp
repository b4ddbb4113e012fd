// What to compute: a value type without handles. docs/semantics.md defines every result.
#pragma once

#include <vkattn/data_type.hpp>
#include <vkattn/result.hpp>

#include <cstdint>
#include <optional>

namespace vkattn {

/// Distances in elements (not bytes) between neighbours along each dimension of a rank-4 tensor
/// (batch, head, row, dim). A row is one query or key position. Inputs may repeat along a dimension with
/// stride 0; elements of an output must not overlap. Strides are never negative.
struct Strides {
  std::int64_t batch = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t dim = 1;

  bool operator==(const Strides&) const = default;
};

/// Storage of Q, K, V or O: element type, strides, and what the caller promises about alignment.
struct TensorDesc {
  DataType type = DataType::kFloat32;
  Strides strides;
  /// Alignment in bytes of the tensor's first element, a power of two; 0 means the element's size. 16 allows
  /// 16-byte loads where the strides allow them too. A binding aligned to less is refused.
  std::uint32_t alignment_bytes = 0;

  bool operator==(const TensorDesc&) const = default;
};

/// The usual memory orders. A packed QKV tensor is (batch, length, query_heads + 2 * kv_heads, dim).
enum class Layout { kBhsd, kBshd, kPackedQkv };

/// Which key position lines up with query 0. Never inferred from the shape.
enum class Align {
  kTopLeft,      ///< 0
  kBottomRight,  ///< kv_length[b] - query_length, with the key length of the batch entry
  kOffset,       ///< AttentionDesc::offset
};

/// One forward attention problem: softmax(scale * Q K^T + mask) V for each batch entry and query head.
/// Query head h reads KV head h / (query_heads / kv_heads).
///
/// Shapes: Q (batch, query_heads, query_length, head_dim), K (batch, kv_heads, kv_length, head_dim),
/// V (batch, kv_heads, kv_length, value_dim), O (batch, query_heads, query_length, value_dim),
/// lse (batch, query_heads, query_length), natural logarithm, float32.
struct AttentionDesc {
  std::int64_t batch = 1;
  std::int64_t query_heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t query_length = 0;
  std::int64_t kv_length = 0;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 64;

  TensorDesc query;
  TensorDesc key;
  TensorDesc value;
  TensorDesc output;

  /// Multiplies Q K^T; any finite value, 1/sqrt(head_dim) where not given.
  std::optional<float> scale;

  /// Query i sees key j only where j <= i + offset, with the offset named by `align`.
  bool causal = false;
  Align align = Align::kTopLeft;
  std::int64_t offset = 0;

  /// A device buffer of one int32 per batch entry limits the visible keys: j < kv_lengths[b]. Values are
  /// clamped to [0, kv_length] on the device.
  bool has_kv_lengths = false;

  /// Write the log-sum-exp of each row; -inf for a row that sees nothing. lse_strides.dim is ignored.
  bool has_lse = false;
  Strides lse_strides;

  /// Sets all strides for tensors without padding in the given memory order (lse is always batch, head, row).
  void set_layout(Layout layout);
  /// Sets the storage type of Q, K, V and O.
  void set_type(DataType type);
  /// The scale in force.
  [[nodiscard]] float effective_scale() const;
  /// Nothing to write: batch, query_heads or query_length is 0.
  [[nodiscard]] bool is_empty() const { return batch == 0 || query_heads == 0 || query_length == 0; }

  bool operator==(const AttentionDesc&) const = default;
};

/// Largest head_dim and value_dim.
inline constexpr std::int64_t kMaxHeadDim = 576;

/// Bytes from a tensor's first element to the end of its last, 0 for a tensor with no elements; an error
/// where the number does not fit 63 bits or a size or stride is negative.
[[nodiscard]] Result<std::int64_t> tensor_bytes(const TensorDesc& tensor, std::int64_t batch,
                                                std::int64_t heads, std::int64_t rows, std::int64_t dims);

/// Checks every rule that needs no device; the first broken one is the error. Sizes up to 2^30 rows.
[[nodiscard]] Status validate(const AttentionDesc& desc);

}  // namespace vkattn

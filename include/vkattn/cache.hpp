/// @file
/// Writing new keys and values into a cache, in whatever layout and storage attention reads it, with rotary
/// embedding of queries and keys on the way: describe once, plan once, record as often as wanted.
#pragma once

#include <vkattn/attention.hpp>
#include <vkattn/buffer_range.hpp>
#include <vkattn/cache_layout.hpp>
#include <vkattn/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vkattn {

/// Which dims of a head are turned together.
enum class RotaryStyle : std::uint32_t {
  kNone = 0,         ///< none: there is no rotation
  kInterleaved = 1,  ///< dims 2i and 2i + 1 (RoFormer, GPT-J)
  kHalfSplit = 2,    ///< dims i and i + dims / 2 (GPT-NeoX's or "NeoX style", Llama in Transformers)
};

/// Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864): the pair i of the first `dims` dims of
/// a row at position p is turned by the angle p * f[i]; the dims behind them pass through.
///
/// Angles are reduced in 64-bit integers and the rest is float32, so that a rotated element is within
/// 2^-20 times the larger magnitude of its pair, times `magnitude`, of the exact result at any position up to
/// 2^24 (before it is rounded to its storage type). The device's own sin and cos are not used.
struct RotaryDesc {
  RotaryStyle style = RotaryStyle::kNone;  ///< with kNone the rest does not count
  /// Even, from 2 to head_dim; a multiple of 8 for kHalfSplit into keys that are stored in blocks.
  std::int64_t dims = 0;
  /// f[i] = position_scale * base^(-2i / dims), in radians for each position. Above 1.
  double base = 10000;
  /// From above 0 to 1: 1/4 fits four times the positions into the angles of training (linear interpolation).
  double position_scale = 1;
  /// f is AppendTensors::frequencies instead, dims / 2 float32: frequencies that were changed one by one, as
  /// YaRN and others do. Magnitudes up to 2^20; each is taken as the exact number that it is.
  bool has_frequencies = false;
  /// Multiplies the rotated dims (YaRN's attention factor). Finite.
  float magnitude = 1;
  /// Pairs are turned by -p * f[i], times `magnitude`: the transpose, which gradients of turned rows take.
  bool inverse = false;

  bool operator==(const RotaryDesc&) const = default;  ///< equal in every member
};

/// New rows of K and V and where they go. Row r of batch entry b has the position positions[b] + r; of a
/// cache, that is the key position at which attention finds it.
///
/// Shapes: key (batch, kv_heads, new_length, head_dim), value (batch, kv_heads, new_length, value_dim), query
/// and query_output (batch, query_heads, new_length, head_dim), cache_key and cache_value as CacheLayout has
/// them.
struct AppendDesc {
  using Plan = class AppendPlan;  ///< what computes it

  std::int64_t batch = 1;        ///< batch entries; batch * query_heads and batch * kv_heads are below 2^31
  std::int64_t query_heads = 0;  ///< 0: there are no queries to rotate
  /// 0: nothing is appended. Not given: query_heads, where that is above 0.
  std::int64_t kv_heads = kUnset;
  std::int64_t new_length = kUnset;  ///< new rows of a batch entry, or the most of one; must be given
  std::int64_t head_dim = kUnset;    ///< elements of a query or key, 1 to kMaxHeadDim; must be given
  std::int64_t value_dim = kUnset;   ///< elements of a value; 0: keys only; not given: head_dim

  /// The memory order of the new rows and the query without strides of their own; the caches lie in kBshd's
  /// order if kBshd is asked for, else in kBhsd's.
  Layout layout = Layout::kBhsd;

  /// float32, float16 or bfloat16.
  /// @{
  TensorDesc query{};
  TensorDesc key{};
  TensorDesc value{};
  /// @}
  /// Same types as above. May be the query itself, with its type and strides.
  TensorDesc query_output{};
  /// Any type. Elements that need no rounding and no rotation are copied bit for bit.
  /// @{
  TensorDesc cache_key{};
  TensorDesc cache_value{};
  /// @}

  CacheLayout cache{};                 ///< where the row of a key position lies in both
  std::int64_t cache_length = kUnset;  ///< rows of a contiguous cache; not given: 0 where there is none

  /// AppendTensors::positions, int32, one per batch entry: the number of keys that the cache holds already.
  /// If false, `position` holds for all entries. Rows at positions that the cache does not have, and rows on
  /// pages with numbers outside of [0, page_count - 1], are not written.
  bool has_positions = false;
  std::int64_t position = 0;  ///< of the first new row of each batch entry, 0 to 2^30

  /// kPerEntry: rows r >= new_lengths[b], clamped to [0, new_length], are written neither to the caches nor
  /// to query_output. kPacked (continuous batching): key, value, query and query_output are tensors of
  /// total_new_length rows without a batch dimension, and their batch strides are ignored. Batch entry b has
  /// the rows cumulative_new_lengths[b] … [b + 1] - 1; its first has the position positions[b]. The buffer is
  /// clamped as attention clamps its cumulative_query_lengths, so one buffer serves both. new_length is then
  /// the most rows that one entry may have; rows beyond it or beyond the tensors are cut off. Rows of no
  /// entry, and rows from cumulative_new_lengths[batch] on, are neither appended nor written to query_output.
  /// The latter cost next to nothing; other rows of no entry cost a walk over all entries. A row that several
  /// entries share is appended for one of them. If cumulative lengths fall, kv_lengths counts rows that were
  /// not appended.
  Lengths new_lengths = Lengths::kUniform;
  std::int64_t total_new_length = kUnset;  ///< of packed rows

  /// Write AppendTensors::kv_lengths[b] = position + new rows, clamped to [0, the room of the cache]:
  /// attention takes these as its kv_lengths. They may be `positions` itself: they are written after
  /// everything else, so a recorded step can be submitted again and again without the host. If several layers
  /// share the positions, only the last one to append may write there.
  bool writes_kv_lengths = false;

  /// The rotation of queries and keys.
  RotaryDesc rotary{};

  /// Sets `layout` and forgets all strides that were given.
  void set_layout(Layout new_layout);
  /// This problem with kv_heads, value_dim and all strides given, as AppendPlan::desc() has them. Lengths and
  /// head_dim that were not given stay so.
  [[nodiscard]] AppendDesc resolved() const;
  /// Nothing to write.
  [[nodiscard]] bool is_empty() const;

  bool operator==(const AppendDesc&) const = default;  ///< equal in every member
};

/// The extents of key, value, query and query_output: packed tensors are one batch entry of total_new_length
/// rows. `heads` is kv_heads or query_heads, `dims` head_dim or value_dim.
[[nodiscard]] TensorExtents new_row_extents(const AppendDesc& desc, std::int64_t heads, std::int64_t dims);
/// The extents of cache_key (dims = head_dim) or cache_value (dims = value_dim).
[[nodiscard]] TensorExtents cache_extents(const AppendDesc& desc, std::int64_t dims);

/// Converting a whole tensor: an append of keys alone to an empty contiguous cache, from AppendTensors::key
/// to AppendTensors::cache_key (and key_scales, one per head, where the target is kFloat8E4m3).
/// `extents.dims` is at most kMaxHeadDim.
///
/// kQ8_0 and kQ4_0 follow the published definition of llama.cpp's formats, for finite numbers: the scale
/// d is max|x| / 127, or the element of the largest magnitude / -8, the reciprocal of its float32 value
/// multiplies x, and the result is rounded to nearest (halves away from zero), or has 8.5 added and is cut
/// off; d is stored as float16, rounded to nearest even. A block whose d is below 2^-126 is zeros; one with
/// an infinity or NaN in it gets NaN as its scale. kFloat8E4m3 is x times the float32 reciprocal of its
/// head's scale, rounded to nearest even; magnitudes beyond 448 become 448.
[[nodiscard]] AppendDesc quantise_desc(const TensorExtents& extents, const TensorDesc& source,
                                       const TensorDesc& target);

/// Checks every rule that needs no device; the first broken one is the error.
[[nodiscard]] Result<void> validate(const AppendDesc& desc);

/// The tensors of one execution. Tensors without elements, or not asked for by the descriptor, may have null
/// buffers. A written tensor that overlaps anything else is refused, as in AttentionTensors, except as the
/// descriptor says. Rows of cache_key and cache_value may lie between one another.
struct AppendTensors {
  BufferRange query{};                   ///< where query_heads is above 0
  BufferRange key{};                     ///< new rows of K
  BufferRange value{};                   ///< new rows of V
  BufferRange query_output{};            ///< the rotated queries; written
  BufferRange cache_key{};               ///< K, of which the new rows are written
  BufferRange cache_value{};             ///< V, likewise
  BufferRange positions{};               ///< int32, one per batch entry
  BufferRange new_lengths{};             ///< int32, one per batch entry
  BufferRange cumulative_new_lengths{};  ///< int32, batch + 1
  BufferRange page_table{};              ///< int32 (batch, page_table_stride)
  BufferRange key_scales{};              ///< float32, one per KV head, where cache_key is kFloat8E4m3
  BufferRange value_scales{};            ///< float32, one per KV head, where cache_value is kFloat8E4m3
  BufferRange frequencies{};             ///< float32, rotary.dims / 2
  BufferRange kv_lengths{};              ///< int32, one per batch entry; written
};

/// A plan of an append: one or more dispatches each for keys, values, queries and lengths; a tensor without
/// dispatches is not written. It has no workspace. Each tensor must fit maxStorageBufferRange.
class AppendPlan : public PlanOf<AppendPlan, AppendDesc, AppendTensors> {
 private:
  friend PlanOf;
  explicit AppendPlan(Shared<const detail::PlanState> state) : PlanOf(std::move(state)) {}
};

}  // namespace vkattn

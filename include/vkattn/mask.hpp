/// @file
/// Which keys a problem hides, besides causality, and what it adds to scores by their place: value types
/// without handles. docs/semantics.md defines every result.
#pragma once

#include <vkattn/strides.hpp>

#include <cstdint>
#include <optional>

namespace vkattn {

/// How a mask is stored.
enum class MaskType : std::uint32_t {
  kNone = 0,     ///< there is no mask
  kFloat32 = 1,  ///< added to the score; -inf hides the key
  kFloat16 = 2,  ///< the same
  kBytes = 3,    ///< not 0: may be seen (true in PyTorch and ONNX)
  kBits = 4,     ///< 1: may be seen; key j is bit j % 32 of word j / 32
};

/// A mask or bias over (batch, head, query, key); each dimension may be broadcast with stride 0.
/// strides.row is between queries, strides.dim between keys. Strides of kBits are in bits: those of batch,
/// head and row are multiples of 32; that of keys is 1, or 0 if a row's first bit counts for all its keys.
struct MaskDesc {
  MaskType type = MaskType::kNone;   ///< its storage
  std::optional<Strides> strides{};  ///< not given: a mask that repeats along no dimension, without padding
  /// Heads that the mask has, a divisor of query_heads: query head h reads head h % heads. Not given
  /// (kUnset): query_heads.
  std::int64_t heads = INT64_MIN;

  bool operator==(const MaskDesc&) const = default;  ///< equal in every member
};

/// A side of a window without a bound.
inline constexpr std::int64_t kUnlimited = -1;

/// Query i sees key j only where i + offset - left <= j <= i + offset + right, with the offset named by
/// AttentionDesc::align. Each side is a count or kUnlimited. FlashAttention calls the two window_size. A
/// count from 2^31 - 1 on covers every key, and counts as kUnlimited.
struct SlidingWindow {
  std::int64_t left = kUnlimited;   ///< keys before the one that lines up with the query
  std::int64_t right = kUnlimited;  ///< keys after it

  bool operator==(const SlidingWindow&) const = default;  ///< equal in every member
};

/// Attention with linear biases (Press, Smith and Lewis, arXiv:2108.12409): slope[h] * |i + offset - j| is
/// subtracted from the score, with the offset named by AttentionDesc::align.
enum class Alibi : std::uint32_t {
  kNone = 0,      ///< nothing is subtracted
  kStandard = 1,  ///< the paper's slopes, for any number of heads: see standard_alibi_slope()
  kGiven = 2,     ///< AttentionTensors::alibi_slopes, float32, one per query head
  /// The same tensor, but its numbers multiply an additive mask: slope[h] * mask is added to the score in
  /// place of the mask, and no distance is subtracted (max_bias of ggml).
  kTimesMask = 3,
};

/// Whether the slopes are AttentionTensors::alibi_slopes.
[[nodiscard]] constexpr bool has_given_slopes(Alibi alibi) {
  return alibi == Alibi::kGiven || alibi == Alibi::kTimesMask;
}

/// The slope of a head: 2^(-8 (h + 1) / n) for n heads, n a power of two. Otherwise let n be the largest
/// power of two below: the first n heads have the slopes of n heads, the rest every second slope of 2n heads.
[[nodiscard]] float standard_alibi_slope(std::int64_t head, std::int64_t heads);

}  // namespace vkattn

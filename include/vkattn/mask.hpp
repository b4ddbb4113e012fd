/// @file
/// What a problem may do to its scores and which keys it hides, besides causality: value types without
/// handles. docs/semantics.md defines every result.
#pragma once

#include <cstdint>
#include <optional>

namespace vkattn {

/// Distances in elements (not bytes) between neighbours along each dimension of a rank-4 tensor
/// (batch, head, row, dim). A row is one query or key position. Inputs may repeat along a dimension with
/// stride 0; elements of an output must not overlap. Strides are never negative.
struct Strides {
  std::int64_t batch = 0;  ///< between batch entries; of pages, between pages
  std::int64_t head = 0;   ///< between heads
  std::int64_t row = 0;    ///< between queries, or keys
  std::int64_t dim = 1;    ///< between elements of a row

  bool operator==(const Strides&) const = default;  ///< equal in every member
};

/// How a mask is stored.
enum class MaskType : std::uint32_t {
  kNone = 0,     ///< there is no mask
  kFloat32 = 1,  ///< added to the score; -inf hides the key
  kFloat16 = 2,  ///< the same
  kBytes = 3,    ///< not 0: may be seen (true in PyTorch and ONNX)
  kBits = 4,     ///< 1: may be seen; key j is bit j % 32 of word j / 32
};

/// A mask or bias over (batch, query_head, query, key), each of which may be broadcast with stride 0.
/// strides.row is between queries, strides.dim between keys. Strides of kBits are in bits: those of batch,
/// head and row are multiples of 32, that of keys is 1, or 0 where a row's first bit is that of all its keys.
struct MaskDesc {
  MaskType type = MaskType::kNone;   ///< its storage
  std::optional<Strides> strides{};  ///< not given: a mask that broadcasts nothing, without padding

  bool operator==(const MaskDesc&) const = default;  ///< equal in every member
};

/// A side of a window without a bound.
inline constexpr std::int64_t kUnlimited = -1;

/// Query i sees key j only where i + offset - left <= j <= i + offset + right, with the offset named by
/// AttentionDesc::align. Each side is a count or kUnlimited. FlashAttention calls the two window_size.
struct SlidingWindow {
  std::int64_t left = kUnlimited;   ///< keys before the one that lines up with the query, up to 2^30
  std::int64_t right = kUnlimited;  ///< keys after it, up to 2^30

  bool operator==(const SlidingWindow&) const = default;  ///< equal in every member
};

/// Attention with linear biases (Press, Smith and Lewis, arXiv:2108.12409): slope[h] * |i + offset - j| is
/// subtracted from the score, with the offset named by AttentionDesc::align.
enum class Alibi : std::uint32_t {
  kNone = 0,      ///< nothing is subtracted
  kStandard = 1,  ///< the paper's slopes, for any number of heads: see standard_alibi_slope()
  kGiven = 2,     ///< AttentionTensors::alibi_slopes, float32, one per query head
};

/// The slope of a head: 2^(-8 (h + 1) / n) for n heads where n is a power of two; else those of the largest
/// power n below for the first n heads, and for the rest every second one of 2n heads.
[[nodiscard]] float standard_alibi_slope(std::int64_t head, std::int64_t heads);

/// How key position j of a batch entry is found in K and V.
enum class KeyMapping : std::uint32_t {
  kContiguous = 0,  ///< row j
  kRing = 1,        ///< row j % ring_length: only the last ring_length keys exist
  kPaged = 2,       ///< row j % page_size of page page_table[b, j / page_size]
};

/// Where K and V of a cache lie. Of a ring, the tensors have ring_length rows. Of pages, the tensors are
/// (page_count, kv_heads, page_size, dim), their batch stride is that between pages, and the page table (a
/// block_table of blocks elsewhere) is a device buffer of int32 (batch, page_table_stride); numbers in it are
/// clamped to the pages that exist.
struct CacheLayout {
  KeyMapping mapping = KeyMapping::kContiguous;  ///< which of the sizes below count
  std::int64_t ring_length = 0;                  ///< of kRing: rows of the tensors, 1 to 2^30
  std::int64_t page_size = 0;                    ///< of kPaged: rows of a page, 1 to 2^30
  std::int64_t page_count = 0;                   ///< of kPaged: pages of the tensors, 1 to 2^30
  std::int64_t page_table_stride = 0;            ///< of kPaged: entries of the table for each batch entry

  bool operator==(const CacheLayout&) const = default;  ///< equal in every member
};

/// A stage at which the attention weights of every query and key can be had, as ONNX numbers them.
enum class WeightsStage : std::uint32_t {
  kNone = 0,           ///< none are written
  kScores = 1,         ///< scale * Q K^T
  kSoftcap = 2,        ///< after softcap
  kMasked = 3,         ///< after bias, ALiBi and masks: -inf where hidden
  kProbabilities = 4,  ///< after softmax, before dropout: 0 where hidden
};

}  // namespace vkattn

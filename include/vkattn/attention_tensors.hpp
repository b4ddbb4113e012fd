/// @file
/// The tensors that one execution of attention works on.
#pragma once

#include <vkattn/buffer_range.hpp>
#include <vkattn/score_shaders.hpp>

#include <array>
#include <cstdint>

namespace vkattn {

/// The tensors of one execution. A tensor without elements may have a null buffer; tensors from lse on are
/// used only if the descriptor asks for them. Output, lse, weights and block mask must not overlap any other
/// tensor or the workspace. An overlap of elements is refused; rows of one tensor may lie between rows of
/// another.
struct AttentionTensors {
  BufferRange query{};                     ///< Q
  BufferRange key{};                       ///< K
  BufferRange value{};                     ///< V
  BufferRange output{};                    ///< O; written
  BufferRange lse{};                       ///< float32; written
  BufferRange kv_lengths{};                ///< int32, one per batch entry (seqused_k)
  BufferRange query_lengths{};             ///< int32, one per batch entry
  BufferRange cumulative_query_lengths{};  ///< int32, batch + 1 (cu_seqlens_q)
  BufferRange cumulative_kv_lengths{};     ///< int32, batch + 1 (cu_seqlens_k)
  BufferRange page_table{};                ///< int32 (batch, page_table_stride) (block_table)
  BufferRange key_scales{};                ///< float32, one per KV head, where K is kFloat8E4m3
  BufferRange value_scales{};              ///< float32, one per KV head, where V is kFloat8E4m3
  BufferRange mask{};                      ///< AttentionDesc::mask
  BufferRange alibi_slopes{};              ///< float32, one per query head
  BufferRange sinks{};                     ///< float32, one per query head
  BufferRange weights{};                   ///< float32; written
  /// The tables of AttentionDesc::score_function, each beginning at a multiple of
  /// minStorageBufferOffsetAlignment. Sizes that are no multiples of 4 bytes are refused.
  std::array<BufferRange, kMaxScoreBuffers> score_buffers{};
  /// Where the block mask is kept: AttentionPlan::block_mask_bytes() bytes, beginning at a multiple of
  /// minStorageBufferOffsetAlignment. Null: in the workspace, computed by each execution.
  BufferRange block_mask{};
  /// An execution of this plan has left `block_mask`, and mask, score function and its buffers have not
  /// changed; or the caller has written it. Then it is not computed.
  bool block_mask_complete = false;
  std::uint64_t dropout_seed = 0;    ///< executions with one seed and dropout_offset drop the same
  std::uint32_t dropout_offset = 0;  ///< of the call, so that calls with one seed differ
};

}  // namespace vkattn

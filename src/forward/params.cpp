// Parameters: see params.hpp.
#include "forward/params.hpp"

#include <algorithm>

#include "attention/features.hpp"
#include "attention/positions.hpp"
#include "common/integers.hpp"

namespace vkattn::detail {

namespace {

void set_strides(const AttentionDesc& desc, const Window& w, AttentionParams& p) {
  const std::int64_t kv_heads = divide_up(w.heads, desc.query_heads / desc.kv_heads);
  // Packed sequences have no stride between entries; pages are the batch entries of K and V.
  const std::int64_t row_entries = desc.has_packed_queries() ? 1 : w.batch;
  const TensorExtents keys = key_extents(desc, 1);
  const bool one_memory = desc.has_packed_keys() || desc.cache.mapping == KeyMapping::kPaged;
  const std::int64_t key_entries = one_memory ? keys.batch : w.batch;
  const std::int64_t rows = desc.has_packed_queries() ? desc.total_query_length : w.rows;
  p.query_batch_stride = stride32(desc.query.strides->batch, row_entries);
  p.query_head_stride = stride32(desc.query.strides->head, w.heads);
  p.query_row_stride = stride32(desc.query.strides->row, rows);
  p.key_batch_stride = stride32(desc.key.strides->batch, key_entries);
  p.key_head_stride = stride32(desc.key.strides->head, kv_heads);
  p.key_row_stride = stride32(desc.key.strides->row, keys.rows);
  p.value_batch_stride = stride32(desc.value.strides->batch, key_entries);
  p.value_head_stride = stride32(desc.value.strides->head, kv_heads);
  p.value_row_stride = stride32(desc.value.strides->row, keys.rows);
  p.output_batch_stride = stride32(desc.output.strides->batch, row_entries);
  p.output_head_stride = stride32(desc.output.strides->head, w.heads);
  p.output_row_stride = stride32(desc.output.strides->row, rows);
  // If the caller wants no lse, the workspace holds it, dense.
  const Strides lse = desc.has_lse ? *desc.lse_strides : Strides{w.heads * rows, rows, 1, 1};
  p.lse_batch_stride = stride32(lse.batch, row_entries);
  p.lse_head_stride = stride32(lse.head, w.heads);
  p.lse_row_stride = stride32(lse.row, rows);
}

void set_blocks(const MaskBlocks& blocks, FeatureParams& p) {
  p.block_row_stride = narrow(blocks.keys);
  p.block_rows = narrow(blocks.rows);
  p.block_heads = narrow(blocks.heads);
  p.block_count = narrow(blocks.count());
  p.block_head_stride = blocks.heads > 1 ? narrow(blocks.keys * blocks.rows) : 0;
  p.block_batch_stride = blocks.batch > 1 ? narrow(blocks.keys * blocks.rows * blocks.heads) : 0;
}

}  // namespace

AttentionParams window_params(const AttentionDesc& desc, const KvSplit& split, const Window& w) {
  AttentionParams p{};
  set_strides(desc, w, p);
  // Modulo 2^32: keys count from the first of the problem, so what lies before the window is taken off.
  p.key_offset = 0U - narrow(w.first_key) * p.key_row_stride;
  p.value_offset = 0U - narrow(w.first_key) * p.value_row_stride;
  p.query_length = narrow(w.rows);
  p.kv_length = narrow(desc.kv_length);
  p.query_heads = narrow(w.heads);
  p.heads_per_kv = narrow(std::min(desc.query_heads / desc.kv_heads, w.heads));
  p.causal_offset = right_offset(desc, w);
  p.scale_log2 = static_cast<float>(static_cast<double>(desc.effective_scale()) * kLog2E);
  p.kv_splits = narrow(split.splits);
  p.split_keys = narrow(split.keys);
  const std::int64_t first_part = w.first_key / std::max<std::int64_t>(split.keys, 1);
  p.window_parts = narrow(first_part | window_parts(split, w) << 16);
  return p;
}

FeatureParams window_feature_params(const AttentionDesc& desc, const PlannedWindow& planned) {
  const Window& window = planned.window;
  FeatureParams p{};
  for (const FeatureRow& row : feature_table()) {
    if (row.set_params != nullptr) row.set_params(desc, window, p);
  }
  p.problem_query_length = narrow(desc.query_length);
  p.total_query_length = narrow(desc.total_query_length);
  p.total_kv_length = narrow(desc.total_kv_length);
  p.problem_heads = narrow(desc.query_heads);
  p.first_batch = narrow(window.first_batch);
  p.first_head = narrow(window.first_head);
  p.first_row = narrow(window.first_row);
  set_blocks(planned.blocks, p);
  return p;
}

}  // namespace vkattn::detail

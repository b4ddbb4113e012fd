// Counting arithmetic and bytes, and cutting a small piece off a problem to predict the time of the whole.
#include "work.hpp"

#include <algorithm>
#include <cmath>

namespace vkattn::bench {
namespace {

/// Keys that a batch entry has.
std::int64_t entry_keys(const Problem& problem, std::int64_t batch) {
  const AttentionDesc& desc = problem.desc;
  if (!desc.has_kv_lengths) return desc.kv_length;
  const auto index = static_cast<std::size_t>(batch);
  const std::int64_t given = index < problem.kv_lengths.size() ? problem.kv_lengths[index] : desc.kv_length;
  return std::clamp<std::int64_t>(given, 0, desc.kv_length);
}

std::int64_t causal_offset(const AttentionDesc& desc, std::int64_t keys) {
  if (desc.align == Align::kBottomRight) return keys - desc.query_length;
  return desc.align == Align::kOffset ? desc.offset : 0;
}

/// Sum over i in [0, rows) of clamp(i + offset + 1, 0, keys), without a loop: rows may be 2^30.
double causal_pairs(std::int64_t rows, std::int64_t keys, std::int64_t offset) {
  const std::int64_t far = rows + keys + 1;  // beyond it nothing changes, and the sums below cannot overflow
  offset = std::clamp(offset, -far, far);
  const std::int64_t first = std::clamp<std::int64_t>(-offset, 0, rows);           // sees at least one key
  const std::int64_t full = std::clamp<std::int64_t>(keys - offset, first, rows);  // sees all of them
  const auto ramp = static_cast<double>(full - first);
  const auto lowest = static_cast<double>(first + offset + 1);
  return ramp * lowest + ramp * (ramp - 1) / 2 + static_cast<double>(rows - full) * static_cast<double>(keys);
}

}  // namespace

Work count_work(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  Work work;
  double seen_keys = 0;  // over batch entries
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const std::int64_t keys = entry_keys(problem, b);
    std::int64_t seen = desc.query_length > 0 ? keys : 0;
    double pairs = static_cast<double>(desc.query_length) * static_cast<double>(keys);
    if (desc.causal) {
      const std::int64_t offset = causal_offset(desc, keys);
      pairs = keys == 0 ? 0 : causal_pairs(desc.query_length, keys, offset);
      // The last row sees the most. Written so that an offset near the end of 64 bits cannot overflow.
      const std::int64_t room = keys - std::min(keys, desc.query_length);
      if (offset < room)
        seen = std::clamp<std::int64_t>(std::max(offset, -desc.query_length) + desc.query_length, 0, keys);
    }
    work.visible_pairs += pairs * static_cast<double>(desc.query_heads);
    seen_keys += static_cast<double>(seen);
  }
  const auto dims = static_cast<double>(desc.head_dim + desc.value_dim);
  work.flops = 2 * work.visible_pairs * dims;

  const auto rows = static_cast<double>(desc.batch) * static_cast<double>(desc.query_heads) *
                    static_cast<double>(desc.query_length);
  const auto row_bytes = [](std::int64_t dim, const TensorDesc& tensor) {
    return static_cast<double>(dim) * element_bytes(tensor.type);
  };
  work.bytes = rows * (row_bytes(desc.head_dim, desc.query) + row_bytes(desc.value_dim, desc.output)) +
               seen_keys * static_cast<double>(desc.kv_heads) *
                   (row_bytes(desc.head_dim, desc.key) + row_bytes(desc.value_dim, desc.value));
  if (desc.has_lse) work.bytes += rows * 4;
  return work;
}

Problem shrink(const Problem& problem, double flops) {
  Problem piece = problem;
  const auto excess = [&] { return count_work(piece).flops / std::max(flops, 1.0); };
  const auto divide = [&](std::int64_t size) {
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(std::ceil(static_cast<double>(size) / excess())));
  };
  if (excess() <= 1) return problem;
  piece.desc.batch = divide(piece.desc.batch);
  if (piece.desc.has_kv_lengths) {  // entries may differ: keep the longest
    std::sort(piece.kv_lengths.rbegin(), piece.kv_lengths.rend());
    piece.kv_lengths.resize(static_cast<std::size_t>(piece.desc.batch));
  }
  if (excess() > 1) {
    const std::int64_t group = piece.desc.query_heads / std::max<std::int64_t>(1, piece.desc.kv_heads);
    piece.desc.kv_heads = divide(piece.desc.kv_heads);
    piece.desc.query_heads = piece.desc.kv_heads * group;
  }
  if (excess() > 1 && piece.desc.query_length > 1) {
    // A causal square stays one, because its rate depends on the shape, and packed tensors have one length.
    const bool square = (piece.desc.causal && piece.desc.query_length == piece.desc.kv_length &&
                         !piece.desc.has_kv_lengths) ||
                        piece.layout == Layout::kPackedQkv;
    const double factor = square ? std::sqrt(excess()) : excess();
    const auto rows =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(piece.desc.query_length) / factor));
    piece.desc.query_length = std::max<std::int64_t>(1, rows);
    if (square) piece.desc.kv_length = piece.desc.query_length;
  }
  if (excess() > 1 && !piece.desc.has_kv_lengths && piece.desc.query_length == 1) {
    piece.desc.kv_length = divide(piece.desc.kv_length);
  }
  piece.row_padding = 0;
  piece.shift = 0;
  piece.desc.set_layout(piece.layout);
  return piece;
}

}  // namespace vkattn::bench

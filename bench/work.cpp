// Counts arithmetic and bytes, and cuts a small piece off a problem to predict the time of the whole.
#include "work.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "problem/gradients.hpp"

namespace vkattn::bench {
namespace {

/// A length from one of the problem's lists, clamped as kernels clamp it. `longest` if the list has none.
std::int64_t entry_length(const std::vector<std::int32_t>& lengths, std::int64_t batch,
                          std::int64_t longest) {
  const auto index = static_cast<std::size_t>(batch);
  if (index >= lengths.size()) return longest;
  return std::clamp<std::int64_t>(lengths[index], 0, longest);
}

/// One batch entry: its number of rows, its existing keys begin <= j < end, and the key position of query 0.
struct Entry {
  std::int64_t rows = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t offset = 0;
};

Entry entry_of(const Problem& problem, std::int64_t batch) {
  const AttentionDesc& desc = problem.desc;
  Entry entry;
  entry.rows = entry_length(problem.query_lengths, batch, desc.query_length);
  entry.end = entry_length(problem.kv_lengths, batch, desc.kv_length);
  if (desc.cache.mapping == KeyMapping::kRing) {
    entry.begin = std::max<std::int64_t>(0, entry.end - desc.cache.ring_length);
  }
  if (desc.align == Align::kBottomRight) entry.offset = entry.end - entry.rows;
  if (desc.align == Align::kOffset) entry.offset = desc.offset;
  return entry;
}

/// The sum of clamp(i + offset, 0, keys) over i in [0, rows). It needs no loop, because rows may be 2^30.
double clamped_sum(std::int64_t rows, std::int64_t keys, std::int64_t offset) {
  const std::int64_t far =
      rows + keys + 1;  // beyond it nothing changes, and within it the sums below cannot overflow
  offset = std::clamp(offset, -far, far);
  const std::int64_t first =
      std::clamp<std::int64_t>(1 - offset, 0, rows);  // the first row whose term is above 0
  const std::int64_t full =
      std::clamp<std::int64_t>(keys - offset, first, rows);  // the first row whose term is `keys`
  const auto ramp = static_cast<double>(full - first);
  const auto lowest = static_cast<double>(first + offset);
  return ramp * lowest + ramp * (ramp - 1) / 2 + static_cast<double>(rows - full) * static_cast<double>(keys);
}

/// The part of an entry that causality and the window leave.
struct Seen {
  double pairs = 0;
  std::int64_t keys = 0;  ///< keys that any row sees
};

Seen count_seen(const AttentionDesc& desc, const Entry& entry) {
  const std::int64_t keys = entry.end - entry.begin;
  if (keys == 0 || entry.rows == 0) return {};
  // Row i sees the keys i + first <= j < i + last, as far as they exist. Here keys are counted from `begin`.
  const std::int64_t all = entry.rows + entry.end;
  const std::int64_t aligned = entry.offset - entry.begin;
  std::int64_t last = all;
  if (desc.window.right != kUnlimited) last = std::min(last, aligned + desc.window.right + 1);
  if (desc.causal) last = std::min(last, aligned + 1);
  const std::int64_t first = desc.window.left == kUnlimited ? -all : aligned - desc.window.left;
  const auto within = [&](std::int64_t key) { return std::clamp<std::int64_t>(key, 0, keys); };
  return {clamped_sum(entry.rows, keys, last) - clamped_sum(entry.rows, keys, first),
          within(entry.rows - 1 + last) - within(first)};
}

}  // namespace

namespace {

double row_bytes(std::int64_t dim, const TensorDesc& tensor) {
  return static_cast<double>(dim) * block_bytes(tensor.type) / block_elements(tensor.type);
}

/// The bytes that the backward pass moves in addition to the tensors of the forward pass.
double gradient_bytes(const AttentionDesc& given, double rows, double seen_keys) {
  const BackwardDesc all = with_all_gradients(given).resolved();
  const AttentionDesc& desc = all.attention;
  double bytes =
      rows * (row_bytes(desc.value_dim, *all.grad_output) + row_bytes(desc.head_dim, *all.grad_query)) +
      seen_keys * static_cast<double>(desc.kv_heads) *
          (row_bytes(desc.head_dim, *all.grad_key) + row_bytes(desc.value_dim, *all.grad_value));
  if (all.has_grad_mask) {
    if (const Result<std::int64_t> mask = mask_bytes(desc); mask.ok()) bytes += static_cast<double>(*mask);
  }
  return bytes;
}

Work count_matmul(const MatmulDesc& desc) {
  const auto batch = static_cast<double>(desc.batch), rows = static_cast<double>(desc.rows),
             columns = static_cast<double>(desc.columns), inner = static_cast<double>(desc.inner);
  const auto bytes = [](DataType type) {
    return static_cast<double>(block_bytes(type)) / block_elements(type);
  };
  Work work;
  work.flops = (desc.a_is_ones ? 1 : 2) * batch * rows * columns * inner;
  work.bytes = batch * (inner * columns * bytes(desc.b.type) +
                        (desc.accumulates ? 2 : 1) * rows * columns * bytes(desc.output.type));
  if (!desc.a_is_ones) work.bytes += batch * rows * inner * bytes(desc.a.type);
  if (desc.has_bias) work.bytes += columns * bytes(desc.bias_type);
  return work;
}

}  // namespace

Work count_work(const Problem& problem) {
  if (problem.operation == Operation::kMatmul) return count_matmul(problem.matmul);
  const AttentionDesc& desc = problem.desc;
  const bool backward = problem.operation == Operation::kBackward;
  Work work;
  double seen_keys = 0;  // sum over the batch entries
  double rows = 0;       // sum over the batch entries and query heads
  for (std::int64_t b = 0; b < desc.batch; ++b) {
    const Entry entry = entry_of(problem, b);
    const Seen seen = count_seen(desc, entry);
    work.visible_pairs += seen.pairs * static_cast<double>(desc.query_heads);
    seen_keys += static_cast<double>(seen.keys);
    rows += static_cast<double>(entry.rows) * static_cast<double>(desc.query_heads);
  }
  // A random mask leaves this many pairs on average.
  if (desc.mask.type != MaskType::kNone) work.visible_pairs *= 1 - problem.hidden_share;
  const auto dims =
      static_cast<double>(backward ? 3 * desc.head_dim + 2 * desc.value_dim : desc.head_dim + desc.value_dim);
  work.flops = 2 * work.visible_pairs * dims;

  work.bytes = rows * (row_bytes(desc.head_dim, desc.query) + row_bytes(desc.value_dim, desc.output)) +
               seen_keys * static_cast<double>(desc.kv_heads) *
                   (row_bytes(desc.head_dim, desc.key) + row_bytes(desc.value_dim, desc.value));
  if (desc.has_lse) work.bytes += rows * 4;
  if (desc.weights != WeightsStage::kNone) work.bytes += rows * static_cast<double>(desc.kv_length) * 4;
  if (desc.mask.type != MaskType::kNone) {
    const Result<std::int64_t> bytes = mask_bytes(desc);
    if (bytes.ok()) work.bytes += static_cast<double>(*bytes);
  }
  if (backward) work.bytes += gradient_bytes(desc, rows, seen_keys);
  return work;
}

namespace {

/// Keeps `count` batch entries. If entries differ, it keeps those with the most work.
void keep_entries(Problem& problem, std::int64_t count) {
  std::vector<std::pair<double, std::size_t>> entries;  // fewest pairs last
  const bool differ = !problem.kv_lengths.empty() || !problem.query_lengths.empty();
  for (std::int64_t b = 0; differ && b < problem.desc.batch; ++b) {
    entries.emplace_back(-count_seen(problem.desc, entry_of(problem, b)).pairs, b);
  }
  std::sort(entries.begin(), entries.end());
  entries.resize(std::min(entries.size(), static_cast<std::size_t>(count)));
  const auto keep = [&](std::vector<std::int32_t>& lengths) {
    if (lengths.empty()) return;
    std::vector<std::int32_t> kept;
    for (const auto& entry : entries) kept.push_back(lengths[entry.second]);
    lengths = std::move(kept);
  };
  keep(problem.kv_lengths);
  keep(problem.query_lengths);
  problem.desc.batch = count;
}

/// Cuts every length in the list down to `longest`.
void cut_lengths(std::vector<std::int32_t>& lengths, std::int64_t longest) {
  for (std::int32_t& length : lengths) {
    length = static_cast<std::int32_t>(std::min<std::int64_t>(length, longest));
  }
}

/// Takes fewer products, then fewer rows, then fewer columns, then fewer inner elements.
Problem shrink_matmul(const Problem& problem, double flops) {
  Problem piece = problem;
  MatmulDesc& desc = piece.matmul;
  for (std::int64_t* const size : {&desc.batch, &desc.rows, &desc.columns, &desc.inner}) {
    const double excess = count_work(piece).flops / std::max(flops, 1.0);
    if (excess <= 1) break;
    // Keeps whole blocks of quantised weights, and whole blocks of what kernels load at once.
    const std::int64_t unit = size == &desc.batch || *size % 32 != 0 ? 1 : 32;
    const auto least = static_cast<std::int64_t>(std::ceil(static_cast<double>(*size / unit) / excess));
    *size = unit * std::max<std::int64_t>(1, least);
  }
  piece.shift = 0;
  piece.lay_out();
  return piece;
}

}  // namespace

Problem shrink(const Problem& problem, double flops) {
  if (problem.operation == Operation::kMatmul) return shrink_matmul(problem, flops);
  Problem piece = problem;
  const auto excess = [&] { return count_work(piece).flops / std::max(flops, 1.0); };
  const auto divide = [&](std::int64_t size) {
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(std::ceil(static_cast<double>(size) / excess())));
  };
  if (excess() <= 1) return problem;
  keep_entries(piece, divide(piece.desc.batch));
  if (excess() > 1) {
    const std::int64_t group = piece.desc.query_heads / std::max<std::int64_t>(1, piece.desc.kv_heads);
    piece.desc.kv_heads = divide(piece.desc.kv_heads);
    piece.desc.query_heads = piece.desc.kv_heads * group;
    std::int64_t& mask_heads = piece.desc.mask.heads;
    if (mask_heads != kUnset) mask_heads = std::gcd(mask_heads, piece.desc.query_heads);
  }
  if (excess() > 1 && piece.desc.query_length > 1) {
    // A causal square stays a square, because its rate depends on its shape. A problem with packed tensors
    // keeps equal lengths, because they have one length.
    const bool square =
        (piece.desc.causal && piece.desc.query_length == piece.desc.kv_length && piece.kv_lengths.empty()) ||
        piece.desc.layout == Layout::kPackedQkv;
    const double factor = square ? std::sqrt(excess()) : excess();
    const auto rows =
        static_cast<std::int64_t>(std::ceil(static_cast<double>(piece.desc.query_length) / factor));
    piece.desc.query_length = std::max<std::int64_t>(1, rows);
    if (square) piece.desc.kv_length = piece.desc.query_length;
    cut_lengths(piece.query_lengths, piece.desc.query_length);
    cut_lengths(piece.kv_lengths, piece.desc.kv_length);
  }
  if (excess() > 1 && piece.kv_lengths.empty() && piece.desc.query_length == 1) {
    piece.desc.kv_length = divide(piece.desc.kv_length);
  }
  piece.row_padding = 0;
  piece.shift = 0;
  piece.lay_out();
  return piece;
}

}  // namespace vkattn::bench

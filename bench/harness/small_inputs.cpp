// Small inputs: see small_inputs.hpp.
#include "harness/small_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "harness/data.hpp"
#include "harness/quantise.hpp"

namespace vkattn::harness {
namespace {

/// 0, and then the sum of the lengths up to and including each one.
std::vector<std::int32_t> cumulative(const std::vector<std::int32_t>& lengths) {
  std::vector<std::int32_t> sums{0};
  for (const std::int32_t length : lengths) sums.push_back(sums.back() + length);
  return sums;
}

/// The first entries of a random order of all pages.
std::vector<std::int32_t> page_table(const Problem& problem) {
  const CacheLayout& cache = problem.desc.cache;
  std::vector<std::int32_t> pages(static_cast<std::size_t>(cache.page_count));
  std::iota(pages.begin(), pages.end(), 0);
  const auto entries = static_cast<std::size_t>(problem.desc.batch * cache.page_table_stride);
  const std::uint64_t stream = stream_of(problem.seed, kPageStream);
  for (std::size_t i = 0; i < std::min(entries, pages.size()); ++i) {
    std::swap(pages[i], pages[i + random_bits(stream, i) % (pages.size() - i)]);
  }
  // A table given by hand may have more entries than there are pages. Then batch entries share pages.
  const std::size_t distinct = pages.size();
  pages.resize(entries);
  for (std::size_t i = distinct; i < entries; ++i) pages[i] = pages[i % distinct];
  return pages;
}

/// The scale of each head of K or V, over all batch entries and keys.
std::vector<float> head_scales(const Problem& problem, TensorRole role) {
  const AttentionDesc& desc = problem.desc;
  const bool of_value = role == TensorRole::kValue;
  if ((of_value ? desc.value : desc.key).type != DataType::kFloat8E4m3) return {};
  TensorData data(problem, role);
  std::vector<float> scales;
  for (std::int64_t head = 0; head < desc.kv_heads; ++head) {
    double largest = 0;
    for (std::int64_t b = 0; b < desc.batch; ++b) {
      for (std::int64_t j = 0; j < desc.kv_length; ++j) {
        for (std::int64_t d = 0; d < (of_value ? desc.value_dim : desc.head_dim); ++d) {
          largest = std::max(largest, std::abs(data.element({b, head, j, d})));
        }
      }
    }
    scales.push_back(e4m3_scale(static_cast<float>(largest)));
  }
  return scales;
}

/// One number for each query head.
std::vector<float> per_head(const Problem& problem, const detail::TensorRow& row) {
  const bool are_slopes = row.range == &AttentionTensors::alibi_slopes;
  const std::uint64_t slopes = stream_of(problem.seed, kSlopeStream);
  NormalNumbers normal(stream_of(problem.seed, kPerHeadStream + row.binding));
  std::vector<float> numbers;
  for (std::uint64_t head = 0; std::cmp_less(head, problem.desc.query_heads); ++head) {
    const double number = are_slopes ? 0.001 + 0.998 * random_uniform(slopes, head) : normal.at(head);
    numbers.push_back(static_cast<float>(number));
  }
  return numbers;
}

}  // namespace

SmallInputs make_small_inputs(const Problem& problem) {
  const AttentionDesc& desc = problem.desc;
  SmallInputs inputs;
  if (desc.kv_lengths == Lengths::kPerEntry) inputs.kv_lengths = problem.kv_lengths;
  if (desc.query_lengths == Lengths::kPerEntry) inputs.query_lengths = problem.query_lengths;
  if (desc.has_packed_queries()) inputs.cumulative_query_lengths = cumulative(problem.query_lengths);
  if (desc.has_packed_keys()) inputs.cumulative_kv_lengths = cumulative(problem.kv_lengths);
  if (desc.cache.mapping == KeyMapping::kPaged) inputs.page_table = page_table(problem);
  inputs.key_scales = head_scales(problem, TensorRole::kKey);
  inputs.value_scales = head_scales(problem, TensorRole::kValue);
  for (const detail::TensorRow& row : detail::tensor_table()) {
    if (row.cut == detail::TensorCut::kQueryHeads && row.is_used(desc)) {
      inputs.per_head[row.range] = per_head(problem, row);
    }
  }
  return inputs;
}

}  // namespace vkattn::harness

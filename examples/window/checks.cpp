#include "window/checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace window {

namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

double score(const vkattn::AttentionDesc& desc, std::span<const float> query, std::span<const float> key,
             std::int64_t head, std::int64_t i, std::int64_t j) {
  if (desc.causal && j > i) return kHidden;
  if (desc.window.left >= 0 && i - j > desc.window.left) return kHidden;
  if (desc.window.right >= 0 && j - i > desc.window.right) return kHidden;
  double sum = 0;
  for (std::size_t d = 0; d < query.size(); ++d)
    sum += static_cast<double>(query[d]) * static_cast<double>(key[d]);
  sum *= static_cast<double>(desc.effective_scale());
  const auto cap = static_cast<double>(desc.softcap);
  if (cap > 0) sum = cap * std::tanh(sum / cap);
  if (desc.alibi == vkattn::Alibi::kStandard)
    sum -= static_cast<double>(vkattn::standard_alibi_slope(head, desc.query_heads)) *
           static_cast<double>(std::abs(i - j));
  return sum;
}

}  // namespace

double weights_difference(const vkattn::AttentionDesc& desc, std::span<const float> query,
                          std::span<const float> key, float sink, std::span<const float> weights) {
  const auto dims = static_cast<std::size_t>(desc.head_dim), keys = static_cast<std::size_t>(desc.kv_length);
  const std::int64_t shared = desc.query_heads / desc.resolved().kv_heads;
  double largest = 0;
  std::vector<double> row(keys);
  for (std::int64_t at = 0; at < desc.query_heads * desc.query_length; ++at) {
    const std::int64_t head = at / desc.query_length, i = at % desc.query_length;
    const auto first = static_cast<std::size_t>(at),
               first_key = static_cast<std::size_t>(head / shared) * keys;
    for (std::size_t j = 0; j < keys; ++j)
      row[j] = score(desc, query.subspan(first * dims, dims), key.subspan((first_key + j) * dims, dims), head,
                     i, static_cast<std::int64_t>(j));
    double top = *std::ranges::max_element(row);
    if (desc.has_sinks) top = std::max(top, static_cast<double>(sink));
    double sum = desc.has_sinks ? std::exp(static_cast<double>(sink) - top) : 0;
    for (double& each : row) sum += each = std::exp(each - top);
    for (std::size_t j = 0; j < keys; ++j) {
      const double difference = std::abs(static_cast<double>(weights[first * keys + j]) - row[j] / sum);
      if (!(difference <= largest)) largest = difference;  // a NaN stays
    }
  }
  return largest;
}

}  // namespace window

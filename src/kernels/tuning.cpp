// Which measured problem is nearest to a given one, and which block sizes can be measured.
#include <vkattn/tuning.hpp>

#include <algorithm>
#include <cmath>

#include "attention/features.hpp"
#include "kernels/kernel.hpp"
#include "kernels/select.hpp"
#include "kernels/size_text.hpp"
#include "kernels/tile_table.hpp"

namespace vkattn {

namespace {

constexpr double kFarthest = 2.0;  // powers of two

constexpr auto kEachSize = [](auto& tile, auto&& visit) { detail::for_each_size(tile, visit); };

// Powers of two between two sizes.
double distance(std::int64_t a, std::int64_t b) {
  return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(a, 1))) -
                  std::log2(static_cast<double>(std::max<std::int64_t>(b, 1))));
}

bool is_alike(const AttentionDesc& a, const AttentionDesc& b) {
  const auto group = [](const AttentionDesc& desc) {
    return desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1);
  };
  return a.query.type == b.query.type && a.key.type == b.key.type && a.value.type == b.value.type &&
         a.output.type == b.output.type && a.head_dim == b.head_dim && a.value_dim == b.value_dim &&
         a.causal == b.causal && group(a) == group(b);
}

/// That a problem has a feature, and which kind of it.
struct Use {
  bool is_used = false;
  std::uint32_t kind = 0;
};

Use use_in(const detail::FeatureRow& row, const AttentionDesc& desc) {
  const bool is_used = row.is_used(desc);
  return {is_used, is_used && row.kind != nullptr ? row.kind(desc) : 0};
}

Use use_in(const detail::FeatureRow& row, const TunedProblem& tuned) {
  const auto named = std::find_if(tuned.features.begin(), tuned.features.end(),
                                  [&](const TunedFeature& feature) { return feature.name == row.name; });
  return named != tuned.features.end() ? Use{true, named->kind} : use_in(row, tuned.desc);
}

// How much the features of the problems differ, in powers of two of a length.
double difference(const TunedProblem& tuned, const AttentionDesc& desc) {
  double sum = 0;
  for (const detail::FeatureRow& row : detail::feature_table()) {
    const Use a = use_in(row, tuned), b = use_in(row, desc);
    sum += a.is_used != b.is_used ? 1 : a.kind != b.kind ? 0.5 : 0;
  }
  return sum;
}

}  // namespace

std::string to_string(const TileSizes& tile) {
  return detail::sizes_text(tile, kEachSize);
}

Result<TileSizes> parse_tile_sizes(std::string_view text) {
  return detail::parse_sizes<TileSizes>(text, "threads=256,columns=16,rows=4", kEachSize);
}

const TunedProblem* Tuning::nearest(const AttentionDesc& given) const {
  const AttentionDesc desc = given.resolved();
  const TunedProblem* best = nullptr;
  double least = 0;
  for (const TunedProblem& problem : problems) {
    const AttentionDesc tuned = problem.desc.resolved();
    if (!is_alike(tuned, desc)) continue;
    const double rows = distance(tuned.query_length, desc.query_length);
    const double keys = distance(tuned.kv_length, desc.kv_length);
    if (rows > kFarthest || keys > kFarthest) continue;
    // More heads only mean more of the same work, so they decide last.
    const double heads = distance(tuned.batch * tuned.kv_heads, desc.batch * desc.kv_heads);
    const double total = rows + keys + difference(problem, desc) + heads / 64;
    if (best != nullptr && total >= least) continue;
    best = &problem;
    least = total;
  }
  return best;
}

std::vector<KernelTile> tuning_candidates(const AttentionDesc& given, const Capabilities& capabilities) {
  const AttentionDesc desc = given.resolved();
  std::vector<KernelTile> candidates;
  if (!validate(desc)) return candidates;
  for (const detail::Kernel& kernel : detail::ordered_kernels(desc, capabilities)) {
    std::vector<TileSizes> tiles = detail::table_tiles(kernel.name, desc, capabilities);
    for (const TileSizes& tile : detail::all_tiles(kernel.name)) {
      if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
    }
    for (const TileSizes& tile : tiles) {
      detail::SelectionRequest request;
      request.kernel = kernel.name;
      request.tile = &tile;
      if (detail::select_kernel(desc, capabilities, request))
        candidates.push_back({std::string(kernel.name), tile});
    }
  }
  // The kernel's own first choice leads, though the table may list others before it.
  const auto chosen = detail::select_kernel(desc, capabilities, {});
  if (chosen) {
    const auto first = std::find_if(candidates.begin(), candidates.end(), [&](const KernelTile& candidate) {
      return candidate.kernel == chosen->kernel.name && candidate.tile == chosen->config.tile;
    });
    if (first != candidates.end()) std::rotate(candidates.begin(), first, first + 1);
  }
  return candidates;
}

}  // namespace vkattn

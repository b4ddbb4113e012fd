// Which measured problem is nearest to a given one, and which block sizes can be measured.
#include <vkattn/tuning.hpp>

#include <algorithm>
#include <optional>

#include "attention/features.hpp"
#include "kernels/kernel.hpp"
#include "kernels/nearest.hpp"
#include "kernels/select.hpp"
#include "kernels/size_text.hpp"
#include "kernels/tile_table.hpp"

namespace vkattn {

namespace {

constexpr auto kEachSize = [](auto& tile, auto&& visit) { detail::for_each_size(tile, visit); };

bool is_alike(const AttentionDesc& a, const AttentionDesc& b) {
  const auto group = [](const AttentionDesc& desc) {
    return desc.query_heads / std::max<std::int64_t>(desc.kv_heads, 1);
  };
  return a.query.type == b.query.type && a.key.type == b.key.type && a.value.type == b.value.type &&
         a.output.type == b.output.type && a.head_dim == b.head_dim && a.value_dim == b.value_dim &&
         a.causal == b.causal && group(a) == group(b);
}

/// Whether a problem has a feature, and which kind of it.
struct Use {
  bool is_used = false;
  std::uint32_t kind = 0;
};

Use use_of(const detail::FeatureRow& row, const AttentionDesc& desc) {
  const bool is_used = row.is_used(desc);
  return {is_used, is_used && row.kind != nullptr ? row.kind(desc) : 0};
}

// A feature of a measured problem, or of measured gradients.
template <class Tuned>
Use use_in(const detail::FeatureRow& row, const Tuned& tuned) {
  const auto named = std::find_if(tuned.features.begin(), tuned.features.end(),
                                  [&](const TunedFeature& feature) { return feature.name == row.name; });
  return named != tuned.features.end() ? Use{true, named->kind} : use_of(row, tuned.desc);
}

// How much the features of the problems differ, in powers of two of a length.
template <class Tuned>
double difference(const Tuned& tuned, const AttentionDesc& desc) {
  double sum = 0;
  for (const detail::FeatureRow& row : detail::feature_table()) {
    const Use a = use_in(row, tuned), b = use_of(row, desc);
    sum += a.is_used != b.is_used ? 1 : a.kind != b.kind ? 0.5 : 0;
  }
  return sum;
}

// The distance of attention or its gradients, whose features may be given by name.
template <class Tuned>
std::optional<double> far(const Tuned& measured, const AttentionDesc& desc) {
  const AttentionDesc tuned = measured.desc.resolved();
  if (!is_alike(tuned, desc)) return std::nullopt;
  const auto lengths =
      detail::sum_of_distances({{tuned.query_length, desc.query_length}, {tuned.kv_length, desc.kv_length}});
  if (!lengths) return std::nullopt;
  // More heads only mean more of the same work, so they decide last.
  const double heads = detail::size_distance(tuned.batch * tuned.kv_heads, desc.batch * desc.kv_heads);
  return *lengths + difference(measured, desc) + heads / 64;
}

}  // namespace

std::string to_string(const TileSizes& tile) {
  return detail::sizes_text(tile, kEachSize);
}

std::string to_string(const MatmulTile& tile) {
  return detail::sizes_text(tile, kEachSize);
}

Result<TileSizes> parse_tile_sizes(std::string_view text) {
  return detail::parse_sizes<TileSizes>(text, "threads=256,columns=16,rows=4", kEachSize);
}

const TunedProblem* Tuning::nearest(const AttentionDesc& given, DataType arithmetic_type) const {
  const AttentionDesc desc = given.resolved();
  return detail::nearest_of(problems, [&](const TunedProblem& tuned) {
    return tuned.arithmetic_type == arithmetic_type ? far(tuned, desc) : std::nullopt;
  });
}

const TunedBackward* Tuning::nearest_backward(const AttentionDesc& given) const {
  const AttentionDesc desc = given.resolved();
  return detail::nearest_of(gradients, [&](const TunedBackward& tuned) { return far(tuned, desc); });
}

std::vector<KernelTile> tuning_candidates(const AttentionDesc& given, const Capabilities& capabilities,
                                          DataType arithmetic_type) {
  const AttentionDesc desc = given.resolved();
  std::vector<KernelTile> candidates;
  if (!validate(desc)) return candidates;
  for (const detail::Kernel& kernel : detail::ordered_kernels(desc, capabilities)) {
    std::vector<TileSizes> tiles = detail::table_tiles(kernel.name, desc, capabilities);
    const bool with_long_steps = detail::takes_long_steps(capabilities);
    for (const TileSizes& tile : detail::all_tiles(kernel.name, arithmetic_type, with_long_steps)) {
      if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) tiles.push_back(tile);
    }
    for (const TileSizes& tile : tiles) {
      PlanOptions options;
      options.kernel = kernel.name;
      options.tile = tile;
      options.arithmetic_type = arithmetic_type;
      if (detail::select_kernel(desc, capabilities, options))
        candidates.push_back({std::string(kernel.name), tile});
    }
  }
  // The kernel's own first choice leads, though the table may list others before it.
  PlanOptions options;
  options.arithmetic_type = arithmetic_type;
  const auto chosen = detail::select_kernel(desc, capabilities, options);
  if (chosen) {
    const auto first = std::find_if(candidates.begin(), candidates.end(), [&](const KernelTile& candidate) {
      return candidate.kernel == chosen->config.name && candidate.tile == chosen->config.tile;
    });
    if (first != candidates.end()) std::rotate(candidates.begin(), first, first + 1);
  }
  return candidates;
}

}  // namespace vkattn

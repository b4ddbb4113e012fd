// Which measured matrix multiplication is nearest to a given one, and which block sizes can be measured.
#include <vkattn/tuning.hpp>

#include <algorithm>

#include "kernels/nearest.hpp"
#include "matmul/matmul_kernel.hpp"

namespace vkattn {

namespace {

// Whether two resolved descriptors differ in sizes alone.
bool is_alike(const MatmulDesc& a, const MatmulDesc& b) {
  const auto is_alike = [](const MatrixDesc& x, const MatrixDesc& y) {
    return x.type == y.type && x.strides->is_transposed() == y.strides->is_transposed();
  };
  return a.a_is_ones == b.a_is_ones && (a.a_is_ones || is_alike(a.a, b.a)) && is_alike(a.b, b.b) &&
         a.output.type == b.output.type;
}

}  // namespace

const TunedMatmul* Tuning::nearest_matmul(const MatmulDesc& given) const {
  const MatmulDesc desc = given.resolved();
  return detail::nearest_of(products, [&](const TunedMatmul& measured) -> std::optional<double> {
    const MatmulDesc tuned = measured.desc.resolved();
    if (!is_alike(tuned, desc)) return std::nullopt;
    const auto sizes = detail::sum_of_distances(
        {{tuned.rows, desc.rows}, {tuned.columns, desc.columns}, {tuned.inner, desc.inner}});
    if (!sizes) return std::nullopt;
    // More products only mean more of the same work.
    return *sizes + detail::size_distance(tuned.batch, desc.batch) / 64;
  });
}

std::vector<MatmulKernelTile> tuning_candidates(const MatmulDesc& given, const Capabilities& capabilities) {
  std::vector<MatmulKernelTile> candidates;
  if (!validate(given)) return candidates;
  const MatmulDesc desc = given.resolved();
  const auto chosen = detail::select_matmul_kernel(desc, capabilities, {});
  if (!chosen) return candidates;
  std::size_t first = 0;
  for (const KernelSupport& support : chosen->considered) {
    for (const MatmulTile& tile : detail::matmul_tiles(support.kernel, capabilities)) {
      PlanOptions options;
      options.kernel = support.kernel;
      options.matmul_tile = tile;
      const auto selection = detail::select_matmul_kernel(desc, capabilities, options);
      if (!selection) continue;
      // A kernel fills in what the table leaves to it.
      const bool is_default =
          support.kernel == chosen->config.name && selection->config.tile == chosen->config.tile;
      if (is_default) first = candidates.size();
      candidates.push_back({options.kernel, tile});
    }
  }
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(first);
  if (!candidates.empty()) std::rotate(candidates.begin(), middle, middle + 1);
  return candidates;
}

}  // namespace vkattn

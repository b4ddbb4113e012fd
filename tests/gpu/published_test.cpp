// The grids that other projects publish: thinned with each problem on one of the kernels that take it, or,
// where VKATTN_FULL_GRID is 1, whole on all of them.
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/support.hpp"
#include "harness/tensor_memory.hpp"
#include "support/grid.hpp"
#include "support/published_grid.hpp"

namespace vkattn::tests {

void PrintTo(const PublishedGroup& group, std::ostream* out) {
  *out << group.name;
}

namespace {

/// Where a CPU emulates matrices, large problems take minutes.
bool is_too_slow(const AttentionDesc& desc, const std::string& kernel, const Capabilities& capabilities) {
  if (capabilities.device_type != VK_PHYSICAL_DEVICE_TYPE_CPU || kernel.find("matrix") == std::string::npos)
    return false;
  constexpr double kMostWork = 2e8;
  return static_cast<double>(desc.batch * desc.query_heads) *
             static_cast<double>(desc.query_length * desc.kv_length) *
             static_cast<double>(desc.head_dim + desc.value_dim) >
         kMostWork;
}

/// Pages lie in one binding: of the largest caches that is more than some devices bind.
bool is_too_large(const AttentionDesc& desc, const Capabilities& capabilities) {
  const auto bytes = harness::key_shape(desc).bytes();
  return desc.cache.mapping == KeyMapping::kPaged && bytes.ok() &&
         static_cast<std::uint64_t>(*bytes) > capabilities.max_storage_buffer_range;
}

class Published : public GpuTest, public testing::WithParamInterface<PublishedGroup> {};

TEST_P(Published, MatchesTheReference) {
  // Another kernel in each group, where there is but one problem of a group.
  static std::size_t number = 0;
  for (const std::string& text : GetParam().problems) {
    const AttentionDesc desc = parsed(text).desc;
    if (is_too_large(desc, capabilities())) continue;
    std::vector<std::string> kernels = accepting_kernels(desc, capabilities());
    if (!full_grid_is_wanted()) {
      std::erase_if(kernels, [&](const auto& kernel) { return is_too_slow(desc, kernel, capabilities()); });
      ASSERT_FALSE(kernels.empty()) << text;
      kernels = {kernels[number++ % kernels.size()]};
    }
    for (const std::string& kernel : kernels) EXPECT_TRUE(runs_right(runtime(), text, {kernel}));
  }
}

std::string published_name(const testing::TestParamInfo<PublishedGroup>& info) {
  return info.param.name;
}

std::vector<PublishedGroup> wanted_groups() {
  const bool full = full_grid_is_wanted();
  const TestPart part = full ? TestPart{} : TestPart{1, 16};
  return published_part(published_grid(!full), wanted_part("VKATTN_PUBLISHED_PART", part));
}

INSTANTIATE_TEST_SUITE_P(Grids, Published, testing::ValuesIn(wanted_groups()), published_name);

}  // namespace
}  // namespace vkattn::tests

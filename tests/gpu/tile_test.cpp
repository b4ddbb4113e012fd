// The tile kernel's two ways to reduce rows: in subgroups, and through shared memory.
#include <algorithm>
#include <cmath>

#include "gpu/support.hpp"
#include "support/special_numbers.hpp"

namespace vkattn::tests {
namespace {

class TileForms : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    if (!capabilities().subgroup_shuffle) return "the device has no subgroup shuffles";
    return capabilities().max_subgroup_size < 4 ? "no row of threads fits a subgroup" : "";
  }

  /// Blocks whose rows are reduced in subgroups of `size`. This also works on CPU implementations, which
  /// would not choose it.
  static RunOptions in_subgroups(std::uint32_t size) {
    RunOptions options = seen_as("tile", [=](Capabilities& c) {
      if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
      c.subgroup_size = c.min_subgroup_size = c.max_subgroup_size = size;
    });
    options.tile = TileSizes{std::max(64U, size), 0, std::min(16U, size), 4, 4, 32};
    options.inspect = [=](const AttentionPlan& plan) {
      const std::string way = "reduced in subgroups of " + std::to_string(size);
      EXPECT_TRUE(has(plan.describe(), way));
    };
    return options;
  }
  static RunOptions through_shared_memory() {
    RunOptions options = seen_as("tile", [](Capabilities& c) {
      if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
      c.subgroup_shuffle = false;
    });
    options.inspect = [](const AttentionPlan& plan) {
      EXPECT_TRUE(has(plan.describe(), "reduced in shared memory"));
    };
    return options;
  }

  /// The sizes that a pipeline may ask for. If it may not ask, the device's size.
  static std::vector<std::uint32_t> subgroup_sizes() {
    const Capabilities& c = capabilities();
    if (!c.required_subgroup_size || !c.compute_full_subgroups) return {c.subgroup_size};
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t size = std::max(4U, c.min_subgroup_size); size <= c.max_subgroup_size; size *= 2) {
      sizes.push_back(size);
    }
    return sizes;
  }

  static std::vector<RunOptions> forms() {
    std::vector<RunOptions> all{through_shared_memory()};
    for (const std::uint32_t size : subgroup_sizes()) all.push_back(in_subgroups(size));
    return all;
  }
};

TEST_F(TileForms, Problems) {
  for (RunOptions& options : forms()) {
    run_part({"b2 hq4 hkv2 65x129 d64 f16 causal lse", "h2 37x75 d33 dv17 kv_lengths=70 lse",
              "hq4 hkv1 33x65 d128 bf16 causal align=bottom-right", "5x40 d192 dv320"},
             options);
    options.kv_splits = 3;
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 9x300 d64 f16 causal align=bottom-right lse", options));
  }
}

TEST_F(TileForms, HiddenNanNeverLeaksAndSeenNanArrives) {
  for (RunOptions& options : forms()) {
    for (const auto& [text, key] :
         {std::pair{"40x64 d24 causal lse", 50}, std::pair{"37x150 d64 f16 kv_lengths=70", 70},
          std::pair{"40x64 d24 f16 causal lse", 20}, std::pair{"37x150 d40 lse", 100}}) {
      const Problem problem = parsed(text);
      const AttentionDesc& desc = problem.desc;
      const bool seen = desc.kv_lengths != Lengths::kPerEntry && (!desc.causal || key < desc.query_length);
      if (seen && !capabilities().preserves_nan_float32) continue;
      options.prepare = [&, key = key](harness::ProblemRun& run) {
        write_row(runtime(), run.key(), desc.key, 0, 0, key, desc.head_dim, kNan);
        write_row(runtime(), run.value(), desc.value, 0, 0, key, desc.value_dim, kNan);
      };
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << "NaN at key " << key;
    }
  }
}

}  // namespace
}  // namespace vkattn::tests

// The kernels on cooperative matrices: float16 with ragged sizes, if the device has matrices and the build
// has the kernels.
#include <string>
#include <utility>

#include "gpu/support.hpp"
#include "kernels/kernel.hpp"
#include "kernels/vendors.hpp"
#include "shared/attention_constants.h"

namespace vkattn::tests {
namespace {

class Matrix : public MatrixKernelTest {};

INSTANTIATE_TEST_SUITE_P(Kernels, Matrix, testing::ValuesIn(kMatrixKernelNames), kernel_test_name);

/// The scores are so large that float32 counts in steps of 8, 16 and more. Then the tolerance is larger than
/// the outputs, so the test only shows that nothing overflows.
TEST_P(Matrix, ScoresInLargeStepsStayFinite) {
  for (const char* data :
       part_of({"magnitude=1000 scale=1", "magnitude=1000 scale=10", "magnitude=3000 scale=3"})) {
    harness::ProblemRun run = ready_run(parsed(std::string("h2 45x177 d64 f16 lse ") + data));
    execute_on_kernel(run);
    expect_right(run);
  }
}

TEST_P(Matrix, SplitsOverKeys) {
  RunOptions options{.kernel = kernel(), .kv_splits = 4};
  options.inspect = [](const AttentionPlan& plan) {
    // 3 x 64 + 1 keys, whether tiles have 16, 32 or 64 keys.
    EXPECT_TRUE(has(plan.describe(), "4 parts of 64,"));
  };
  EXPECT_TRUE(runs_right(runtime(), "h2 5x193 d16 f16 lse", options)) << "one key in the last part";
}

// lavapipe runs the body of a loop over no keys once. There it read the page table and crashed.
TEST_P(Matrix, AnEntryWithoutKeysReadsNoPage) {
  EXPECT_TRUE(runs_right(runtime(), "b2 30x64 d64 f16 page=16 kv_lengths=0,33 lse", {kernel()}));
}

TEST_P(Matrix, RefusesOtherStorageByName) {
  const auto plan = make_plan(runtime(), parsed("64x64 d64").desc, {kernel()});
  ASSERT_FALSE(plan.ok());
  EXPECT_TRUE(has(plan.error().message, "float16"));
}

class MatrixShapes : public MatrixKernelTest {};
class FlexibleShapes : public MatrixKernelTest {};

INSTANTIATE_TEST_SUITE_P(Matrix, MatrixShapes, testing::Values("matrix"), kernel_test_name);
INSTANTIATE_TEST_SUITE_P(Matrix2, FlexibleShapes, testing::Values("matrix2"), kernel_test_name);

TEST_P(MatrixShapes, EveryShapeThatTheDeviceLists) {
  for (const MatrixShape& shape : capabilities().matrix_shapes) {
    if (shape.a_type != "f16" || shape.result_type != "f32" || shape.scope != "subgroup") continue;
    RunOptions options = seen_as(kernel(), [&](Capabilities& c) { c.matrix_shapes = {shape}; });
    for (const char* problem :
         {"hq4 hkv2 50x70 d72 f16 lse causal", "hq4 hkv2 50x70 d96 f16 cache=q8_0 causal"}) {
      EXPECT_TRUE(runs_right(runtime(), problem, options)) << shape.m << "x" << shape.n << "x" << shape.k;
    }
  }
}

/// The forms of the matrix kernel for GPUs of each vendor, on this device with that vendor's number.
class MatrixVendors : public MatrixKernelTest {
 protected:
  struct Case {
    const char* problem;
    TileSizes tile;
  };

  /// 16-bit types, lengths around tiles, dims around matrices, and features that leave tiles out. With these
  /// tiles, subgroups of 8 have registers left for the next tile.
  static std::vector<Case> cases() {
    const auto tile = [](std::uint32_t subgroups, std::uint32_t row_blocks, std::uint32_t keys) {
      return TileSizes{0, subgroups, 0, row_blocks, keys, 0};
    };
    return part_of<Case>({
        {"h2 1x1 d24 f16 lse", tile(1, 1, 8)},
        {"h2 33x7 d16 f16 lse", tile(4, 1, 8)},
        {"b2 h3 40x75 d40 f16 lse", tile(4, 1, 32)},
        {"hq4 hkv2 37x129 d64 f16 causal align=bottom-right lse", tile(8, 1, 16)},
        {"hq6 hkv2 70x100 d17 dv13 f16 causal lse layout=bshd pad=3 shift=1", tile(2, 1, 16)},
        {"b4 hq4 hkv1 45x77 d24 f16 kv_lengths=0,1,77,40 lse", tile(4, 2, 8)},
        {"h2 50x200 d32 f16 window=20,10 align=100 lse", tile(4, 1, 16)},
        {"60x90 d16 dv288 f16 lse", tile(4, 1, 8)},
        {"b2 40x70 d8 dv256 f16 kv_lengths=70,0 causal align=20 lse", tile(4, 1, 8)},
        {"h2 45x90 d24 f16 mask=bits:hqk hidden=0.8 block=16 lse", tile(2, 1, 16)},
        {"b2 h2 33x129 d31 dv33 f16 page=17 kv_lengths=3,129 alibi", tile(4, 1, 16)},
        {"b3 hq4 hkv2 41x64 d15 dv24 f16 output=f32 kv_lengths=64,0,63 causal align=bottom-right",
         tile(4, 1, 32)},
    });
  }

  /// Presents the device as the vendor's. CPU implementations still keep the loops, which take them long to
  /// unroll.
  static RunOptions as_vendor(std::uint32_t vendor_id) {
    RunOptions options = seen_as(kernel(), [=](Capabilities& c) { c.vendor_id = vendor_id; });
    return options;
  }

  /// Checks that the configuration of each plan has these constants, and whether the next tile is prefetched.
  static void run_cases(std::uint32_t vendor_id,
                        const std::vector<std::pair<std::uint32_t, std::uint32_t>>& constants) {
    RunOptions options = as_vendor(vendor_id);
    options.inspect = [&](const AttentionPlan& plan) {
      for (const auto& [id, value] : constants) {
        EXPECT_EQ(constant(plan, *options.device, id), value) << "constant " << id;
        if (id == VKATTN_SPEC_MATRIX_PREFETCH) {
          EXPECT_EQ(bool(has(plan.describe(), "next tile prefetched")), value != 0) << plan.describe();
        }
      }
    };
    for (const auto& [problem, tile] : cases()) {
      options.tile = tile;
      EXPECT_TRUE(runs_right(runtime(), problem, options));
    }
  }

  /// A constant of the configuration that the plan was made with, which the plan itself does not tell.
  static std::uint32_t constant(const AttentionPlan& plan, const Device& device, std::uint32_t id) {
    const auto config = detail::configure_matrix(plan.desc(), device.capabilities(), {&plan.tile(), 1});
    if (!config.ok()) {
      ADD_FAILURE() << config.error().message;
      return 0;
    }
    EXPECT_TRUE(config->shader.starts_with("attention_matrix")) << config->shader;
    EXPECT_EQ(config->shared_bytes, plan.shared_memory_bytes());
    for (const detail::SpecializationValue& value : config->constants) {
      if (value.id == id) return value.value;
    }
    ADD_FAILURE() << "no specialization constant " << id;
    return 0;
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, MatrixVendors, testing::Values("matrix"), kernel_test_name);

TEST_P(MatrixVendors, TheNextTileIsPrefetchedAsOnNvidia) {
  run_cases(detail::kVendorNvidia,
            {{VKATTN_SPEC_MATRIX_PREFETCH, 1}, {VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED, 0}});
}

// A CPU keeps its loops. Seen as a GPU it leaves out tiles, which lavapipe's barriers do not allow; here each
// subgroup sees each tile. Tiles of 8 keys have stages of 16 dims of queries and of 8 dims of outputs.
TEST_P(MatrixVendors, StepsAreWrittenOutAsOnNvidia) {
  RunOptions options = seen_as(kernel(), [](Capabilities& c) {
    c.vendor_id = detail::kVendorNvidia;
    c.device_type = DeviceType::kDiscreteGpu;
  });
  options.inspect = [&](const AttentionPlan& plan) {
    EXPECT_EQ(constant(plan, *options.device, VKATTN_SPEC_WRITES_OUT_STEPS), 1U);
  };
  for (const auto& [problem, keys] : part_of<std::pair<const char*, std::uint32_t>>({
           {"h2 16x19 d41 dv17 f16 lse", 8},
           {"h2 16x19 d24 dv72 f16 lse", 8},
           {"h2 16x75 d72 f16 lse", 32},
           {"16x33 d16 dv136 f16 lse", 8},  // two slices: a loop remains around the written steps
           {"h2 16x75 d32 dv96 f16 cache=q8_0 lse", 32},
       })) {
    options.tile = TileSizes{0, 2, 0, 1, keys, 0};
    EXPECT_TRUE(runs_right(runtime(), problem, options));
  }
}

TEST_P(MatrixVendors, ValuesAreTransposedAsOnAmd) {
  run_cases(detail::kVendorAmd,
            {{VKATTN_SPEC_MATRIX_PREFETCH, 0}, {VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED, 1}});
  // These use tiles of the table.
  run_part(
      {"hq4 hkv2 37x75 d320 dv256 f16 causal align=bottom-right lse", "h2 40x70 d96 dv136 f16 lse",
       "b2 h2 40x70 d128 f16 kv_lengths=0,70 lse", "h2 70x129 d64 f16 causal lse",
       "h2 50x129 d64 f16 key=q8_0 value=q4_0 causal output=f32", "h2 40x70 d24 dv20 f16 cache=e4m3 lse"},
      as_vendor(detail::kVendorAmd));
}

// If a lane has few registers, queries stay in shared memory, and values with more than 32 sums in a lane are
// cut into slices.
TEST_P(MatrixVendors, LanesHoldLittleAsOnIntel) {
  run_cases(detail::kVendorIntel, {{VKATTN_SPEC_MATRIX_QUERY_IN_REGISTERS, 0},
                                   {VKATTN_SPEC_MATRIX_PREFETCH, 0},
                                   {VKATTN_SPEC_MATRIX_SKIP_TILES, 0},
                                   {VKATTN_SPEC_MATRIX_VALUES_TRANSPOSED, 1}});
  RunOptions options = as_vendor(detail::kVendorIntel);
  options.inspect = [](const AttentionPlan& plan) { EXPECT_TRUE(has(plan.describe(), " slices")); };
  run_part({"hq4 hkv2 37x75 d128 f16 causal align=bottom-right lse", "h2 40x70 d24 dv136 f16 lse",
            "h2 50x129 d64 dv96 f16 key=q8_0 value=q4_0 causal output=f32"},
           options);
}

/// Runs each entry as it is, and as if it were coarser, which makes blocks and tiles larger.
TEST_P(FlexibleShapes, EveryEntryThatTheDeviceLists) {
  for (const FlexibleMatrix& entry : capabilities().flexible_matrices) {
    if (entry.a_type != "f16" || entry.result_type != "f32") continue;
    for (const auto& [n, k] :
         part_of<std::pair<std::uint32_t, std::uint32_t>>({{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}, {4, 4}})) {
      FlexibleMatrix coarser = entry;
      coarser.n_granularity *= n;
      coarser.k_granularity *= k;
      RunOptions options = seen_as(kernel(), [&](Capabilities& c) { c.flexible_matrices = {coarser}; });
      if (const auto plan = make_plan(runtime(), parsed("50x70 d72 f16").desc, options); !plan.ok()) {
        EXPECT_TRUE(names(plan.error(), ErrorCode::kUnsupported, {"matrix2"}));
        continue;
      }
      EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 50x70 d72 f16 lse causal", options))
          << entry.scope << ": " << coarser.m_granularity << "x" << coarser.n_granularity << "x"
          << coarser.k_granularity;
    }
  }
}

}  // namespace
}  // namespace vkattn::tests

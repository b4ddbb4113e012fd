// The cooperative-matrix kernel: float16 over ragged sizes, where the device has matrices and the build the
// kernel.
#include <algorithm>

#include "gpu/support.hpp"

namespace vkattn::tests {
namespace {

class Matrix : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto support = kernel_support(parsed("64x64 d64 f16").desc, capabilities());
    const auto matrix = std::find_if(support.begin(), support.end(),
                                     [](const KernelSupport& kernel) { return kernel.kernel == "matrix"; });
    ASSERT_NE(matrix, support.end());
    if (!matrix->reason.empty()) GTEST_SKIP() << "the matrix kernel cannot run here: " << matrix->reason;
  }
};

TEST_F(Matrix, HeadDims) {
  for (const char* dims : {"d1", "d3", "d8", "d16", "d17", "d32", "d40", "d64", "d72 dv80", "d96", "d111",
                           "d128", "d192 dv128", "d256", "d320 dv256", "d576 dv512"}) {
    EXPECT_TRUE(runs_right(runtime(), std::string("hq4 hkv2 37x75 f16 lse causal align=bottom-right ") + dims,
                           {"matrix"}));
  }
}

TEST_F(Matrix, LengthsAroundTileEdges) {
  for (const char* lengths : {"1x1", "1x65", "7x9", "8x8", "9x31", "15x33", "16x32", "17x64", "33x63",
                              "63x129", "64x128", "65x127", "128x257", "129x0", "203x113"}) {
    EXPECT_TRUE(runs_right(runtime(), std::string("b2 hq6 hkv3 d64 f16 lse ") + lengths, {"matrix"}));
  }
}

TEST_F(Matrix, MasksByPosition) {
  for (const char* masks :
       {"causal", "causal align=bottom-right", "causal align=7", "causal align=-20", "causal align=200",
        "kv_lengths=0,70", "kv_lengths=1,33 causal align=bottom-right"}) {
    EXPECT_TRUE(runs_right(runtime(), std::string("b2 hq4 hkv2 50x70 d40 f16 lse ") + masks, {"matrix"}));
  }
}

TEST_F(Matrix, Memory) {
  for (const char* memory : {"layout=bshd", "pad=3", "shift=1", "layout=bshd pad=1 shift=3", "aligned=0",
                             "output=f32", "output=bf16 shift=1"}) {
    EXPECT_TRUE(runs_right(runtime(), std::string("b2 hq4 hkv1 45x77 d40 f16 lse ") + memory, {"matrix"}));
  }
  EXPECT_TRUE(runs_right(runtime(), "b2 hq4 hkv2 45x45 d40 f16 layout=packed", {"matrix"}));
}

TEST_F(Matrix, ScoresBeyondFloat16AndOtherData) {
  for (const char* data : {"magnitude=0.001", "magnitude=10", "magnitude=1000", "data=uniform",
                           "data=dominant", "data=equal", "scale=0", "scale=-0.3", "scale=3"}) {
    EXPECT_TRUE(runs_right(runtime(), std::string("h2 45x77 d64 f16 lse ") + data, {"matrix"}));
  }
}

TEST_F(Matrix, EveryShapeThatTheDeviceLists) {
  for (const MatrixShape& shape : capabilities().matrix_shapes) {
    if (shape.a_type != "f16" || shape.result_type != "f32" || shape.scope != "subgroup") continue;
    RunOptions options{"matrix"};
    options.device = device_with([&](Capabilities& c) { c.matrix_shapes = {shape}; });
    EXPECT_TRUE(runs_right(runtime(), "hq4 hkv2 50x70 d72 f16 lse causal", options))
        << shape.m << "x" << shape.n << "x" << shape.k;
  }
}

TEST_F(Matrix, RefusesOtherStorageByName) {
  const auto plan = make_plan(runtime(), parsed("64x64 d64").desc, {"matrix"});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("float16"), std::string::npos) << plan.error().message;
}

TEST_F(Matrix, RefusesASplitOverKeysByName) {
  RunOptions options{"matrix"};
  options.kv_splits = 4;
  const auto plan = make_plan(runtime(), parsed("64x640 d64 f16").desc, options);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("kv_splits"), std::string::npos) << plan.error().message;
}

}  // namespace
}  // namespace vkattn::tests

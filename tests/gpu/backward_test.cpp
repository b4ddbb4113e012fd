// The backward pass against the float64 reference: sizes, types, features in pairs, what is hidden, and the
// same bits each time.
#include <vkattn/backward.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/any_backward.hpp"
#include "gpu/hidden_rows.hpp"
#include "kernels/vendors.hpp"
#include "support/feature_problems.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using harness::BackwardRun;
using harness::with_all_gradients;

class BackwardTest : public AnyBackwardTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, BackwardTest, testing::ValuesIn(kBackwardKernels), kernel_test_name);

TEST_P(BackwardTest, RaggedSizes) {
  for (const char* const text : part_of<const char*>(
           {"1x1 d1", "1x1 d3 dv2", "3x5 d4 b2", "33x17 d20 dv12 hq2", "70x129 d31 dv67 hq4 hkv2 b2 causal",
            "5x300 d576 dv33", "64x64 d64 hq8 hkv1", "129x65 d40 causal align=bottom-right", "17x1 d16 hq3",
            "1x257 d80 hq6 hkv3", "40x40 d128 dv576", "33x40 d24 dv30", "33x1 hq2 d8 mask=f32:hk",
            "33x140 d20 dv12 hq4 hkv2 b2 causal lse", "33x41 d32 h16 layout=bshd",
            "33x41 d24 dv32 hq16 hkv16 layout=bshd causal", "133x129 d7 dv5 lse"})) {
    expect_gradients(text);
  }
}

/// Steps that lane takes where a KV head has 2^16 pairs and more, with fewer rows or keys at the end.
TEST_P(BackwardTest, LongSteps) {
  for (const char* const text : part_of<const char*>(
           {"hq16 hkv1 65x77 d20 dv12 lse", "b2 hq16 hkv1 66x140 d7 dv14 f16 causal kv_lengths=140,45",
            "b3 hq16 hkv1 65x70 d20 dv12 f16 kv_lengths=70,0,43",
            "sequences query_lengths=66,40 kv_lengths=140,75 b2 hq16 hkv1 66x140 d20 dv12",
            "h1 300x290 d8 window=40,20 dropout=0.3 softcap=3",
            "hq16 hkv1 70x90 d12 mask=f32:hqk hidden=0.5 block=16"})) {
    expect_gradients(text, 64);
  }
}

TEST_P(BackwardTest, Types) {
  for (const char* const text :
       part_of<const char*>({"37x70 d20 dv12 f16", "37x70 d24 bf16",
                             "37x70 d33 dv19 hq2 query=f16 key=bf16 value=f32 output=f16",
                             "37x70 d16 query=f32 key=f16 value=bf16 output=bf16 causal",
                             "37x70 d16 query=bf16 key=f32 value=f16 output=f32 hq4 hkv2",
                             "37x70 d16 query=f16 key=f16 value=f16 output=f32"})) {
    const std::string reason = reason_against(with_gradients(parsed(text).desc));
    if (is_beyond_matrices(reason)) continue;
    if (reason.empty()) {
      expect_gradients(text, 64);
    } else {
      EXPECT_TRUE(on_matrices() &&
                  (reason.starts_with("takes ") || reason.find("bfloat16") != std::string::npos))
          << reason;
    }
  }
}

TEST_P(BackwardTest, GradientsOfOtherTypesAndStrides) {
  const Problem problem = parsed("37x70 d20 dv12 hq4 hkv2 b2 f16 causal");
  BackwardDesc desc = with_gradients(problem.desc);
  const DataType type = on_matrices() ? DataType::kFloat16 : DataType::kFloat32;
  desc.grad_output = TensorDesc{type, Strides{37 * 4 * 13, 13, 4 * 13, 1}, element_bytes(type)};
  desc.grad_query = TensorDesc{DataType::kBfloat16, Strides{4 * 37 * 41, 37 * 41, 41, 2}, 2};
  desc.grad_key = TensorDesc{DataType::kFloat32, Strides{70 * 2 * 21, 21, 42, 1}, 4};
  desc.grad_value = TensorDesc{DataType::kFloat16, Strides{1, 2 * 70 * 13 * 2, 26, 2}, 2};
  if (is_beyond_matrices(desc)) GTEST_SKIP() << "rows that start anywhere";
  expect_gradients(problem, desc, options(64));
}

TEST_P(BackwardTest, SomeGradientsOnly) {
  const Problem problem = parsed("37x140 d24 dv16 hq4 hkv2 causal align=100");
  for (const int wanted : part_of<int>({1, 2, 3, 4, 5, 6, 7})) {
    BackwardDesc desc = with_gradients(problem.desc);
    desc.has_grad_query = (wanted & 1) != 0;
    desc.has_grad_key = (wanted & 2) != 0;
    desc.has_grad_value = (wanted & 4) != 0;
    expect_gradients(problem, desc, options(64));
  }
}

/// The rows of the list that have gradients, and that `takes` takes.
template <class Takes>
std::vector<FeatureProblem> differentiable(const Takes& takes) {
  return feature_problems([&](const FeatureProblem& row) {
    const AttentionDesc desc = desc_of(with_sizes(row.words, kManyLengths, "b2 hq4 hkv2 d24 dv16"));
    return takes(row) && validate(with_all_gradients(desc)).ok();
  });
}

TEST_P(BackwardTest, Features) {
  for (const FeatureProblem& row :
       part_of<FeatureProblem>(differentiable([](const FeatureProblem&) { return true; }))) {
    expect_gradients(with_sizes(row.words, kManyLengths, "b2 hq4 hkv2 d20 dv12"), 64);
  }
}

/// Of one subject only one of two can be.
std::string_view subject(std::string_view words) {
  const std::string_view first = words.substr(0, words.find_first_of("= "));
  if (first == "query_lengths" || first == "kv_lengths") return "sequences";
  return first == "window" ? "causal" : first;
}

TEST_P(BackwardTest, PairsOfFeatures) {
  std::vector<std::string> problems;
  constexpr std::size_t kCount = std::size(kSingleFeatures);
  for (std::size_t a = 0; a < kCount; ++a) {
    for (std::size_t b = a + 1; b < kCount; ++b) {
      const std::string one = kSingleFeatures[a].words, other = kSingleFeatures[b].words;
      if (subject(one) == subject(other)) continue;
      problems.push_back(with_sizes(one + " " + other, {"45", "33", "20"}, "b2 hq4 hkv2 d12 dv20") +
                         ((a + b) % 3 == 0 ? " f16" : "") + ((a + b) % 2 == 0 ? " lse" : ""));
    }
  }
  for (const std::string& text : part_of<std::string>(problems)) expect_gradients(text, 64);
}

/// Where the tanh is flat on either side, its slope is 0 and no infinity.
TEST_P(BackwardTest, ScoresFarBeyondTheSoftcap) {
  expect_gradients("20x70 hq2 d8 softcap=0.1 magnitude=4");
  // Derivatives below the normal numbers, which a device may flush, times large numbers.
  expect_gradients("b2 hq4 hkv2 70x129 d20 dv12 causal softcap=0.5 magnitude=10");
}

/// Gradients of ordinary size of numbers that overflow, or are flushed, where the scale comes late or early;
/// and numbers at the ends of float32, of which some are undefined.
TEST_P(BackwardTest, ScalesFarFromOne) {
  std::vector<std::string> problems = {
      "8x8 d4 magnitude=1e20 scale=1e-38",
      "8x8 d4 magnitude=1e-20 scale=1e38",
      "20x70 hq4 hkv2 d20 dv12 magnitude=1e20 scale=-1e-21 mask=f32:qk alibi=given sinks",
      "20x70 hq4 hkv2 d20 dv12 magnitude=1e-20 scale=1e4 mask=f32:hk alibi=given",
      "20x130 d8 magnitude=1e18 scale=1e-30 softcap=2 dropout=0.3",
      "20x130 d8 magnitude=1e-30 scale=-1e38 causal mask=f32:qk",
      "8x8 d4 magnitude=1e38 data=equal",
      "8x8 d4 magnitude=1e-39 scale=1e38 sinks"};
  // Matrices of float16 hold no such numbers.
  if (on_matrices()) {
    problems = {"20x130 d16 magnitude=0.001 scale=-4e5 causal",
                "20x130 hq4 hkv2 d16 magnitude=0.01 scale=300",
                "20x130 d16 magnitude=300 scale=1e-6 softcap=2", "8x8 d8 magnitude=1e20 scale=1e-38 bf16",
                "8x8 d8 magnitude=1e-20 scale=1e38 bf16"};
  }
  for (const std::string& text : part_of<std::string>(problems)) {
    const std::string reason = reason_against(with_gradients(parsed(text).desc));
    if (reason.empty()) expect_gradients(text, 64);
    EXPECT_TRUE(reason.empty() || on_matrices()) << reason;
  }
}

/// Zeros, but for the gradient of sinks, which are a row's lse where there are no keys.
TEST_P(BackwardTest, NoQueriesOrKeys) {
  for (const char* const text :
       part_of<const char*>({"30x0 d8", "30x0 hq2 d8 sinks lse", "0x40 d8 b2", "b0 3x3 d8"})) {
    expect_gradients(text);
  }
}

/// Chunks, tiles of the grid and dispatches in several pieces change nothing.
TEST_P(BackwardTest, TheSameBitsEachTime) {
  const Problem problem =
      parsed("60x140 b2 hq4 hkv2 d24 dv16 causal align=bottom-right dropout=0.2 f16 sinks lse");
  const BackwardDesc desc = with_gradients(problem.desc);
  auto run = must(BackwardRun::create(runtime(), problem, desc));
  for (const std::uint32_t chunk_keys : chunk_sizes(64)) {
    std::vector<std::vector<std::byte>> first;
    double estimated_ns = 0;  // by the plan itself, so that it is cut on any device
    for (const bool is_cut : {false, true}) {
      PlanOptions how = options(chunk_keys);
      if (is_cut) how.max_dispatch_ns = 1 + static_cast<std::uint64_t>(estimated_ns / 60);
      const auto plan = must(BackwardPlan::create(runtime().device(), desc, how));
      EXPECT_TRUE(!is_cut || plan.dispatches().size() > 20) << plan.dispatches().size();
      for (const DispatchInfo& dispatch : plan.dispatches()) estimated_ns += dispatch.estimated_ns;
      for (int i = 0; i < (is_cut ? 1 : kSameBitsRuns); ++i) {
        ASSERT_TRUE(run.execute(plan).ok());
        const auto bytes = must(run.bytes());
        if (first.empty()) first = bytes;
        ASSERT_TRUE(bytes == first) << "run " << i << (is_cut ? ", cut" : "");
      }
    }
  }
}

/// NaN and infinities in rows of K and V that no query sees, and in rows of Q, dO and dlse that see nothing,
/// reach no gradient.
TEST_P(BackwardTest, HiddenRowsReachNothing) {
  const auto ways = differentiable([](const FeatureProblem& row) {
    return (row.hides_keys || row.hides_queries) && (row.by_position || !on_matrices());
  });
  for (const FeatureProblem& hiding : part_of<FeatureProblem>(ways)) {
    const Problem problem = parsed(with_sizes(hiding.words, kManyLengths, "b2 hq4 hkv2 d24 dv16") +
                                   (on_matrices() ? "" : " output=f32"));
    SCOPED_TRACE(to_string(problem));
    const BackwardDesc desc = with_gradients(problem.desc);
    auto run = must(BackwardRun::create(runtime(), problem, desc));
    const auto plan = must(BackwardPlan::create(runtime().device(), desc, options(64)));
    EXPECT_EQ(plan.kernel_name(), kernel());
    const AttentionDesc& full = run.desc().attention;
    SeenRows seen;
    ASSERT_TRUE(run.forward().visit_inputs([&](const auto& inputs) { seen = seen_rows(full, inputs); }).ok());
    const auto shape_of = [&](BufferRange BackwardTensors::*tensor) {
      return harness::shape_of(detail::row_of(tensor), run.desc());
    };
    using T = BackwardTensors;
    for (const Bad bad : kEveryBad) {
      const auto poisoned = [&](const harness::TensorBuffer& tensor, const harness::TensorShape& shape,
                                const StoredRows& rows) {
        return poison_unseen(runtime(), tensor, shape, rows, bad);
      };
      const std::pair<std::size_t, bool> counts[] = {
          {poisoned(run.forward().key(), harness::key_shape(full), seen.keys), hiding.hides_keys},
          {poisoned(run.forward().value(), harness::value_shape(full), seen.keys), hiding.hides_keys},
          {poisoned(run.forward().query(), harness::query_shape(full), seen.queries), hiding.hides_queries},
          {poisoned(run.tensor(&T::grad_output), shape_of(&T::grad_output), seen.queries),
           hiding.hides_queries},
          {desc.has_grad_lse ? poisoned(run.tensor(&T::grad_lse), shape_of(&T::grad_lse), seen.queries) : 0,
           hiding.hides_queries && desc.has_grad_lse}};
      for (const auto& [count, is_hidden] : counts) EXPECT_EQ(count > 0, is_hidden);
      ASSERT_TRUE(run.execute(plan).ok());
      expect_right_gradients(run, plan.describe());
    }
  }
}

TEST_P(BackwardTest, DevicesWithout16BitStorage) {
  const Problem problem = parsed("37x70 d20 dv13 hq4 hkv2 f16 mask=f16:hqk");
  const BackwardDesc desc = with_gradients(problem.desc);
  const Device words = device_with([](Capabilities& c) { c.storage_buffer_16bit = false; });
  if (on_matrices()) {
    EXPECT_TRUE(is_refused(BackwardPlan::create(words, desc, options()), ErrorCode::kUnsupported,
                           {"storageBuffer16BitAccess"}));
    return;
  }
  expect_gradients(problem, desc, options(), words);
}

/// As if this device were a GPU of that vendor: blocks of Mali for each range of head dims, and the small
/// steps of lane, on problems whose last blocks are not full.
TEST_P(BackwardTest, BlocksOfOtherDevices) {
  if (is_staged()) GTEST_SKIP() << "no device's table has its blocks";
  const UnrolledLoops unrolled;  // up to hundreds of dims, forward too
  using Case = std::pair<std::uint32_t, const char*>;
  constexpr const char* k40 = "hq4 hkv2 37x75 d40 f16 causal";
  constexpr const char* k64 = "b2 33x66 d64 kv_lengths=66,31 dropout=0.2";
  constexpr const char* k100 = "21x130 d100 dv72 softcap=4";
  constexpr const char* k200 = "h2 9x70 d136 dv200 bf16";
  constexpr const char* k400 = "5x70 d400 dv20";
  using detail::kVendorAmd, detail::kVendorArm, detail::kVendorIntel;
  std::vector<Case> cases = part_of<Case>({{kVendorArm, k40}, {kVendorArm, k64}, {kVendorAmd, k40}});
  // Each of Mali's blocks for heads that are not wide, in every part. Not of matrices, whose code for GPUs
  // takes a CPU driver half a minute.
  if (!on_matrices()) cases.emplace_back(kVendorArm, k100);
  for (const Case& each : part_of<Case>({{kVendorArm, k200},
                                         {kVendorArm, k400},
                                         {kVendorIntel, k40},
                                         {kVendorIntel, k64},
                                         {kVendorIntel, k100},
                                         {kVendorIntel, k200},
                                         {kVendorIntel, k400}})) {
    cases.push_back(each);
  }
  int plans = 0;
  for (const auto& [vendor, text] : cases) {
    SCOPED_TRACE(text);
    const Device device = device_with([vendor = vendor](Capabilities& c) {
      c.vendor_id = vendor;
      if (c.is_cpu()) c.device_type = DeviceType::kDiscreteGpu;
    });
    const Problem problem = parsed(text);
    const BackwardDesc desc = with_gradients(problem.desc);
    // Operands of wide heads stay in shared memory, of which this device may have less than those have.
    const std::string reason = tests::reason_against(device.capabilities(), kernel(), desc);
    if (on_matrices() && (has(reason, "shared memory") || has(reason, "BFloat16"))) continue;
    if (has(reason, "cooperativeMatrixWorkgroupScope") || is_beyond_matrices(reason)) continue;
    if (has(reason, "has no block for matrices of 16x16x16"))
      continue;  // a vendor's blocks on another's device
    expect_gradients(problem, desc, options(64), device);
    ++plans;
  }
  if (plans == 0) GTEST_SKIP() << "of these problems the device takes none";
}

class BackwardOnMatrices : public AnyBackwardTest {};
INSTANTIATE_TEST_SUITE_P(Kernels, BackwardOnMatrices, testing::ValuesIn(kOnMatrixUnits), kernel_test_name);

/// Dims around those of matrices, and blocks that fit beside wide heads.
TEST_P(BackwardOnMatrices, HeadDims) {
  for (const char* const text :
       part_of<const char*>({"40x70 d64 hq2", "40x70 d128 causal", "19x70 d80 dv96 f16 mask=f16:qk softcap=4",
                             "33x129 d192 dv128", "17x70 d256"})) {
    expect_gradients(text);
  }
}

/// Units of factors are raised where gradients are large or tiny, and where they grow along the sums.
TEST_P(BackwardOnMatrices, Magnitudes) {
  for (const char* const text :
       part_of<const char*>({"40x200 d16 magnitude=0.0001 scale=1", "40x200 d16 magnitude=30",
                             "200x200 d16 causal alibi=given f16 magnitude=3", "9x9 d8 magnitude=1000"})) {
    expect_gradients(text, 64);
  }
}

/// AMD's loads of matrices want neighbouring elements of a column, so visited rows are staged transposed.
/// Each part of the lists has this form, as a CPU.
TEST_P(BackwardOnMatrices, RowsStagedTransposed) {
  if (std::string_view(GetParam()) != "matrix") GTEST_SKIP() << "matrix2 stages no rows in this way";
  const Device device = device_with([](Capabilities& c) { c.vendor_id = detail::kVendorAmd; });
  const Problem problem = parsed("hq4 hkv2 37x70 d24 dv40 f16 causal lse");
  if (is_beyond_matrices(with_gradients(problem.desc))) GTEST_SKIP() << "wider than its heads on a CPU";
  expect_gradients(problem, with_gradients(problem.desc), options(), device);
}

/// Block sizes that are asked for: one subgroup and several, owned rows in registers and in shared memory,
/// steps of several matrices and chunks that such a step fills.
TEST_P(BackwardOnMatrices, StagedBlocks) {
  if (std::string_view(GetParam()) != "matrix2") GTEST_SKIP() << "matrix has blocks of its own";
  using Case = std::pair<TileSizes, const char*>;
  const auto staged = [](std::uint32_t subgroups, std::uint32_t rows, std::uint32_t keys) {
    return TileSizes{.subgroups = subgroups, .rows = rows, .keys = keys};
  };
  const std::vector<Case> cases{
      {staged(1, 16, 32), "hq4 hkv2 37x70 d24 dv40 f16 causal lse"},
      {staged(4, 32, 16), "b2 hq4 hkv2 70x37 d20 dv12 f16 kv_lengths=37,9 dropout=0.2"},
      {staged(2, 32, 32), "h2 70x140 d16 f16 window=20,9 softcap=4"},
      {staged(4, 16, 16), "33x70 d64 f16 causal"},
      {staged(4, 16, 32), "70x140 d128 f16 causal"}};
  int plans = 0;
  for (const auto& [tile, text] : part_of<Case>(cases)) {
    const Problem problem = parsed(text);
    const BackwardDesc desc = with_gradients(problem.desc);
    PlanOptions how = options(64);
    how.tile = tile;
    const auto plan = BackwardPlan::create(runtime().device(), desc, how);
    // A GPU's matrices may be larger; on a CPU the kernel takes heads of 64 dims.
    const char* const reason = capabilities().is_cpu() ? "takes heads of up to" : "stages no";
    if (!plan && has(plan.error().message, reason)) continue;
    expect_gradients(problem, desc, how);
    ++plans;
  }
  if (plans == 0) GTEST_SKIP() << "the device's matrices have none of these sizes";
}

TEST_P(BackwardOnMatrices, EveryShapeThatTheDeviceLists) {
  for (const MatrixShape& shape : capabilities().matrix_shapes) {
    if (shape.a_type != "f16" || shape.result_type != "f32" || shape.scope != "subgroup") continue;
    const Device device = device_with([&](Capabilities& c) { c.matrix_shapes = {shape}; });
    const Problem problem = parsed("hq4 hkv2 37x70 d24 dv40 causal");
    if (is_beyond_matrices(with_gradients(problem.desc))) GTEST_SKIP() << "wider than its heads on a CPU";
    expect_gradients(problem, with_gradients(problem.desc), options(), device);
  }
}

using BackwardPlans = GpuTest;

TEST_F(BackwardPlans, MistakesAreRefused) {
  const auto refused = [](const BackwardDesc& desc, const PlanOptions& options = {}) {
    return message_of(BackwardPlan::create(runtime().device(), desc, options));
  };
  const BackwardDesc good = with_all_gradients(desc_of("8x8 d8"));
  EXPECT_EQ(refused(good), "");
  EXPECT_TRUE(has(refused(good, {.kernel = "slow"}), "no kernel 'slow'"));
  EXPECT_TRUE(has(refused(good, {.chunk_keys = 65}), "chunk_keys is 65"));
  const Device small = device_with([](Capabilities& c) { c.max_storage_buffer_range = 4096; });
  EXPECT_TRUE(is_refused(BackwardPlan::create(small, with_all_gradients(desc_of("800x800 d8"))),
                         ErrorCode::kLimitExceeded, {"maxStorageBufferRange", "4096"}));
}

TEST_F(BackwardPlans, WithoutBindings) {
  if (!capabilities().push_descriptors) GTEST_SKIP() << "the device has no push descriptors";
  const Problem problem = parsed("20x130 d8 hq2 softcap=3 sinks");
  BackwardDesc desc = with_all_gradients(problem.desc);
  desc.has_grad_lse = true;
  auto run = must(BackwardRun::create(runtime(), problem, desc));
  PlanOptions options{.chunk_keys = 64, .push_descriptors = true};
  const auto plan = must(BackwardPlan::create(runtime().device(), desc, options));
  const Buffer workspace = runtime().create_workspace(plan).value();
  must(runtime().execute(
      [&](VkCommandBuffer commands) { must(plan.record(commands, run.tensors(), workspace.range())); }));
  const auto pushed = must(run.bytes());
  options.push_descriptors = false;
  const auto bound = must(BackwardPlan::create(runtime().device(), desc, options));
  must(run.execute(bound));
  expect_right_gradients(run, bound.describe());
  const auto whole = must(run.bytes());
  std::vector<BufferRange BackwardTensors::*> written;
  for (const detail::GradientRow& row : detail::tensor_table<BackwardTensors>())
    if (row.use.written) written.push_back(row.range);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const harness::TensorBuffer& tensor = run.tensor(written[i]);
    const auto first = static_cast<std::ptrdiff_t>(tensor.offset);
    const auto last = first + static_cast<std::ptrdiff_t>(tensor.bytes);
    if (tensor.bytes == 0) continue;
    EXPECT_TRUE(std::equal(whole[i].begin() + first, whole[i].begin() + last, pushed[i].begin() + first));
  }
}

TEST_F(BackwardPlans, WorkspaceIsLinearInLength) {
  const auto bytes = [](const char* text) {
    return must(BackwardPlan::create(runtime().device(), with_all_gradients(desc_of(text))))
        .workspace_bytes();
  };
  EXPECT_LE(bytes("8192x8192 d16"), 2 * bytes("4096x4096 d16"));
}

}  // namespace
}  // namespace vkattn::tests

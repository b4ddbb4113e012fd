// Which results a self-test accepts or refuses.
#include "self_test/small_problem.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/vendors.hpp"
#include "matmul/matmul_program.hpp"
#include "self_test/small_test.hpp"
#include "support/must.hpp"
#include "support/problem_text.hpp"
#include "support/special_numbers.hpp"
#include "support/text.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::detail {
namespace {

using tests::has;

/// Two keys of equal scores: each output is the mean of their values, and the lse is log(2).
TEST(FirstDifference, IsNamed) {
  const AttentionDesc desc = tests::parsed("2x2 d1 lse").desc;
  const std::vector<float> query{0, 0}, key{1, 2}, value{3, 5};
  const auto difference = [&](float output, float lse) {
    std::vector<float> outputs{4, output}, all_lse{std::log(2.0F), lse};
    return first_difference(desc,
                            {.query = query, .key = key, .value = value, .output = outputs, .lse = all_lse},
                            DataType::kFloat32);
  };
  EXPECT_EQ(difference(4, std::log(2.0F)), "");
  for (const float wrong : {0.0F, 4.01F, tests::kNan, tests::kInfinity}) {
    EXPECT_TRUE(has(difference(wrong, std::log(2.0F)), "query 1, dim 0")) << wrong;
  }
  EXPECT_TRUE(has(difference(4, 0), "query 1, lse"));
}

TEST(SmallProblem, HasAHeadWhereTheProblemHasNone) {
  AttentionDesc desc = tests::parsed("64x64 d32").desc;
  for (const std::int64_t kv_heads : {0, 2}) {
    desc.query_heads = 0;
    desc.kv_heads = kv_heads;
    EXPECT_TRUE(validate(desc).ok());
    EXPECT_EQ(small_problem(desc).query_heads, 1) << kv_heads;
    EXPECT_GE(timed_problem(desc, 16).query_heads, 1) << kv_heads;
  }
}

AttentionDesc timed(const char* problem, std::int64_t compute_units = 16) {
  return timed_problem(tests::parsed(problem).desc, compute_units);
}

TEST(TimedProblem, IsOneForEveryProblemOfAPipeline) {
  EXPECT_EQ(timed("h2 64x64 d32 f16"), timed("b3 h5 7x900 d32 f16"));
  EXPECT_EQ(timed("hq8 hkv2 64x64 d32 f16"), timed("hq4 hkv1 9x64 d32 f16"));
  EXPECT_EQ(timed("64x64 d32 window=3,4"), timed("64x64 d32 window=30,1 causal"));
  EXPECT_EQ(timed("64x64 d32 window=3,1"), timed("64x64 d32 window=30,0 causal"));
  EXPECT_EQ(timed("h2 64x64 d32 mask=f32:bhqk"), timed("h2 64x64 d32 mask=f32:k"));
  EXPECT_NE(timed("64x64 d32 f16"), timed("64x64 d32 f16 causal"));
  EXPECT_NE(timed("64x64 d32 f16"), timed("64x64 d32 bf16"));
  EXPECT_NE(timed("64x64 d32"), timed("64x64 d32 page=16")) << "the form with features";
}

TEST(TimedProblem, FillsTheDevice) {
  for (const char* const problem : {"h2 64x64 d32 f16", "hq8 hkv2 64x64 d32 f16"}) {
    const AttentionDesc small = timed(problem, 1), large = timed(problem, 96), huge = timed(problem, 100'000);
    EXPECT_EQ(small.kv_heads, 1);
    EXPECT_GE(large.query_heads * large.query_length, 96 * 128);
    EXPECT_EQ(huge.kv_heads, 64) << "but takes no more memory than that";
  }
}

TEST(TimedProblem, IsValidWithTensorsOfItsSize) {
  for (const char* const problem :
       {"h2 64x64 d32", "hq4 hkv2 64x64 d17 f16 mask=bits:bhqk causal",
        "h2 50x70 d64 mask=f16:k sinks softcap=5", "h3 60x60 d40 bf16 mask=bytes:bqk alibi=given dropout=0.1",
        "h2 64x64 d32 f16 cache=q8_0 kv_lengths=50", "h2 64x64 d32 key=q4_0 value=e4m3",
        "h2 64x64 d17 cache=e4m3 page=16", "64x64 d32 sequences query_lengths=40 kv_lengths=60",
        "h2 64x64 d32 window=3,4 align=7 ring=50", "h4 64x64 d32 f16 mask=f16:h2qk alibi=times-mask"}) {
    const AttentionDesc desc = timed(problem);
    tests::must(validate(desc));
    const auto tensors = small_tensors(desc);
    for (const TensorRow& row : tensor_table()) {
      if (!row.is_used(desc)) continue;
      const auto bytes = static_cast<std::size_t>(row.bytes(desc));
      EXPECT_GE(tensors[row.range].size(), bytes) << problem << ", " << row.name;
      EXPECT_LE(tensors[row.range].size(), bytes + 3) << problem << ", " << row.name;
    }
  }
}

TEST(SmallProblem, PromisesTheAlignmentOfItsBuffer) {
  AttentionDesc desc = tests::parsed("64x64 d32 f16").desc;
  desc.query.alignment_bytes = desc.value.alignment_bytes = 256;
  desc.key.alignment_bytes = 8;
  BackwardDesc gradients;
  gradients.attention = desc;
  gradients.attention.has_lse = true;
  gradients.has_grad_query = true;
  gradients.grad_query = TensorDesc{DataType::kFloat32, {}, 1024};
  const BackwardDesc small = small_backward(gradients.resolved());
  for (const AttentionDesc& each : {small_problem(desc.resolved()), small.attention}) {
    EXPECT_EQ(each.query.alignment_bytes, 16U);
    EXPECT_EQ(each.key.alignment_bytes, 8U) << "no more than it was";
    EXPECT_EQ(each.value.alignment_bytes, 16U);
  }
  EXPECT_EQ(small.grad_query->alignment_bytes, 16U);
}

/// decode takes few rows, and specialization depends on their number. So a test has the rows of its problem.
TEST(SmallProblem, OfDecodeRunsTheCodeOfItsProblem) {
  Capabilities device = tests::gpu_of(kVendorNvidia, 32, 32);
  device.subgroup_arithmetic = true;
  constexpr tests::HostKernel kDecode{"decode", configure_decode};
  for (const char* const problem :
       {"hq32 hkv8 1x4096 d128 f16", "hq4 hkv4 2x900 d64 f32", "hq16 hkv1 1x80 d64 f16",
        "b3 h2 16x100 d40 bf16", "hq12 hkv4 5x75 d64 f16 causal align=7",
        "hq8 hkv2 1x1000 d128 f16 page=16 sinks causal", "b2 hq6 hkv2 3x50 d64 f16 kv_lengths=50,9"}) {
    SCOPED_TRACE(problem);
    const AttentionDesc desc = tests::parsed(problem).desc.resolved();
    const KernelConfig plan = kDecode.configured(problem, device);
    for (const AttentionDesc& test :
         {small_problem(desc, TestRows::kOfProblem), timed_problem(desc, 132, TestRows::kOfProblem)}) {
      tests::must(validate(test));
      EXPECT_EQ(packed_rows(test), packed_rows(desc));
      const auto config = tests::must(kDecode(test, device));
      EXPECT_EQ(config.shader, plan.shader);
      EXPECT_EQ(config.summary, plan.summary);
      EXPECT_TRUE(config.constants == plan.constants);
    }
    EXPECT_TRUE(has(tests::message_of(kDecode(small_problem(desc), device)), "holds 16 query rows"));
  }
}

/// A kernel for products, and the products that it takes.
struct ProductKernel {
  const char* name;
  decltype(&configure_matmul_lane) configure;
};
constexpr std::array kProductKernels{ProductKernel{"lane", configure_matmul_lane},
                                     ProductKernel{"tile", configure_matmul_tile},
                                     ProductKernel{"matrix", configure_matmul_matrix},
                                     ProductKernel{"lane_decode", configure_matmul_lane_decode}};

std::vector<Capabilities> devices_with_products() {
  using tests::gpu_of, tests::shape;
  Capabilities cpu = tests::with_lanes(tests::small_device(DeviceType::kCpu), 8);
  cpu.storage_buffer_16bit = cpu.shader_int64 = true;
  const Capabilities with_addresses = tests::changed(cpu, [](Capabilities& c) {
    c.subgroup_shuffle = c.shader_float16 = c.buffer_addresses = true;
    c.max_push_constants_bytes = 256;
  });
  return {cpu, with_addresses, gpu_of(kVendorNvidia, 32, 32), gpu_of(kVendorIntel, 16, 32, shape(16, 16, 16)),
          gpu_of(kVendorIntel, 8, 32, shape(8, 8, 16))};
}

/// Products that each have a form of their own in the kernels that load them.
std::vector<MatmulDesc> products(DataType type) {
  std::vector<MatmulDesc> all;
  const auto add = [&](std::int64_t rows, std::int64_t columns, std::int64_t inner) -> MatmulDesc& {
    MatmulDesc desc = tests::product_of(rows, columns, inner);
    desc.a.type = desc.b.type = desc.output.type = type;
    return all.emplace_back(desc);
  };
  add(64, 64, 64);
  add(512, 512, 512);
  add(33, 70, 129);
  add(36, 44, 20);
  add(64, 64, 64).a.strides = MatrixStrides{0, 1, 64};
  add(36, 64, 64).a.strides = MatrixStrides{0, 1, 40};
  add(64, 64, 64).a.strides = MatrixStrides{0, 1, 68};
  add(64, 64, 64).b.strides = MatrixStrides{0, 68, 1};
  add(64, 64, 64).b.strides = MatrixStrides{0, 1, 65};
  // Neighbouring elements that lie apart, and a matrix of one row.
  add(64, 64, 64).a.strides = MatrixStrides{0, 128, 2};
  add(64, 64, 64).b.strides = MatrixStrides{0, 2, 128};
  add(64, 64, 64).a.strides = MatrixStrides{0, 0, 1};
  // Strides along an extent of 1 do not count.
  add(1, 64, 33).a.strides = MatrixStrides{0, 33, 1};
  add(64, 1, 32).b.strides = MatrixStrides{0, 1, 33};
  add(64, 64, 1).a.strides = MatrixStrides{0, 1, 1};
  add(64, 64, 1).b.strides = MatrixStrides{0, 65, 1};
  // Strides between batch entries count.
  for (const std::int64_t batch_stride : {4097, 4100, 4104}) {
    MatmulDesc& desc = add(64, 64, 64);
    desc.batch = 3;
    desc.a.strides = MatrixStrides{batch_stride, 64, 1};
    desc.b.strides = MatrixStrides{batch_stride, 1, 64};
    desc.output.strides = MatrixStrides{4096, 64, 1};
  }
  for (const std::uint32_t alignment : {4U, 8U, 256U}) {
    MatmulDesc& desc = add(64, 64, 64);
    desc.a.alignment_bytes = desc.b.alignment_bytes = desc.output.alignment_bytes = alignment;
  }
  all.push_back(MatmulDesc::sum_columns(40, 30, type));
  for (const std::int64_t rows : {40, 130}) {
    MatmulDesc& blocks = add(rows, 258, 64);
    blocks.b.type = DataType::kQ8_0;
  }
  add(385, 387, 129);
  for (const std::int64_t inner : {512, 544, 550, 768}) {  // whole long steps, whole short ones, neither
    for (const std::int64_t rows : {1, 3, 8}) add(rows, 96, inner).b.strides = MatrixStrides{0, 1, inner};
  }
  return all;
}

/// Of a plan that reads vectors: these are read in whole steps alone.
void expect_whole_steps(const MatmulConfig& small, const MatmulConfig& plan, const Capabilities& device) {
  const std::int64_t step = std::int64_t{plan.tile.inner} * kVectorLanes, inner = small.view.inner;
  EXPECT_EQ(small.tile, plan.tile);
  EXPECT_GE(inner, step * 2);
  const InnerSplit split = tests::must(choose_inner_split(small, device, 2));
  EXPECT_GE(split.inner, step);
  if (plan.view.inner % step == 0) {
    EXPECT_GE(inner - split.inner, step) << "the last part";
  }
}

/// A self-test's outcome holds for the plan, because both are specialized with the same values.
TEST(SmallProduct, RunsTheCodeOfItsProduct) {
  std::array<int, kProductKernels.size()> seen{};
  int copied = 0;
  for (const Capabilities& device : devices_with_products()) {
    for (std::size_t k = 0; k < kProductKernels.size(); ++k) {
      const ProductKernel& kernel = kProductKernels[k];
      for (const DataType type : {DataType::kFloat16, DataType::kFloat32}) {
        const std::vector<MatmulDesc> all = products(type);
        for (std::size_t i = 0; i < all.size(); ++i) {
          SCOPED_TRACE(
              message(kernel.name, ", vendor ", device.vendor_id, ", ", name(type), ", product ", i));
          tests::must(validate(all[i]));
          const auto plan =
              kernel.configure(all[i].resolved(), device, matmul_tiles(kernel.name, device), {});
          if (!plan.ok()) continue;
          ++seen[k];
          const MatmulDesc desc = small_product(all[i].resolved(), kernel.name, plan->tile);
          tests::must(validate(desc));
          const std::array tiles{plan->tile};
          const MatmulOperand& a = plan->view.a;
          const MatmulOperand& b = plan->view.b;
          const bool is_exchanged = plan->view.bias_by_row;
          const MatmulCopies copies{(is_exchanged ? b : a).is_copied, (is_exchanged ? a : b).is_copied};
          copied += int{copies.a} + int{copies.b};
          const auto small = tests::must(kernel.configure(desc, device, tiles, copies));
          EXPECT_EQ(small.shader, plan->shader);
          EXPECT_EQ(small.summary, plan->summary);
          EXPECT_TRUE(small.constants == plan->constants);
          EXPECT_EQ(small.view.a.loads, plan->view.a.loads);
          EXPECT_EQ(small.view.b.loads, plan->view.b.loads);
          EXPECT_EQ(small.view.a.type, plan->view.a.type);
          EXPECT_EQ(small.view.bias_by_row, plan->view.bias_by_row);
          EXPECT_EQ(choose_inner_split(small, device, 2)->parts, 2) << "inner is " << desc.inner;
          EXPECT_LE(desc.a.alignment_bytes, 16U);
          if (!small.own_addresses.empty()) expect_whole_steps(small, *plan, device);
        }
      }
    }
  }
  for (const int count : seen) EXPECT_GT(count, 30);
  EXPECT_GT(copied, 4);
}

TEST(HashOfPasses, TellsSubgroupSizesModesAndLoops) {
  std::vector<ProgramPass> passes(1);
  passes[0].specialization = {{1, 2}};
  const std::uint64_t any = hash_of(passes, {});
  EXPECT_EQ(hash_of(passes, {}), any);
  EXPECT_NE(hash_of(passes, {.maximal_reconvergence = true}), any);
  EXPECT_NE(hash_of(passes, {.subgroup_uniform_control_flow = true}),
            hash_of(passes, {.maximal_reconvergence = true}));
  EXPECT_NE(hash_of(passes, {.float16_to_nearest = true}), any);
  passes[0].unrolls_on_cpus = true;
  EXPECT_NE(hash_of(passes, {}), any);
  passes[0].unrolls_on_cpus = false;
  passes[0].required_subgroup_size = 16;
  const std::uint64_t of_16 = hash_of(passes, {});
  passes[0].required_subgroup_size = 32;
  EXPECT_NE(of_16, any);
  EXPECT_NE(hash_of(passes, {}), of_16);
}

}  // namespace
}  // namespace vkattn::detail

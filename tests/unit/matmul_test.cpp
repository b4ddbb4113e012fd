// Matrix multiplication without a device: rules with their numbers, strides that follow, choices, the
// reference.
#include <vkattn/matmul.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/vendors.hpp"
#include "matmul/matmul_program.hpp"
#include "program/program.hpp"
#include "reference/matmul.hpp"
#include "shared/matmul_constants.h"
#include "support/must.hpp"
#include "support/rule.hpp"
#include "unit/made_up_device.hpp"

namespace vkattn::tests {
namespace {

Capabilities cpu() {
  Capabilities capabilities;
  capabilities.device_type = DeviceType::kCpu;
  capabilities.subgroup_size = 8;
  capabilities.compute_units = 2;
  capabilities.storage_buffer_16bit = true;
  capabilities.shader_int64 = true;
  return capabilities;
}

/// Why a product is not planned; empty where it is.
std::string refusal_of(const MatmulDesc& desc, const Capabilities& device, const PlanOptions& options) {
  return message_of(detail::select_matmul_kernel(desc.resolved(), device, options));
}

TEST(Matmul, StridesThatFollow) {
  MatmulDesc desc = product_of(3, 5, 64);
  const MatmulDesc plain = desc.resolved();
  EXPECT_EQ(*plain.a.strides, (MatrixStrides{192, 64, 1}));
  EXPECT_EQ(*plain.b.strides, (MatrixStrides{320, 5, 1}));
  EXPECT_EQ(*plain.output.strides, (MatrixStrides{15, 5, 1}));
  desc.b.type = DataType::kQ4_0;
  EXPECT_EQ(*desc.resolved().b.strides, (MatrixStrides{320, 1, 64}));
  EXPECT_EQ(desc.resolved().resolved(), desc.resolved());
}

void quantise_b(MatmulDesc& desc, std::int64_t column_stride) {
  desc.b = {DataType::kQ8_0, MatrixStrides{0, 1, column_stride}};
}
void reach_far(MatmulDesc& desc) {
  desc.a.strides = MatrixStrides{0, std::int64_t{1} << 62, 1};
}

TEST(Matmul, RefusesByName) {
  expect_refused_by_name<MatmulDesc>(
      product_of(4, 6, 64),
      {{"MatmulDesc::rows is not set", [](auto& d) { d = {}; }},
       {"inner -2 from 0", [](auto& d) { d.inner = -2; }},
       {"rows 2147483648", [](auto& d) { d.rows = std::int64_t{1} << 31; }},
       {"a q8_0 f32, f16 bf16", [](auto& d) { d.a.type = DataType::kQ8_0; }},
       {"inner 65 96", [](auto& d) { d.inner = 65, d.b.type = DataType::kQ8_0; }},
       {"0, 1 80 multiples 32", [](auto& d) { quantise_b(d, 80); }},
       {"output overlap row 5 above",
        [](auto& d) {
          d.output.strides = MatrixStrides{0, 5, 1};
        }},
       {"output column -4",
        [](auto& d) {
          d.output.strides = MatrixStrides{0, 1, -4};
        }},
       {"alignment_bytes output 2 least 4", [](auto& d) { d.output.alignment_bytes = 2; }},
       {"a 3298534883392",
        [](auto& d) {
          d.a.strides = MatrixStrides{0, std::int64_t{1} << 40, 1};
        }},
       {"a 2^63", reach_far}});
  MatmulDesc valid = product_of(4, 6, 64);
  quantise_b(valid, 96);
  EXPECT_EQ(message_of(validate(valid)), "");
  reach_far(valid);
  valid.a_is_ones = true;
  EXPECT_EQ(message_of(validate(valid)), "") << "ones have no storage that could break a rule";
}

TEST(Matmul, KernelsTellTheirReasons) {
  const auto support = kernel_support(product_of(8, 8, 8), cpu());
  EXPECT_TRUE(std::ranges::any_of(
      support, [](const KernelSupport& each) { return each.kernel == "lane" && each.reason.empty(); }));
  const auto none = kernel_support(MatmulDesc{}, cpu());
  EXPECT_EQ(none.size(), support.size());
  for (const KernelSupport& each : none) {
    EXPECT_TRUE(has(each.reason, "rows is not set"));
  }
}

TEST(Matmul, TileTakesTheBlockThatFits) {
  Capabilities gpu;
  gpu.device_type = DeviceType::kDiscreteGpu;
  gpu.max_workgroup_invocations = 256;
  gpu.max_workgroup_size = {256, 1, 1};
  const auto chosen = [&](const MatmulDesc& desc) {
    return detail::select_matmul_kernel(desc.resolved(), gpu, {}).value().config;
  };
  const detail::MatmulConfig large = chosen(product_of(512, 512, 512));
  EXPECT_EQ(large.name, "tile");
  EXPECT_EQ(large.tile, (MatmulTile{256, 4, 4, 16}));
  EXPECT_EQ(large.block_rows, 64U);
  EXPECT_EQ(chosen(product_of(8, 512, 512)).tile, (MatmulTile{64, 2, 4, 16}));
  gpu.max_workgroup_invocations = 128;
  EXPECT_EQ(chosen(product_of(512, 512, 512)).tile, (MatmulTile{64, 4, 4, 16}));
  PlanOptions options;
  options.kernel = "tile";
  options.matmul_tile = MatmulTile{64, 8, 8, 64};
  EXPECT_TRUE(has(refusal_of(product_of(512, 512, 512), gpu, options), "threads 64, rows 8"));
  options.matmul_tile = MatmulTile{64, 8, 8, 32};
  gpu.max_shared_memory_bytes = 16384;
  EXPECT_TRUE(has(refusal_of(product_of(512, 512, 512), gpu, options), "17408 bytes of shared memory"));
}

TEST(Matmul, MatrixUnitsTakeOneTypeOf16Bits) {
  const Capabilities gpu = matrix_gpu();
  PlanOptions options;
  options.kernel = "matrix";
  MatmulDesc desc = product_of(512, 512, 512);
  EXPECT_TRUE(has(refusal_of(desc, gpu, options), "a is f32 and b f32"));
  desc.a.type = DataType::kFloat16;
  EXPECT_TRUE(has(refusal_of(desc, gpu, options), "a is f16 and b f32"));
  EXPECT_TRUE(has(refusal_of(MatmulDesc::sum_columns(4, 4, DataType::kFloat16), gpu, options), "all ones"));
  desc.b.type = DataType::kFloat16;
  options.kernel.clear();
  options.refusals = {{"matrix", "was wrong"}};
  const auto others = must(detail::select_matmul_kernel(desc.resolved(), gpu, options));
  EXPECT_EQ(others.config.name, "tile");
  EXPECT_EQ(others.considered.front().reason, "was wrong");
  options.kernel = "matrix";
  EXPECT_TRUE(has(refusal_of(desc, gpu, options), "was wrong"));
  options.refusals.clear();
  EXPECT_TRUE(has(refusal_of(desc, cpu(), options), "cooperativeMatrix"));
  Capabilities without = gpu;
  without.matrix_shapes[0].a_type = "s8";
  EXPECT_TRUE(has(refusal_of(desc, without, options), "no matrix shape of f16 x f16"));
}

TEST(Matmul, MatrixBlocksFollowTheProblemAndTheDevice) {
  const auto block = [](const MatmulDesc& desc, const Capabilities& gpu, MatmulTile tile = {}) {
    MatmulDesc halves = desc;
    halves.a.type = halves.b.type = DataType::kFloat16;
    const std::vector<MatmulTile> table{{0, 64, 32, 32, 4}, {0, 32, 32, 32, 4}, {0, 16, 16, 16, 1}};
    const std::vector<MatmulTile> one{tile};
    const auto config = detail::configure_matmul_matrix(
        halves.resolved(), gpu, tile.rows == 0 ? std::span<const MatmulTile>(table) : one, {});
    return config.ok() ? config->tile : MatmulTile{};
  };
  Capabilities gpu = matrix_gpu();
  gpu.compute_units = 40;
  EXPECT_EQ(block(product_of(640, 512, 512), gpu), (MatmulTile{0, 64, 32, 32, 4}));
  EXPECT_EQ(block(product_of(512, 512, 512), gpu), (MatmulTile{0, 32, 32, 32, 4})) << "32 large blocks";
  EXPECT_EQ(block(product_of(512, 512, 512), gpu, {0, 64, 32, 32, 4}), (MatmulTile{0, 64, 32, 32, 4}))
      << "asked for";
  EXPECT_EQ(block(product_of(64, 64, 64), gpu), (MatmulTile{0, 32, 32, 32, 4}));
  EXPECT_EQ(block(product_of(1, 64, 64), gpu), (MatmulTile{0, 16, 16, 16, 1}));
  EXPECT_EQ(block(product_of(512, 512, 512), gpu, {0, 24, 32, 32, 4}), MatmulTile{});
  gpu.max_shared_memory_bytes = 16384;  // the largest takes 19456
  EXPECT_EQ(block(product_of(640, 512, 512), gpu), (MatmulTile{0, 32, 32, 32, 4}));
}

/// The table's last is not.
TEST(Matmul, MatrixNamesWhatItsSmallestBlockExceeds) {
  Capabilities gpu = matrix_gpu();
  gpu.max_shared_memory_bytes = 1024;
  MatmulDesc desc = product_of(512, 512, 512);
  desc.a.type = desc.b.type = DataType::kFloat16;
  const std::vector<MatmulTile> smallest{{0, 16, 16, 16, 1}};
  const std::vector<MatmulTile> table = detail::matmul_tiles("matrix", gpu);
  EXPECT_NE(table.back(), smallest.front());
  const std::string words = message_of(detail::configure_matmul_matrix(desc.resolved(), gpu, table, {}));
  EXPECT_NE(words, "");
  EXPECT_EQ(words, message_of(detail::configure_matmul_matrix(desc.resolved(), gpu, smallest, {})));
}

/// docs/compilers.txt: larger ones spill there.
TEST(Matmul, MatrixBlocksOfIntel) {
  const auto best = [](std::uint32_t least_lanes) {
    Capabilities gpu = matrix_gpu();
    gpu.vendor_id = detail::kVendorIntel;
    gpu.min_subgroup_size = least_lanes;
    return detail::matmul_tiles("matrix", gpu).front();
  };
  EXPECT_EQ(best(16), (MatmulTile{0, 16, 32, 16, 4}));
  EXPECT_EQ(best(8), (MatmulTile{0, 16, 16, 16, 4}));
  EXPECT_EQ(detail::matmul_tiles("matrix", matrix_gpu()).front(), (MatmulTile{0, 64, 32, 32, 4}));
}

/// One row gives invocations columns in place of rows.
TEST(Matmul, FewRowsAreExchangedWithColumns) {
  const auto lane = [](const MatmulDesc& desc) {
    PlanOptions options;
    options.kernel = "lane";
    return detail::select_matmul_kernel(desc.resolved(), cpu(), options).value().config.view;
  };
  // Of two matrices by rows b has neighbours for an invocation.
  EXPECT_TRUE(lane(product_of(64, 64, 64)).bias_by_row);
  MatmulDesc transposed = product_of(64, 64, 64);
  transposed.b.strides = MatrixStrides{0, 1, 64};
  EXPECT_FALSE(lane(transposed).bias_by_row);
  const detail::MatmulView view = lane(product_of(1, 64, 32));
  EXPECT_TRUE(view.bias_by_row);
  EXPECT_EQ(view.rows, 64);
  EXPECT_EQ(view.a.tensor, 1U);
  EXPECT_EQ(view.output.row, 1);
}

/// Read once for many rows or columns of the output, and badly where they lie.
TEST(Matmul, OperandsAreCopiedForCpus) {
  const auto copies = [](const MatmulDesc& desc, const Capabilities& device) {
    const auto selection = detail::select_matmul_kernel(desc.resolved(), device, {.kernel = "lane"});
    std::string names;
    for (const detail::MatmulOperand* operand :
         {&selection.value().config.view.a, &selection.value().config.view.b}) {
      if (operand->is_copied) names.push_back(operand->tensor == 0 ? 'a' : 'b');
    }
    std::ranges::sort(names);
    return names;
  };
  const auto of = [](std::int64_t rows, std::int64_t columns, std::int64_t inner,
                     DataType type = DataType::kFloat32, DataType b_type = DataType::kFloat32,
                     bool a_transposed = false) {
    MatmulDesc desc = product_of(rows, columns, inner);
    desc.a.type = type;
    desc.b.type = b_type;
    if (a_transposed) desc.a.strides = MatrixStrides{0, 1, rows};
    return desc;
  };
  constexpr DataType kF32 = DataType::kFloat32, kF16 = DataType::kFloat16, kQ8 = DataType::kQ8_0;
  EXPECT_EQ(copies(of(512, 1024, 1024), cpu()), "b");
  EXPECT_EQ(copies(of(512, 512, 1024), cpu()), "") << "b fits a cache";
  EXPECT_EQ(copies(of(508, 1024, 1024), cpu()), "") << "few rows";
  EXPECT_EQ(copies(of(2048, 512, 512, kF32, kF32, true), cpu()), "a");
  EXPECT_EQ(copies(of(385, 387, 67), cpu()), "ab");
  EXPECT_EQ(copies(of(385, 301, 67), cpu()), "b") << "a is read for 301 columns";
  EXPECT_EQ(copies(of(385, 387, 9), cpu()), "") << "few elements";
  EXPECT_EQ(copies(of(257, 301, 67, kF16, kF16), cpu()), "ab");
  EXPECT_EQ(copies(of(127, 256, 64, kF32, kQ8), cpu()), "");
  EXPECT_EQ(copies(of(128, 256, 64, kF32, kQ8), cpu()), "b");
  MatmulDesc sums = MatmulDesc::sum_columns(4096, 4098, kF16);
  EXPECT_EQ(copies(sums, cpu()), "");
  sums.batch = 300;
  sums.b.strides = MatrixStrides{0, 4098, 1};
  EXPECT_EQ(copies(sums, cpu()), "b") << "one matrix is read for all of the batch";
  Capabilities device = cpu();
  device.shader_int64 = false;
  EXPECT_EQ(copies(of(385, 387, 67), device), "");
  EXPECT_TRUE(has(refusal_of(of(4, 4, 4), device, {.kernel = "lane", .copies = MatmulCopies{true, true}}),
                  "asks for copies"));
  EXPECT_TRUE(has(refusal_of(MatmulDesc::sum_columns(4, 4, kF32), cpu(),
                             {.kernel = "lane", .copies = MatmulCopies{true, false}}),
                  "all ones"));
  device = cpu();
  device.max_storage_buffer_range = 4 * 96 * 387;
  EXPECT_EQ(copies(of(385, 387, 67), device), "b") << "no more than one tensor may have";
  device = cpu();
  device.max_buffer_size = 2 * 4 * 96 * 387;
  EXPECT_EQ(copies(of(385, 387, 67), device), "b") << "and half of a buffer";
  device.device_type = DeviceType::kDiscreteGpu;
  EXPECT_EQ(copies(of(385, 387, 67), device), "");
}

/// Each copy has a pass and a place of its own, behind the sums of parts.
TEST(Matmul, CopiesLieInTheWorkspace) {
  const MatmulDesc desc = product_of(385, 387, 129).resolved();
  const auto selection = must(detail::select_matmul_kernel(desc, cpu(), {.kernel = "lane"}));
  const auto split = must(detail::choose_inner_split(selection.config, cpu(), 2));
  const auto program = must(detail::matmul_program(desc, selection.config, split, {}, cpu()));
  std::vector<std::string> names;
  for (const auto& pass : program.passes) names.push_back(pass.name);
  EXPECT_EQ(names, (std::vector<std::string>{"copy of a", "copy of b", "lane", "combine"}));
  EXPECT_TRUE(program.passes[2].barrier.has_value());
  constexpr std::uint64_t kSums = 2ULL * 385 * 387 * 4, kRow = 160 * 4;
  std::uint64_t end = kSums;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& written = program.sets[i].bindings[VKATTN_MATMUL_BINDING_PARTIALS];
    const auto& read = program.sets[2].bindings[i == 0 ? VKATTN_MATMUL_BINDING_A : VKATTN_MATMUL_BINDING_B];
    EXPECT_EQ(written.workspace_byte, read.workspace_byte);
    EXPECT_EQ(written.workspace_byte % detail::binding_alignment(cpu()), 0U);
    EXPECT_GE(written.workspace_byte, end);
    EXPECT_EQ(written.bytes, kRow * (i == 0 ? 385 : 387));
    end = written.workspace_byte + written.bytes;
  }
  EXPECT_EQ(program.workspace_bytes, end);
}

TEST(Matmul, PartsOfTheInnerDimension) {
  const auto split = [](const MatmulDesc& desc, std::uint32_t wanted) {
    const auto selection = detail::select_matmul_kernel(desc.resolved(), cpu(), {});
    return detail::choose_inner_split(selection.value().config, cpu(), wanted).value();
  };
  EXPECT_EQ(split(product_of(512, 512, 512), 0).parts, 1);
  EXPECT_EQ(split(product_of(4, 4, 4096), 0).parts, 2);  // compute units
  EXPECT_EQ(split(product_of(4, 4, 100), 0).parts, 1);   // too little of it
  EXPECT_EQ(split(product_of(4, 4, 200), 3).parts, 2);   // whole steps of 64
  EXPECT_EQ(split(product_of(4, 4, 200), 3).inner, 128);
  EXPECT_EQ(split(product_of(4, 4, 0), 3).parts, 1);
  EXPECT_EQ(split(product_of(4, 4, 8192), 64).parts, 64);
  const auto selection = detail::select_matmul_kernel(product_of(4, 4, 8192).resolved(), cpu(), {});
  EXPECT_EQ(detail::choose_inner_split(selection.value().config, cpu(), 65).error().message,
            "inner_splits is 65 but inner is cut into at most 64 parts");
}

TEST(Matmul, ReferenceByHand) {
  MatmulDesc desc = product_of(2, 2, 3);
  desc.has_bias = true;
  desc.accumulates = true;
  desc.b.strides = MatrixStrides{0, 1, 3};  // transposed
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 0, -1, 2, 1, 0}, bias{10, 20}, before{1, 1, 1, -1};
  reference::MatmulReference reference(desc.resolved(), {a, b, bias, before});
  EXPECT_EQ(reference.row(0, 0).output, (std::vector<double>{1 - 3 + 10 + 1, 2 + 2 + 20 + 1}));
  EXPECT_EQ(reference.row(0, 1).output, (std::vector<double>{4 - 6 + 10 + 1, 8 + 5 + 20 - 1}));
  EXPECT_EQ(reference.row(0, 1).magnitude[0], 21);
  EXPECT_LT(reference.tolerance(0), 1e-4);
  MatmulDesc sums = MatmulDesc::sum_columns(2, 3).resolved();
  reference::MatmulReference of_columns(sums, {{}, a, {}, {}});
  EXPECT_EQ(of_columns.row(0, 0).output, (std::vector<double>{5, 7, 9}));
}

}  // namespace
}  // namespace vkattn::tests

// Matrix multiplication without a device: rules with their numbers, strides that follow, the reference.
// Its decisions are in decisions.txt.
#include <vkattn/matmul.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

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

TEST(Matmul, BlockSizesThatAreAskedFor) {
  Capabilities gpu = matrix_gpu();
  gpu.max_workgroup_invocations = 256;
  PlanOptions options;
  options.kernel = "tile";
  options.matmul_tile = MatmulTile{64, 8, 8, 64};
  EXPECT_TRUE(has(refusal_of(product_of(512, 512, 512), gpu, options), "threads 64, rows 8"));
  options.matmul_tile = MatmulTile{64, 8, 8, 32};
  gpu.max_shared_memory_bytes = 16384;
  EXPECT_TRUE(has(refusal_of(product_of(512, 512, 512), gpu, options), "17408 bytes of shared memory"));
  MatmulDesc halves = product_of(512, 512, 512);
  halves.a.type = halves.b.type = DataType::kFloat16;
  gpu = matrix_gpu();
  gpu.compute_units = 40;  // the 32 large blocks do not fill them
  const auto matrix = [&](const MatmulTile& tile) {
    return detail::configure_matmul_matrix(halves.resolved(), gpu, std::vector{tile}, {});
  };
  EXPECT_EQ(must(matrix({0, 64, 32, 32, 4})).tile, (MatmulTile{0, 64, 32, 32, 4}));
  EXPECT_FALSE(matrix({0, 24, 32, 32, 4}).ok());
  EXPECT_EQ(must(matrix({0, 64, 32, 32, 4, 2})).tile, (MatmulTile{0, 64, 32, 32, 4, 2}));
  gpu.max_shared_memory_bytes = 24576;  // enough for one stage
  EXPECT_TRUE(matrix({0, 64, 32, 32, 4}).ok());
  EXPECT_FALSE(matrix({0, 64, 32, 32, 4, 2}).ok());
}

TEST(Matmul, ARefusedKernelIsPassedOver) {
  PlanOptions options;
  options.refusals = {{"lane_decode", "was wrong"}, {"lane", "was wrong"}};
  const auto others = must(detail::select_matmul_kernel(product_of(8, 8, 8).resolved(), cpu(), options));
  EXPECT_EQ(others.config.name, "tile");
  EXPECT_EQ(others.considered.front().reason, "was wrong");
  options.kernel = "lane";
  EXPECT_TRUE(has(refusal_of(product_of(8, 8, 8), cpu(), options), "was wrong"));
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

TEST(Matmul, CopiesThatAreRefused) {
  const MatmulCopies both{true, true}, a{true, false};
  const Capabilities narrow = changed(cpu(), [](auto& c) { c.shader_int64 = false; });
  EXPECT_TRUE(
      has(refusal_of(product_of(4, 4, 4), narrow, {.kernel = "lane", .copies = both}), "asks for copies"));
  EXPECT_TRUE(
      has(refusal_of(MatmulDesc::sum_columns(4, 4), cpu(), {.kernel = "lane", .copies = a}), "all ones"));
}

TEST(Matmul, OneMatrixOfAWholeBatchIsCopied) {
  MatmulDesc sums = MatmulDesc::sum_columns(4096, 4098, DataType::kFloat16);
  sums.batch = 300;
  sums.b.strides = MatrixStrides{0, 4098, 1};
  const auto selection = must(detail::select_matmul_kernel(sums.resolved(), cpu(), {.kernel = "lane"}));
  const detail::MatmulOperand& b =
      selection.config.view.a.tensor == 1 ? selection.config.view.a : selection.config.view.b;
  EXPECT_TRUE(b.is_copied);
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
  EXPECT_EQ(split(product_of(4, 4, 200), 3).parts, 2);  // whole steps of 64
  EXPECT_EQ(split(product_of(4, 4, 200), 3).inner, 128);
  EXPECT_EQ(split(product_of(4, 4, 0), 3).parts, 1);
  EXPECT_EQ(split(product_of(4, 4, 8192), 64).parts, 64);
  const auto selection = detail::select_matmul_kernel(product_of(4, 4, 8192).resolved(), cpu(), {});
  EXPECT_EQ(detail::choose_inner_split(selection.value().config, cpu(), 65).error().message,
            "inner_splits is 65 but inner is cut into at most 64 parts");
}

/// A device with the form of lane_decode by vectors.
Capabilities cpu_with_addresses() {
  return changed(with_lanes(cpu(), 8), [](Capabilities& c) {
    c.subgroup_shuffle = c.shader_float16 = c.buffer_addresses = true;
    c.max_push_constants_bytes = 256;
  });
}

/// A row times weights in lines of inner.
MatmulDesc row_times_lines(std::int64_t rows, std::int64_t inner, DataType weights = DataType::kFloat16) {
  MatmulDesc desc = product_of(rows, 16, inner);
  desc.b.type = weights;
  desc.b.strides = MatrixStrides{0, 1, inner};
  return desc;
}

TEST(Matmul, PartsOfRowsOneByOneHaveWholeSteps) {
  const Capabilities device = cpu_with_addresses();
  struct Case {
    std::int64_t rows, inner;
    std::uint32_t step, wanted;
    std::int64_t parts, part;
  };
  for (const Case& each : {Case{1, 512, 64, 2, 1, 512}, Case{1, 1152, 72, 2, 2, 576},
                           Case{1, 2048, 64, 3, 2, 1024}, Case{2, 1152, 48, 3, 3, 384}}) {
    const MatmulDesc desc = row_times_lines(each.rows, each.inner).resolved();
    const auto chosen = must(detail::select_matmul_kernel(desc, device, {.kernel = "lane_decode"}));
    EXPECT_TRUE(has(chosen.config.summary, "one by one")) << chosen.config.summary;
    EXPECT_EQ(chosen.config.tile.inner, each.step) << each.inner;
    const auto split = must(detail::choose_inner_split(chosen.config, device, each.wanted));
    EXPECT_EQ(split.parts, each.parts) << each.inner;
    EXPECT_EQ(split.inner, each.part) << each.inner;
  }
}

TEST(Matmul, RowsThatAreNotReadOneByOne) {
  const Capabilities device = cpu_with_addresses();
  const auto reason = [&](const MatmulDesc& desc) {
    return refusal_of(desc, device, {.kernel = "lane_decode", .matmul_tile = MatmulTile{0, 1, 4, 96}});
  };
  EXPECT_EQ(reason(row_times_lines(1, 2048)), "");
  EXPECT_TRUE(has(reason(row_times_lines(1, 4096)), "up to 2048 elements; inner is 4096"));
  EXPECT_TRUE(has(reason(row_times_lines(1, 520)),
                  "20 to 96 vectors of 8 in fours, none of which divides inner 520"));
  EXPECT_TRUE(has(reason(row_times_lines(2, 544)), "20 to 48 vectors"));
  EXPECT_TRUE(
      has(reason(row_times_lines(2, 576, DataType::kBfloat16)), "for 2 columns only if both operands"));
  EXPECT_EQ(reason(row_times_lines(1, 576, DataType::kBfloat16)), "");
  MatmulDesc blocks = product_of(1, 16, 576);
  blocks.b.type = DataType::kQ8_0;
  EXPECT_TRUE(has(reason(blocks), "not those of blocks"));
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

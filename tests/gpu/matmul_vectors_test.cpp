// Products of a few rows or columns by vectors at addresses, compared with the float64 reference.
#include <vkattn/matmul.hpp>

#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "gpu/matmul_checks.hpp"
#include "gpu/support.hpp"
#include "kernels/own_address.hpp"
#include "matmul/matmul_tensors.hpp"

namespace vkattn::tests {
namespace {

using harness::MatmulProblem;

class MatmulVectors : public GpuTest {
 protected:
  [[nodiscard]] std::string reason_to_skip() const override {
    const bool reads_vectors = capabilities().subgroup_size == detail::kVectorLanes &&
                               detail::reads_by_address(capabilities(), 2, sizeof(detail::MatmulParams));
    return reads_vectors ? "" : "the device reads no vectors by addresses";
  }

  /// The product with b in lines of the inner dimension.
  [[nodiscard]] static MatmulDesc in_lines(MatmulDesc desc) {
    if (!desc.b.strides) desc.b.strides = MatrixStrides{desc.columns * desc.inner, 1, desc.inner};
    return desc;
  }

  static MatmulPlan run(const MatmulProblem& problem, PlanOptions options = {}) {
    options.kernel = "lane_decode";
    MatmulPlan plan = must(MatmulPlan::create(runtime().device(), problem.desc, options));
    SCOPED_TRACE(plan.describe());
    expect_right_and_repeatable(runtime(), plan, problem);
    return plan;
  }
};

/// Whether the larger matrix is read by vectors.
void expect_vectors(const Device& device, const MatmulDesc& desc, bool expected) {
  const auto plan = must(MatmulPlan::create(device, desc, {.kernel = "lane_decode"}));
  EXPECT_EQ(has(plan.describe(), "vectors of inner a step, by addresses"), expected) << plan.describe();
}

/// Each pair of types; whole steps and what is left of them; lines that begin at any word; batches, parts,
/// bias and sums that are added to.
TEST_F(MatmulVectors, VectorsAtAddresses) {
  constexpr DataType kWeights[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16,
                                   DataType::kQ8_0, DataType::kQ4_0};
  constexpr std::int64_t kInner[] = {31, 32, 65, 128, 190, 9, 223, 320, 40, 64, 129};
  std::vector<MatmulProblem> all;
  for (const DataType weights : kWeights) {
    for (const DataType type : kStoredTypes) {
      for (const std::int64_t rows : {1, 2, 5, 8}) {
        const bool blocks = block_elements(weights) > 1;
        const std::int64_t listed = kInner[all.size() % std::size(kInner)];
        const std::int64_t inner = blocks ? (listed + 31) / 32 * 32 : listed;
        const std::int64_t line = inner + inner % 2 + 2;
        MatmulDesc desc = sizes(rows, 8 * rows + 11, inner, 1 + rows % 3);
        set_types(desc, type, weights, type);
        desc.a.strides = MatrixStrides{line * rows, line, 1};
        if (!blocks) desc.b.strides = MatrixStrides{line * desc.columns, 1, line};
        if (!blocks) desc.a.alignment_bytes = desc.b.alignment_bytes = desc.output.alignment_bytes = 4;
        desc.has_bias = rows > 1;
        desc.accumulates = rows == 5;
        all.push_back({desc, 22, blocks ? 0 : 2});
      }
    }
  }
  for (const MatmulProblem& problem : part_of(std::span<const MatmulProblem>(all))) {
    expect_vectors(runtime().device(), problem.desc, true);
    run(problem);
    if (problem.desc.inner > 128) run(problem, {.inner_splits = 2});
  }
}

/// Rows one by one: in both views, with 1 to 4 columns and 8, the last rows of a workgroup, one step and
/// several, longer lines, batches, parts of whole steps.
TEST_F(MatmulVectors, RowsOneByOne) {
  struct Case {
    std::int64_t columns, inner;
    std::uint32_t step;  // vectors, the most
    DataType larger, smaller;
    std::int64_t batch = 1, padding = 0;
    std::uint32_t parts = 1;
  };
  constexpr DataType kF32 = DataType::kFloat32, kF16 = DataType::kFloat16, kBf16 = DataType::kBfloat16;
  const std::vector<Case> all{
      {1, 576, 96, kF32, kF32},
      {1, 576, 96, kF16, kF16, 2, 6},
      {1, 576, 96, kF16, kF32},
      {1, 576, 72, kBf16, kF32, 1, 2},
      {1, 512, 96, kF32, kBf16},
      {1, 576, 96, kF16, kBf16},
      {1, 576, 96, kBf16, kBf16},
      {1, 1152, 96, kF16, kF32, 3, 4},
      {1, 1536, 96, kF16, kF16},
      {1, 1536, 96, kF32, kF32, 1, 0, 2},
      {1, 1152, 72, kBf16, kF32, 2, 2, 2},
      {1, 768, 24, kF16, kF32, 1, 0, 3},
      {2, 576, 12, kF32, kF32, 2},
      {2, 1536, 96, kF16, kF16, 2, 8, 2},
      {3, 576, 12, kF16, kF16, 1, 2},
      {3, 1152, 48, kF16, kF32, 2, 4, 3},
      {4, 576, 96, kF16, kF32},
      {4, 512, 96, kF32, kF16, 2, 2},
      {4, 1536, 96, kF16, kF16, 1, 0, 4},
      {8, 576, 12, kF16, kF32, 1, 2, 2},
  };
  for (const Case& each : part_of(std::span<const Case>(all))) {
    for (const bool exchanged : {true, false}) {
      const std::int64_t larger = 8 * each.columns + 3, line = each.inner + each.padding;
      MatmulDesc desc = exchanged ? sizes(each.columns, larger, each.inner, each.batch)
                                  : sizes(larger, each.columns, each.inner, each.batch);
      set_types(desc, exchanged ? each.smaller : each.larger, exchanged ? each.larger : each.smaller, kF32);
      desc.a.strides = MatrixStrides{line * desc.rows + each.padding, line, 1};
      desc.b.strides = MatrixStrides{line * desc.columns + each.padding, 1, line};
      desc.has_bias = each.columns % 2 == 0;
      desc.accumulates = each.columns == 3;
      PlanOptions options{.inner_splits = each.parts};
      options.matmul_tile = MatmulTile{0, 1, static_cast<std::uint32_t>(each.columns), each.step};
      const MatmulPlan plan = run({desc, 27}, options);
      EXPECT_TRUE(has(plan.describe(), "one by one")) << plan.describe();
      EXPECT_EQ(plan.pipelines().back().pass == "combine", each.parts > 1) << plan.describe();
    }
  }
}

/// Lines of 16-bit elements that begin inside a word, and elements apart, are read by the form without
/// addresses.
TEST_F(MatmulVectors, NoVectorsInsideWords) {
  for (const DataType type : kStoredTypes) {
    MatmulDesc desc = in_lines(sizes(3, 50, 75));
    set_types(desc, type, type, DataType::kFloat32);
    expect_vectors(runtime().device(), desc, type == DataType::kFloat32);
    run({desc, 23});
    desc.inner = 76;
    desc.b.strides.reset();
    desc = in_lines(desc);
    expect_vectors(runtime().device(), desc, true);
    desc.a.alignment_bytes = desc.b.alignment_bytes = desc.output.alignment_bytes = 0;
    expect_vectors(runtime().device(), desc, type == DataType::kFloat32);
    run({desc, 23, 1});
    desc.a.strides = MatrixStrides{0, 1, 3};
    expect_vectors(runtime().device(), desc, false);
    run({desc, 23, 1});
  }
}

}  // namespace
}  // namespace vkattn::tests

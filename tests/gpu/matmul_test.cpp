// Compares matrix multiplication with the float64 reference. Each kernel is forced.
#include <vkattn/matmul.hpp>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/matmul_checks.hpp"
#include "gpu/support.hpp"
#include "harness/matmul_run.hpp"
#include "kernels/own_address.hpp"
#include "matmul/matmul_tensors.hpp"

namespace vkattn::tests {
namespace {

using harness::MatmulProblem;
using harness::MatmulRun;

/// Options ask for the forms of a kernel that the tile table would not choose on a CPU. The parameter is a
/// kernel, the kernel matrix with two stages, or lane_decode where buffers have addresses; lane_decode itself
/// runs where they have none.
class MatmulTest : public GpuTest, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr std::string_view kTwoStages = "matrix_in_two_stages";
  static constexpr std::string_view kWithAddresses = "lane_decode_with_addresses";

  [[nodiscard]] static bool has_two_stages() { return GetParam() == kTwoStages; }
  [[nodiscard]] static bool has_addresses() { return GetParam() == kWithAddresses; }
  [[nodiscard]] static std::string kernel() {
    if (has_addresses()) return "lane_decode";
    return has_two_stages() ? "matrix" : GetParam();
  }
  [[nodiscard]] std::string reason_to_skip() const override {
    const bool reads_vectors = capabilities().subgroup_size == 8 &&
                               detail::reads_by_address(capabilities(), 2, sizeof(detail::MatmulParams));
    return has_addresses() && !reads_vectors ? "the device reads no vectors by addresses" : "";
  }
  [[nodiscard]] static Device device() {
    if (kernel() != "lane_decode" || has_addresses()) return runtime().device();
    return device_with([](Capabilities& c) { c.buffer_addresses = false; });
  }

  /// The type of a and b if a test does not set types.
  [[nodiscard]] static DataType operands() {
    return kernel() == "matrix" ? DataType::kFloat16 : DataType::kFloat32;
  }

  /// The product with few rows, and b in lines of the inner dimension, for the kernel that takes no other.
  [[nodiscard]] static MatmulDesc fitted(MatmulDesc desc) {
    if (kernel() != "lane_decode") return desc;
    desc.rows = desc.rows > 8 ? 1 + desc.rows % 8 : desc.rows;
    if (!desc.b.strides) desc.b.strides = MatrixStrides{desc.columns * desc.inner, 1, desc.inner};
    return desc;
  }

  [[nodiscard]] static MatmulDesc of_operands(DataType output, std::int64_t rows, std::int64_t columns,
                                              std::int64_t inner, std::int64_t batch = 1) {
    MatmulDesc desc = sizes(rows, columns, inner, batch);
    set_types(desc, operands(), operands(), output);
    return fitted(desc);
  }

  /// Why the kernel cannot run the problem. Empty if it can.
  [[nodiscard]] static std::string reason_against(const MatmulDesc& desc) {
    return tests::reason_against(capabilities(), kernel(), desc);
  }

  /// Skips the test if the kernel does not take the problem.
  static void run(const MatmulProblem& problem, PlanOptions options = {}, int runs = 2) {
    if (const std::string reason = reason_against(problem.desc); !reason.empty()) GTEST_SKIP() << reason;
    options.kernel = kernel();
    if (has_two_stages() && !options.matmul_tile) options.matmul_tile = MatmulTile{0, 16, 16, 8, 4, 2};
    const auto plan = must(MatmulPlan::create(device(), problem.desc, options));
    SCOPED_TRACE(plan.describe());
    EXPECT_EQ(plan.kernel_name(), kernel());
    expect_right_and_repeatable(runtime(), plan, problem, runs);
  }
};

TEST_P(MatmulTest, RaggedSizes) {
  struct Size {
    std::int64_t rows, columns, inner, batch = 1;
  };
  const std::vector<Size> all =
      part_of<Size>({{1, 1, 1},
                     {1, 70, 33},
                     {3, 31, 7},
                     {31, 33, 64},
                     {32, 32, 32},
                     {33, 65, 17},
                     {64, 64, 16},
                     {65, 4, 66},
                     {70, 129, 128},
                     {128, 96, 3},
                     {129, 1, 40},
                     {5, 257, 300},
                     // Vectors of which not each begins at a multiple of four elements.
                     {1, 70, 33, 3},
                     {70, 1, 33, 3}});
  for (const Size& size : all) {
    MatmulDesc desc = of_operands(DataType::kFloat32, size.rows, size.columns, size.inner, size.batch);
    run({desc});
  }
}

TEST_P(MatmulTest, EveryTypeOfEachTensor) {
  std::vector<MatmulDesc> all;
  for (const DataType a : kStoredTypes) {
    for (const DataType b : kStoredTypes) {
      for (const DataType output : kStoredTypes) {
        MatmulDesc desc = fitted(sizes(37, 43, 52));
        set_types(desc, a, b, output);
        desc.has_bias = output != DataType::kFloat32;
        desc.bias_type = a;
        if (reason_against(desc).empty()) all.push_back(desc);
      }
    }
  }
  for (const MatmulDesc& desc : part_of(std::span<const MatmulDesc>(all))) run({desc, 3});
}

/// Each of the matrices transposed, padded, shifted: every way of loading meets every other way.
TEST_P(MatmulTest, StridesAndTransposes) {
  struct Form {
    bool a_transposed, b_transposed, output_transposed;
    std::int64_t padding;  // of rows and of matrices
    std::int64_t shift;
    std::uint32_t alignment;
    DataType type;
  };
  std::vector<Form> all;
  for (unsigned bits = 0; bits < 8; ++bits) {
    for (const std::int64_t padding : {std::int64_t{0}, std::int64_t{4}, std::int64_t{3}}) {
      const bool aligned = padding != 3;
      const DataType type = bits % 3 == 0 || kernel() == "matrix" ? DataType::kFloat16 : DataType::kFloat32;
      all.push_back({(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0, padding, aligned ? 0 : 1,
                     aligned ? 16U : 0U, type});
    }
  }
  for (const Form& form : part_of(std::span<const Form>(all))) {
    MatmulDesc desc = sizes(36, 40, 44, 2);
    if (form.padding == 3) desc = sizes(35, 41, 47, 2);
    set_types(desc, form.type, form.type, form.type);
    const auto lay = [&](MatrixDesc& matrix, std::int64_t rows, std::int64_t columns, bool transposed) {
      const std::int64_t pitch = (transposed ? rows : columns) + form.padding;
      const std::int64_t count = transposed ? columns : rows;
      matrix.strides =
          MatrixStrides{pitch * count + 2 * form.padding, transposed ? 1 : pitch, transposed ? pitch : 1};
      matrix.alignment_bytes = form.alignment;
    };
    lay(desc.a, desc.rows, desc.inner, form.a_transposed);
    lay(desc.b, desc.inner, desc.columns, form.b_transposed);
    lay(desc.output, desc.rows, desc.columns, form.output_transposed);
    desc.has_bias = form.a_transposed;
    desc = fitted(desc);
    if (!reason_against(desc).empty()) continue;
    run({desc, 5, form.shift});
  }
}

/// Elements lie two apart in every matrix.
TEST_P(MatmulTest, ElementsApart) {
  MatmulDesc desc = of_operands(operands(), 19, 23, 29);
  desc.a.strides = MatrixStrides{0, 60, 2};
  desc.b.strides = MatrixStrides{0, 2, 60};
  desc.output.strides = MatrixStrides{0, 47, 2};
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16}) {
    desc.output.type = type;
    run({desc, 6});
  }
}

TEST_P(MatmulTest, BroadcastOverTheBatch) {
  MatmulDesc desc = of_operands(DataType::kFloat32, 20, 24, 36, 3);
  desc.has_bias = true;
  desc.b.strides = kernel() == "lane_decode" ? MatrixStrides{0, 1, 36} : MatrixStrides{0, 24, 1};
  run({desc, 7});
  desc.a.strides = MatrixStrides{0, 36, 1};
  run({desc, 8});
}

TEST_P(MatmulTest, AccumulatesWithBias) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    for (const std::uint32_t parts : {1U, 3U}) {
      MatmulDesc desc = of_operands(type, 34, 39, parts == 1 ? 50 : 200, 2);
      desc.accumulates = true;
      desc.has_bias = true;
      run({desc, 9}, {.inner_splits = parts});
    }
  }
}

TEST_P(MatmulTest, QuantisedWeights) {
  std::vector<MatmulDesc> all;
  for (const DataType type : {DataType::kQ8_0, DataType::kQ4_0}) {
    for (const DataType a : kStoredTypes) {
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{5}, std::int64_t{37}}) {
        MatmulDesc desc = sizes(rows, 45, 96, 2);
        set_types(desc, a, type, a);
        desc.has_bias = true;
        if (reason_against(desc).empty()) all.push_back(desc);
      }
    }
  }
  if (all.empty()) GTEST_SKIP() << "no quantised weights";
  for (const MatmulDesc& desc : part_of(std::span<const MatmulDesc>(all))) run({desc, 10});
}

TEST_P(MatmulTest, PartsOfTheInnerDimension) {
  for (const std::uint32_t parts : {2U, 5U}) {
    MatmulDesc desc = of_operands(DataType::kFloat16, 3, 70, 333, 2);
    desc.has_bias = true;
    run({desc, 11}, {.inner_splits = parts});
    std::swap(desc.rows, desc.columns);
    run({desc, 12}, {.inner_splits = parts});
  }
}

TEST_P(MatmulTest, TheSameBitsEachTime) {
  for (const std::uint32_t parts : {1U, 3U}) {
    MatmulDesc desc = of_operands(DataType::kFloat32, 37, 70, 333, 2);
    desc.has_bias = true;
    run({desc, 16}, {.inner_splits = parts}, kSameBitsRuns);
  }
}

/// Few rows times weights (inner, columns), or a transposed matrix times a few columns: the larger matrix
/// lies in lines of its outer dimension, which lanes share.
TEST_P(MatmulTest, TheLargerMatrixLiesAcross) {
  if (kernel() != "lane_decode") GTEST_SKIP() << "of lane_decode alone";
  std::vector<MatmulProblem> all;
  for (const DataType type : kStoredTypes) {
    for (const std::int64_t rows : {1, 2, 4, 5, 8}) {
      MatmulDesc desc =
          sizes(rows, 4 * (rows + 66), 45, 2);  // the last lanes and elements of inner are alone
      set_types(desc, DataType::kFloat32, type, rows == 2 ? DataType::kFloat16 : DataType::kFloat32);
      desc.has_bias = rows > 1;
      desc.accumulates = rows > 4;
      all.push_back({desc, 20});
    }
    MatmulDesc columns = sizes(132, 3, 70);
    set_types(columns, type, DataType::kBfloat16, type);
    columns.a.strides = MatrixStrides{0, 1, 136};
    all.push_back({columns, 21});
  }
  for (const MatmulProblem& problem : part_of(std::span<const MatmulProblem>(all))) {
    if (!reason_against(problem.desc).empty()) GTEST_SKIP() << reason_against(problem.desc);
    run(problem);
    run(problem, {.inner_splits = 2});
  }
  MatmulDesc odd = sizes(1, 71, 40);  // no lines of quads
  EXPECT_TRUE(has(reason_against(odd), "b's columns, but it lies in neither")) << reason_against(odd);
}

/// A product whose larger matrix is read ahead, cache line by cache line, of each type.
TEST_P(MatmulTest, CacheLinesAreReadAhead) {
  if (kernel() != "lane_decode") GTEST_SKIP() << "of lane_decode alone";
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kQ8_0, DataType::kQ4_0}) {
    MatmulDesc desc = fitted(sizes(3, 2111, 992));
    if (type == DataType::kQ8_0 || type == DataType::kQ4_0) desc.b.strides.reset();
    desc.b.type = type;
    if (!reason_against(desc).empty()) GTEST_SKIP() << reason_against(desc);
    const auto plan = must(MatmulPlan::create(device(), desc, {.kernel = kernel()}));
    // A driver that may end loops gets no further one.
    EXPECT_EQ(has(plan.describe(), "cache lines first"),
              capabilities().max_loop_iterations == 0 && !has_addresses())
        << plan.describe();
    run({desc, 18});
  }
}

/// Runs blocks that a CPU would not be given.
TEST_P(MatmulTest, BlocksOfOtherDevices) {
  struct Block {
    std::string_view kernel;
    MatmulTile tile;
  };
  for (const Block& block : {Block{"lane", {64, 1, 8, 4}}, Block{"tile", {256, 4, 4, 16}},
                             Block{"matrix", {0, 16, 32, 16, 4}}, Block{"matrix", {0, 16, 32, 16, 1}},
                             Block{"matrix", {0, 16, 16, 16, 4}}, Block{"matrix", {0, 16, 32, 32, 4, 2}},
                             Block{"lane_decode", {0, 1, 8, 32}}, Block{"lane_decode", {0, 4, 8, 16}}}) {
    if (block.kernel != kernel()) continue;
    MatmulDesc desc = of_operands(DataType::kFloat32, 70, 75, 52);
    run({desc, 15}, {.matmul_tile = block.tile});
  }
}

/// Blocks are numbered in groups of 16 rows of blocks. The last group is smaller, and its last block is cut.
TEST_P(MatmulTest, MoreRowsOfBlocksThanAGroupHas) {
  MatmulDesc desc = of_operands(DataType::kFloat32, 16 * 32 + 37, 70, 20, 2);
  run({desc, 18});
  run({desc, 18}, {.inner_splits = 2});
}

TEST_P(MatmulTest, SumsOfColumns) {
  for (const DataType type : kStoredTypes) {
    const MatmulDesc desc = MatmulDesc::sum_columns(301, 77, type);
    run({desc, 13});
    run({desc, 13}, {.inner_splits = 4});
  }
}

/// Dispatches are cut into several pieces, also those of sums in the workspace.
TEST_P(MatmulTest, LongWorkIsCut) {
  const MatmulDesc desc = of_operands(DataType::kFloat32, 150, 170, 200, 2);
  if (!reason_against(desc).empty()) GTEST_SKIP() << reason_against(desc);
  PlanOptions options;
  options.kernel = kernel();
  for (const std::uint32_t parts : {1U, 3U}) {
    options.inner_splits = parts;
    options.max_dispatch_ns = 0;
    const auto whole = must(MatmulPlan::create(device(), desc, options));
    const double limit_ns = whole.dispatches().front().estimated_ns / 5;
    options.max_dispatch_ns = static_cast<std::uint64_t>(limit_ns);
    const auto cut = must(MatmulPlan::create(device(), desc, options));
    EXPECT_GT(cut.dispatches().size(), whole.dispatches().size() + 3);
    for (const DispatchInfo& dispatch : cut.dispatches()) {
      EXPECT_TRUE(dispatch.estimated_ns <= limit_ns || dispatch.tile_count == 1) << dispatch.estimated_ns;
    }
    run({desc, 16}, options);
  }
}

TEST_P(MatmulTest, NothingToMultiply) {
  for (const MatmulDesc& desc : {sizes(0, 5, 6), sizes(5, 0, 6), sizes(5, 6, 7, 0)}) {
    const auto plan = must(MatmulPlan::create(runtime().device(), desc));
    EXPECT_TRUE(plan.dispatches().empty());
  }
  // Sums over an empty inner dimension are 0, and the bias is added to them.
  MatmulDesc desc = of_operands(DataType::kFloat32, 5, 6, 0);
  desc.has_bias = true;
  run({desc, 14});
  if (kernel() == "lane" && capabilities().is_cpu() && capabilities().shader_int64) {
    run({desc, 14}, {.copies = MatmulCopies{true, true}});
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, MatmulTest,
                         testing::Values("lane", "lane_decode", "lane_decode_with_addresses", "tile",
                                         "matrix", "matrix_in_two_stages"),
                         [](const auto& each) { return std::string(each.param); });

class MatmulPlans : public GpuTest {};

/// Copies operands in any memory layout, whole and in several dispatches, for all of the inner dimension and
/// for parts of it. In the last case the rule decides.
TEST_F(MatmulPlans, CopiesOfOperands) {
  if (!capabilities().is_cpu() || !capabilities().shader_int64 || !capabilities().storage_buffer_16bit) {
    GTEST_SKIP() << "no copies on this device";
  }
  struct Case {
    MatmulDesc desc;
    DataType a, b;
    std::optional<MatmulCopies> copies;
    std::uint32_t parts = 1;
    std::int64_t shift = 0;
    bool a_transposed = false, b_once = false;
  };
  constexpr MatmulCopies kA{true, false}, kB{false, true}, kBoth{true, true};
  const std::vector<Case> all{
      {sizes(57, 59, 37, 2), DataType::kFloat16, DataType::kBfloat16, kBoth, 1, 0, false, true},
      {sizes(7, 33, 131), DataType::kFloat32, DataType::kFloat16, kBoth, 2, 1},
      {sizes(20, 45, 96, 2), DataType::kFloat16, DataType::kQ8_0, kB},
      {sizes(34, 48, 128), DataType::kFloat32, DataType::kQ4_0, kBoth, 2},
      {sizes(68, 36, 61, 2), DataType::kFloat32, DataType::kFloat32, kA, 1, 0, true},
      {sizes(68, 36, 62), DataType::kFloat16, DataType::kFloat32, kB, 1, 0, true},
      {sizes(130, 180, 96), DataType::kFloat32, DataType::kQ8_0, std::nullopt}};
  for (const Case& each : part_of(std::span<const Case>(all))) {
    MatmulDesc desc = each.desc;
    set_types(desc, each.a, each.b, DataType::kFloat32);
    if (each.a_transposed) desc.a.strides = MatrixStrides{desc.rows * desc.inner, 1, desc.rows};
    if (each.b_once) desc.b.strides = MatrixStrides{0, desc.columns, 1};
    if (each.shift != 0) desc.a.alignment_bytes = desc.b.alignment_bytes = desc.output.alignment_bytes = 0;
    desc.has_bias = true;
    PlanOptions options{.kernel = "lane", .inner_splits = each.parts, .copies = each.copies};
    for (const bool in_pieces : {false, true}) {
      const auto plan = must(MatmulPlan::create(runtime().device(), desc, options));
      SCOPED_TRACE(plan.describe());
      EXPECT_EQ(plan.copies(), each.copies.value_or(kB));
      const auto dispatches = plan.dispatches();
      const auto of_copies = std::ranges::count_if(
          dispatches, [](const DispatchInfo& dispatch) { return dispatch.pass.starts_with("copy of "); });
      EXPECT_EQ(of_copies > int{plan.copies().a} + int{plan.copies().b}, in_pieces);
      auto run = must(MatmulRun::create(runtime(), {desc, 17, each.shift}));
      must(run.execute(plan));
      const auto check = must(run.check());
      EXPECT_TRUE(check.passed()) << check.to_string();
      options.max_dispatch_ns =
          static_cast<std::uint64_t>(std::max(1.0, dispatches.front().estimated_ns / 3));
    }
  }
}

TEST_F(MatmulPlans, MistakesAreRefused) {
  const auto refused = [](const MatmulDesc& desc, const PlanOptions& options = {}) {
    return message_of(MatmulPlan::create(runtime().device(), desc, options));
  };
  EXPECT_TRUE(has(refused(sizes(4, 4, 4), {.kernel = "fast"}), "'fast'"));
  EXPECT_TRUE(
      has(refused(sizes(4, 4, 4), {.kernel = "lane", .matmul_tile = MatmulTile{0, 3, 4, 4}}), "rows 3"));
  EXPECT_TRUE(has(refused(sizes(4, 4, 4), {.kernel = "lane", .matmul_tile = MatmulTile{0, 4, 4, 4, 0, 2}}),
                  "no block size stages (2 were given)"));
  EXPECT_TRUE(
      has(refused(sizes(4, 4, 4), {.kernel = "matrix", .matmul_tile = MatmulTile{0, 16, 16, 16, 4, 3}}),
          "but 3 were given"));
  EXPECT_TRUE(has(refused(sizes(1 << 20, 4, 1 << 11)), "maxStorageBufferRange"));
  EXPECT_TRUE(has(refused(sizes(4, 4, 4), {.kernel = "tile", .copies = MatmulCopies{true, false}}),
                  "asks for copies"));
}

}  // namespace
}  // namespace vkattn::tests

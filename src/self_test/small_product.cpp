// Self-tests of matrix multiplication.
#include <algorithm>

#include "common/integers.hpp"
#include "matmul/matmul_program.hpp"
#include "matmul/matmul_tensors.hpp"
#include "reference/matmul.hpp"
#include "self_test/small_numbers.hpp"
#include "self_test/small_problem.hpp"
#include "self_test/small_test.hpp"
#include "shared/matmul_constants.h"

namespace vkattn::detail {

namespace {

// The number of elements that kernels load at a time divides this, or sizes have the same remainder as in the
// plan.
constexpr std::int64_t kLoads = 8;

// The least distance between lines of so many elements that has the remainder.
std::int64_t line(std::int64_t elements, std::int64_t remainder) {
  return elements + ((remainder - elements) % kLoads + kLoads) % kLoads;
}

// Strides of an operand of other sizes that is loaded as the plan's. The plan's own would not do: those of
// extents of 1 and those between batches decide as well, and the small product has neither.
MatrixStrides small_strides(const MatmulDesc& desc, const MatmulOperand& operand, std::int64_t outer,
                            std::int64_t inner, bool outer_is_row) {
  const bool single = operand.loads == VKATTN_MATMUL_LOADS_SINGLE;
  const bool along_outer =
      single ? operand.outer_stride < operand.inner_stride : operand.loads == VKATTN_MATMUL_LOADS_OUTER;
  const bool apart = single && std::min(operand.outer_stride, operand.inner_stride) != 1;
  const std::int64_t given = along_outer ? operand.inner_stride : operand.outer_stride;
  const std::int64_t step = apart ? 2 : 1;
  const std::int64_t of_single = apart || given % 4 == 0 ? 1 : given % kLoads;
  const std::int64_t remainder = single ? of_single : has_loads8(operand, desc) ? 0 : 4;
  const std::int64_t distance = line((along_outer ? outer : inner) * step, remainder);
  return along_outer == outer_is_row ? MatrixStrides{0, step, distance} : MatrixStrides{0, distance, step};
}

MatrixDesc small_matrix(const MatrixDesc& desc, const MatrixStrides& strides) {
  MatrixDesc small = desc;
  small.alignment_bytes = std::min(desc.alignment_bytes, kSmallAlignment);
  small.strides.reset();
  if (block_elements(desc.type) == 1) small.strides = strides;
  return small;
}

// More than one block of a subgroup's, the last not full, with the remainder that decides what is loaded at a
// time. Fewer than the invocations of a workgroup stay as many: lane gives them the other matrix.
std::int64_t small_size(std::int64_t given, std::int64_t blocks, const MatmulTile& tile) {
  if (given != 0 && given < std::int64_t{tile.threads}) return given;
  const std::int64_t least = std::max<std::int64_t>(blocks, tile.threads);
  return round_up(least, kLoads) + kLoads + given % kLoads;
}

class MatmulTest final : public SmallTestOf<MatmulPlan> {
 public:
  using SmallTestOf::SmallTestOf;

  [[nodiscard]] TestBytes tensors() const override {
    const MatmulDesc& desc = plan().desc();
    TestBytes bytes;
    std::uint64_t seed = 1;
    for (const MatmulTensorRow& row : tensor_table<MatmulTensors>()) {
      const auto size = static_cast<std::int64_t>(row.bytes(desc));
      const DataType type = row.storage(desc).type;
      const std::int64_t elements = size / block_bytes(type) * block_elements(type);
      const bool is_input = !row.use.written || desc.accumulates;
      bytes.push_back(!is_input   ? unwritten(size)
                      : size == 0 ? std::vector<std::byte>()
                                  : random_rows(1, elements, type, seed));
      ++seed;
    }
    return bytes;
  }

  [[nodiscard]] Result<Bindings> make_bindings(std::span<const BufferRange> tensors,
                                               const BufferRange& workspace) const override {
    return plan().make_bindings(
        tensors_at<MatmulTensors>(tensors.first<TensorTable<MatmulTensors>::kCount>()), workspace);
  }

  [[nodiscard]] std::string first_difference(TestBytes& tensors) const override {
    const MatmulDesc& desc = plan().desc();
    const TestBytes before = this->tensors();
    reference::MatmulReference expected(
        desc, {HostInput(before[0]), HostInput(before[1]), HostInput(before[2]), HostInput(before[3])});
    const MatrixStrides& strides = *desc.output.strides;
    for (std::int64_t row = 0; row < desc.rows; ++row) {
      const reference::MatmulRow& right = expected.row(0, row);
      for (std::int64_t column = 0; column < desc.columns; ++column) {
        const auto place = static_cast<std::size_t>(row * strides.row + column * strides.column);
        std::string wrong = difference(static_cast<double>(element(tensors[3], place, desc.output.type)),
                                       right.output[static_cast<std::size_t>(column)],
                                       expected.tolerance(column), "row ", row, ", column ", column);
        if (!wrong.empty()) return wrong;
      }
    }
    return {};
  }
};

}  // namespace

MatmulDesc small_product(const MatmulDesc& desc, std::string_view kernel, const MatmulTile& tile) {
  MatmulDesc small = desc;
  small.batch = 1;
  small.rows = small_size(desc.rows, std::int64_t{tile.rows} * std::max(tile.subgroups, 1U), tile);
  small.columns = small_size(desc.columns, std::int64_t{tile.columns} * 2, tile);
  // lane_decode takes few rows or few columns, and its tile's rows are those of the larger matrix.
  if (kernel == "lane_decode") {
    const bool few_rows = desc.rows < desc.columns;
    (few_rows ? small.rows : small.columns) = std::min(desc.rows, desc.columns);
    std::int64_t& larger = few_rows ? small.columns : small.rows;
    larger = small_size(few_rows ? desc.columns : desc.rows, std::int64_t{tile.rows} * 2, tile);
  }
  // Several steps, and enough of them for two parts.
  const std::int64_t steps = std::max(std::int64_t{tile.inner} * 3, kPartUnit * 2);
  const std::int64_t block = block_elements(desc.b.type);
  // Where lane_decode reads vectors, `inner` counts them, long steps take problems of whole steps only, and
  // parts have whole steps: two steps, one for each of two parts. With rows 1 a step has up to 768 elements,
  // and two of them are within the 2048 that are read so.
  const std::int64_t vectors = std::int64_t{tile.inner} * 8;
  const bool whole = kernel == "lane_decode" && vectors != 0 && desc.inner % vectors == 0;
  small.inner = whole ? round_up(std::max(steps, vectors * 2), round_up(vectors, block))
                      : round_up(steps + kLoads + desc.inner % kLoads, block);
  const MatmulView view = view_of(desc);
  small.a = small_matrix(desc.a, small_strides(desc, view.a, small.rows, small.inner, true));
  small.b = small_matrix(desc.b, small_strides(desc, view.b, small.columns, small.inner, false));
  const MatrixStrides& output = *desc.output.strides;
  const bool by_column = output.row == 1 && output.column != 1;
  small.output =
      small_matrix(desc.output, by_column ? MatrixStrides{0, 1, line(small.rows, output.column % kLoads)}
                                          : MatrixStrides{0, line(small.columns, output.row % kLoads), 1});
  return small.resolved();
}

Result<MatmulPlan> small_plan(const Device& device, const MatmulPlan& plan, VkPipelineCache pipeline_cache) {
  PlanOptions options;
  options.kernel = plan.kernel_name();
  options.matmul_tile = plan.tile();
  options.copies = plan.copies();
  options.pipeline_cache = pipeline_cache;
  // A split one writes other results, to the workspace.
  const std::vector<PipelineInfo> passes = plan.pipelines();
  options.inner_splits = !passes.empty() && passes.back().pass == "combine" ? 2 : 1;
  return MatmulPlan::create(device, small_product(plan.desc(), plan.kernel_name(), plan.tile()), options);
}

std::unique_ptr<SmallTest> small_test(MatmulPlan plan) {
  return std::make_unique<MatmulTest>(std::move(plan));
}

}  // namespace vkattn::detail

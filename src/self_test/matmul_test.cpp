// Self-tests of matrix multiplication.
#include <algorithm>

#include "common/integers.hpp"
#include "matmul/matmul_tensors.hpp"
#include "reference/matmul.hpp"
#include "self_test/small_numbers.hpp"
#include "self_test/small_test.hpp"

namespace vkattn::detail {

namespace {

// What kernels load at a time divides this, or what they are given has the same remainder.
constexpr std::int64_t kLoads = 8;

// One matrix of the small sizes with neighbours as the other has them, and its distances' remainders.
MatrixDesc small_matrix(const MatrixDesc& desc, std::int64_t rows, std::int64_t columns) {
  MatrixDesc small = desc;
  small.strides.reset();
  if (block_elements(desc.type) > 1) return small;
  const MatrixStrides& given = *desc.strides;
  const auto line = [](std::int64_t compact, std::int64_t stride) {
    return compact + ((stride - compact) % kLoads + kLoads) % kLoads;
  };
  const bool by_column = given.row == 1 && given.column != 1;
  small.strides = by_column ? MatrixStrides{0, 1, line(rows, given.column)}
                            : MatrixStrides{0, line(columns, given.row), 1};
  return small;
}

class MatmulTest final : public SmallTestOf<MatmulPlan> {
 public:
  using SmallTestOf::SmallTestOf;

  [[nodiscard]] TestBytes tensors() const override {
    const MatmulDesc& desc = plan().desc();
    TestBytes bytes;
    std::uint64_t seed = 1;
    for (const MatmulTensor& tensor : matmul_tensors(desc)) {
      const auto size = static_cast<std::int64_t>(tensor_bytes(tensor));
      const std::int64_t elements = size / block_bytes(tensor.type) * block_elements(tensor.type);
      const bool is_input = !tensor.written || desc.accumulates;
      bytes.push_back(!is_input   ? unwritten(size)
                      : size == 0 ? std::vector<std::byte>()
                                  : random_rows(1, elements, tensor.type, seed));
      ++seed;
    }
    return bytes;
  }

  [[nodiscard]] Result<Bindings> make_bindings(std::span<const BufferRange> tensors,
                                               const BufferRange& workspace) const override {
    return plan().make_bindings({tensors[0], tensors[1], tensors[2], tensors[3]}, workspace);
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

MatmulDesc small_product(const MatmulDesc& desc, const MatmulTile& tile) {
  // Of each size more than one block, and the remainder that decides what is loaded at a time.
  const auto size = [](std::int64_t blocks, std::int64_t given) { return blocks + kLoads + given % kLoads; };
  MatmulDesc small = desc;
  small.batch = 1;
  small.rows = size(std::int64_t{tile.rows} * std::max(tile.subgroups, 1U), desc.rows);
  small.columns = size(std::int64_t{tile.columns} * 2, desc.columns);
  small.inner = size(std::int64_t{tile.inner} * 3, desc.inner);
  const std::int64_t block = block_elements(desc.b.type);
  small.inner = divide_up(small.inner, block) * block;
  small.a = small_matrix(desc.a, small.rows, small.inner);
  small.b = small_matrix(desc.b, small.inner, small.columns);
  small.output = small_matrix(desc.output, small.rows, small.columns);
  return small.resolved();
}

std::unique_ptr<SmallTest> small_test(MatmulPlan plan) {
  return std::make_unique<MatmulTest>(std::move(plan));
}

}  // namespace vkattn::detail

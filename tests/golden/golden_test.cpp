// Compares results that PyTorch computed in float64 (make_golden.py) with the reference and every kernel.
#include <cmath>
#include <limits>
#include <string>

#include "common/message.hpp"
#include "conformance/case_test.hpp"

namespace vkattn::tests {
namespace {

using detail::message;

const CaseFolder& folder() {
  static const CaseFolder folder(VKATTN_GOLDEN_DIR);
  return folder;
}

/// A result, the golden result, and how far apart they may be.
struct Compared {
  const CaseTensor* expected = nullptr;
  const CaseTensor* got = nullptr;

  [[nodiscard]] std::string compare(std::size_t element, double tolerance) const {
    const double right = expected->number(element);
    const double result = got->number(element);
    // Equal infinities are right. A NaN never is, because no golden result is one.
    if (result == right || (std::isfinite(right) && std::abs(result - right) <= tolerance)) return {};
    return message("element ", element, " of ", expected->role, " is ", result, " in place of ", right,
                   ", further off than ", tolerance);
  }
};

/// The largest difference that a number of a row may have: an element of the output, the lse, or the weight
/// of a key.
struct Tolerances {
  DataType probability_type = DataType::kFloat32;
  bool is_reference = false;

  [[nodiscard]] double output(const AttentionDesc& desc, const reference::Row& row, std::size_t dim) const {
    if (is_reference) return float64_tolerance(row) * row.value_magnitude[dim];
    return reference::output_tolerance(desc, row, static_cast<std::int64_t>(dim), probability_type);
  }
  [[nodiscard]] double lse(const AttentionDesc& desc, const reference::Row& row) const {
    return is_reference ? float64_tolerance(row) * (1 + std::abs(row.lse))
                        : reference::lse_tolerance(desc, row);
  }
  [[nodiscard]] double weight(const AttentionDesc& desc, const reference::Row& row, std::size_t key) const {
    if (is_reference) return float64_tolerance(row) * (1 + row.weight_magnitudes[key]);
    return reference::weight_tolerance(desc, row, static_cast<std::int64_t>(key));
  }

 private:
  /// Two implementations of the same arithmetic in float64, with room for some hundreds of roundings.
  static double float64_tolerance(const reference::Row& row) { return 0x1p-44 * (1 + row.score_magnitude); }
};

std::string compare_rows(const OperatorProblem& problem, const std::vector<reference::Row>& rows,
                         const OperatorResults& results, const Tolerances& tolerances) {
  const Case& test_case = CaseTest::GetParam();
  const AttentionDesc& desc = problem.desc;
  const Compared output{test_case.output("Y"), results.output("Y")};
  const Compared lse{test_case.output("lse"), results.output("lse")};
  const Compared weights{test_case.output("qk_matmul_output"), results.output("qk_matmul_output")};
  std::string wrong;
  for (std::size_t n = 0; n < rows.size() && wrong.empty(); ++n) {
    const reference::Row& row = rows[n];
    const OutputRow place = output_row(desc, n);
    for (std::size_t d = 0; d < row.output.size() && wrong.empty(); ++d) {
      wrong = output.compare(place.first + d * place.stride, tolerances.output(desc, row, d));
    }
    if (lse.expected != nullptr && wrong.empty()) wrong = lse.compare(n, tolerances.lse(desc, row));
    for (std::size_t j = 0; j < row.weights.size() && wrong.empty(); ++j) {
      wrong = weights.compare(n * row.weights.size() + j, tolerances.weight(desc, row, j));
    }
  }
  return wrong;
}

class Golden : public CaseTest {};

TEST_P(Golden, PyTorch) {
  run_everywhere(
      [](const OperatorProblem& problem, const std::vector<reference::Row>& rows,
         const OperatorResults& results) {
        return compare_rows(problem, rows, results, {DataType::kFloat32, true});
      },
      [](const OperatorProblem& problem, const std::vector<reference::Row>& rows,
         const OperatorResults& results) {
        return compare_rows(problem, rows, results, {results.probability_type, false});
      });
}

INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(part_of<Case>(folder().cases)), case_test_name);

TEST(GoldenFolder, HasCases) {
  EXPECT_EQ(folder().error, "");
}

}  // namespace
}  // namespace vkattn::tests

// Cases on kernels: see case_test.hpp.
#include "conformance/case_test.hpp"

#include <map>
#include <ostream>
#include <utility>

#include "common/message.hpp"
#include "support/main.hpp"

namespace vkattn::tests {
namespace {

/// What the program's last lines tell.
struct Tally {
  int cases = 0;
  int passed = 0;
  std::map<std::string, int> runs;  ///< cases that a kernel accepted
};

Tally& tally() {
  static Tally tally;
  return tally;
}

std::string closing_text() {
  std::string text = "cases run on";
  for (const auto& [kernel, runs] : tally().runs) text += detail::message(" ", kernel, ": ", runs);
  return text + detail::message("\n", tally().passed, " of ", tally().cases, " cases");
}

/// That the results are those of the case in number, and the past and what is new together bit by bit.
std::string compare_whole(const Case& test_case, const OperatorResults& results) {
  for (const CaseTensor& expected : test_case.outputs) {
    const CaseTensor* const got = results.output(expected.role);
    if (got == nullptr || got->elements() != expected.elements()) {
      return detail::message(expected.role, " has ", got != nullptr ? got->elements() : 0,
                             " elements in place of ", expected.elements());
    }
    if (expected.role.starts_with("present_") && got->bytes != expected.bytes) {
      return expected.role + " is not the past and what is new, bit by bit";
    }
  }
  return {};
}

std::string compare(const CaseTest::Compare& compare_numbers, const OperatorProblem& problem,
                    const std::vector<reference::Row>& rows, const OperatorResults& results) {
  const std::string wrong = compare_whole(CaseTest::GetParam(), results);
  return wrong.empty() ? compare_numbers(problem, rows, results) : wrong;
}

}  // namespace

CaseFolder::CaseFolder(const std::filesystem::path& folder) {
  Result<std::vector<Case>> read = read_cases(folder);
  if (read.ok()) {
    cases = std::move(read).value();
    if (cases.empty()) error = "the folder " + folder.string() + " has no cases";
  } else {
    error = read.error().message;
  }
}

void PrintTo(const Case& test_case, std::ostream* stream) {
  *stream << test_case.name;
}

std::string case_test_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

void CaseTest::run_everywhere(const Compare& check_reference, const Compare& check_kernel) {
  const Case& test_case = GetParam();
  const Result<OperatorProblem> problem = as_problem(test_case);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const Status valid = validate(problem->desc);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  const std::vector<reference::Row> rows = reference_rows(*problem);
  const OperatorResults reference = reference_results(*problem, rows);
  EXPECT_EQ(compare(check_reference, *problem, rows, reference), "") << "of the reference";
  std::string refusals;
  bool accepted = false;
  for (const KernelSupport& support : kernel_support(problem->desc, capabilities())) {
    if (!support.reason.empty()) {
      refusals += detail::message("\n", support.kernel, ": ", support.reason);
      continue;
    }
    accepted = true;
    const std::string kernel(support.kernel);
    ++tally().runs[kernel];
    const Result<OperatorResults> results = run_on_kernel(runtime(), *problem, kernel);
    ASSERT_TRUE(results.ok()) << "kernel " << kernel << ": " << results.error().message;
    EXPECT_EQ(compare(check_kernel, *problem, rows, *results), "") << "of the kernel " << kernel;
  }
  EXPECT_TRUE(accepted) << "no kernel accepts the case:" << refusals;
}

void CaseTest::TearDown() {
  GpuTest::TearDown();
  if (IsSkipped()) return;
  ++tally().cases;
  if (!HasFailure()) ++tally().passed;
  closing_line() = closing_text();
}

}  // namespace vkattn::tests

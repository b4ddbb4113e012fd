// Runs cases on kernels: see case_test.hpp.
#include "conformance/case_test.hpp"

#include <map>
#include <ostream>
#include <stdexcept>

#include "common/message.hpp"
#include "support/main.hpp"

namespace vkattn::tests {
namespace {

/// The counts in the program's last lines.
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

/// The fault of the results: their number, a cache that is not the past and the new rows bit by bit, or else
/// wrong numbers.
std::string compare(const CaseTest::Compare& compare_numbers, const OperatorProblem& problem,
                    const std::vector<reference::Row>& rows, const OperatorResults& results) {
  for (const CaseTensor& expected : CaseTest::GetParam().outputs) {
    const CaseTensor* const got = results.output(expected.role);
    if (got == nullptr || got->elements() != expected.elements()) {
      return detail::message(expected.role, " has ", got != nullptr ? got->elements() : 0,
                             " elements in place of ", expected.elements());
    }
    if (expected.role.starts_with("present_") && got->bytes != expected.bytes) {
      return expected.role + " is not the past and what is new, bit by bit";
    }
  }
  return compare_numbers(problem, rows, results);
}

}  // namespace

CaseFolder::CaseFolder(const std::filesystem::path& folder) {
  try {
    cases = read_cases(folder);
  } catch (const std::runtime_error& failure) {
    error = failure.what();
  }
}

void PrintTo(const Case& test_case, std::ostream* stream) {
  *stream << test_case.name;
}

std::string case_test_name(const testing::TestParamInfo<Case>& info) {
  return info.param.name;
}

void CaseTest::run_everywhere(const Compare& check_reference, const Compare& check_kernel) {
  const OperatorProblem problem = as_problem(GetParam());
  const Result<void> valid = validate(problem.desc);
  ASSERT_TRUE(valid.ok()) << valid.error().message;
  const std::vector<reference::Row> rows = reference_rows(problem);
  EXPECT_EQ(compare(check_reference, problem, rows, reference_results(problem, rows)), "")
      << "of the reference";
  std::string refusals;
  bool accepted = false;
  for (const KernelSupport& support : kernel_support(problem.desc, capabilities())) {
    if (!support.reason.empty()) {
      refusals += detail::message("\n", support.kernel, ": ", support.reason);
      continue;
    }
    accepted = true;
    const std::string kernel(support.kernel);
    ++tally().runs[kernel];
    SCOPED_TRACE("kernel " + kernel);
    EXPECT_EQ(compare(check_kernel, problem, rows, run_on_kernel(runtime(), problem, kernel)), "");
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

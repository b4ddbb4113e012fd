// What the tests of case folders share: each case on the reference and on every kernel that accepts it, and
// the line 'N of N cases'.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/attention_operator.hpp"
#include "conformance/case_file.hpp"
#include "gpu/support.hpp"

namespace vkattn::tests {

/// A folder's cases, or why it has none.
struct CaseFolder {
  std::vector<Case> cases;
  std::string error;

  explicit CaseFolder(const std::filesystem::path& folder);
};

/// GoogleTest prints a test's parameter by this.
void PrintTo(const Case& test_case, std::ostream* stream);
[[nodiscard]] std::string case_test_name(const testing::TestParamInfo<Case>& info);

/// A case passes where at least one kernel accepts it and all that do give the right results.
class CaseTest : public GpuTest, public testing::WithParamInterface<Case> {
 public:
  /// What is wrong with the numbers of a run, which are as many as the case has; empty where nothing is.
  using Compare = std::function<std::string(const OperatorProblem&, const std::vector<reference::Row>&,
                                            const OperatorResults&)>;

 protected:
  /// More may be asked of the reference's results than of a kernel's.
  void run_everywhere(const Compare& check_reference, const Compare& check_kernel);
  void TearDown() override;
};

}  // namespace vkattn::tests

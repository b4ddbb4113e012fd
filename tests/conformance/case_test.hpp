// Shared by the tests of case folders: each case runs on the reference and on every kernel that accepts it.
// The program prints 'N of N cases'.
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

/// GoogleTest prints a test's parameter with this.
void PrintTo(const Case& test_case, std::ostream* stream);
[[nodiscard]] std::string case_test_name(const testing::TestParamInfo<Case>& info);

/// A case passes if at least one kernel accepts it and all kernels that do give the right results.
class CaseTest : public GpuTest, public testing::WithParamInterface<Case> {
 public:
  /// The fault in the numbers of a run, which has as many as the case. Empty if there is none.
  using Compare = std::function<std::string(const OperatorProblem&, const std::vector<reference::Row>&,
                                            const OperatorResults&)>;

 protected:
  /// The reference's results may have to be more accurate than those of a kernel.
  void run_everywhere(const Compare& check_reference, const Compare& check_kernel);
  void TearDown() override;
};

}  // namespace vkattn::tests

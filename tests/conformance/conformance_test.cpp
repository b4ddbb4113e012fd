// The ONNX operator Attention by its own test cases, from a folder outside of this repository. The
// environment variable VKATTN_CONFORMANCE_DIR names it.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "common/message.hpp"
#include "conformance/case_test.hpp"

namespace vkattn::tests {
namespace {

using detail::message;

const char* folder_name() {
  const char* const name = std::getenv("VKATTN_CONFORMANCE_DIR");
  return name != nullptr && *name != '\0' ? name : nullptr;
}

std::vector<Case> cases() {
  return folder_name() != nullptr ? CaseFolder(folder_name()).cases : std::vector<Case>{};
}

/// The tolerance of the operator's own tests in float32. A float16 result may be off by one more unit in its
/// last place.
double tolerance(ElementType type, double expected) {
  const double relative = 1e-3 * std::abs(expected);
  if (type != ElementType::kFloat16) return relative + 1e-7;
  const int exponent = expected != 0 ? std::max(std::ilogb(expected), -14) : -14;
  return relative + std::ldexp(1.0, exponent - 10);
}

/// Equal infinities are right. A NaN never is, because no case expects one.
bool is_close(ElementType type, double expected, double got) {
  return got == expected ||
         (std::isfinite(expected) && std::abs(got - expected) <= tolerance(type, expected));
}

std::string compare(const CaseTensor& expected, const CaseTensor& got) {
  for (std::size_t n = 0; n < expected.elements(); ++n) {
    if (is_close(expected.type, expected.number(n), got.number(n))) continue;
    return message("element ", n, " of ", expected.role, " is ", got.number(n), " in place of ",
                   expected.number(n));
  }
  return {};
}

class Conformance : public CaseTest {};

TEST_P(Conformance, Onnx) {
  const CaseTest::Compare check = [](const OperatorProblem&, const std::vector<reference::Row>&,
                                     const OperatorResults& results) {
    std::string wrong;
    for (const CaseTensor& expected : GetParam().outputs) {
      if (wrong.empty()) wrong = compare(expected, *results.output(expected.role));
    }
    return wrong;
  };
  run_everywhere(check, check);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conformance);
INSTANTIATE_TEST_SUITE_P(Cases, Conformance, testing::ValuesIn(cases()), case_test_name);

TEST(ConformanceFolder, HasCases) {
  if (folder_name() == nullptr) {
    GTEST_SKIP() << "VKATTN_CONFORMANCE_DIR is not set, so the ONNX operator's cases were not run; it names "
                    "the folder of their cases.json";
  }
  EXPECT_EQ(CaseFolder(folder_name()).error, "");
}

}  // namespace
}  // namespace vkattn::tests

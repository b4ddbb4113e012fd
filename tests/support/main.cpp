// The main() of all test programs. It returns 77, which CTest shows as skipped, if every test was skipped.
#include "support/main.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace {
constexpr int kAllSkipped = 77;
}

std::string& vkattn::tests::closing_line() {
  static std::string line;
  return line;
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  std::printf("%d passed, %d failed, %d skipped\n", tests.successful_test_count(), tests.failed_test_count(),
              tests.skipped_test_count());
  const std::string& closing = vkattn::tests::closing_line();
  if (!closing.empty()) std::printf("%s\n", closing.c_str());
  const bool all_skipped = tests.skipped_test_count() > 0 && tests.successful_test_count() == 0;
  return result == 0 && all_skipped ? kAllSkipped : result;
}

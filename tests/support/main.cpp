// The main() of all test programs. Beside its report it leaves a marker while it runs, so that a crash is
// seen by whoever adds up the reports; and it returns 77, which CTest shows as skipped, where every case was
// skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace {

constexpr int kAllSkipped = 77;

/// The path of the report, from --gtest_output=xml:PATH; empty without.
std::filesystem::path report_path() {
  const std::string output = GTEST_FLAG_GET(output);
  constexpr std::string_view kPrefix = "xml:";
  if (output.rfind(kPrefix, 0) != 0) return {};
  return output.substr(kPrefix.size());
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const std::filesystem::path report = report_path();
  std::filesystem::path marker = report;
  marker += ".running";
  std::error_code ignored;
  if (!report.empty()) {
    std::filesystem::remove(report, ignored);
    std::ofstream(marker) << "running\n";
  }
  const int result = RUN_ALL_TESTS();
  if (!report.empty()) std::filesystem::remove(marker, ignored);
  const testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  std::printf("%d passed, %d failed, %d skipped\n", tests.successful_test_count(), tests.failed_test_count(),
              tests.skipped_test_count());
  const bool all_skipped = tests.skipped_test_count() > 0 && tests.successful_test_count() == 0;
  return result == 0 && all_skipped ? kAllSkipped : result;
}

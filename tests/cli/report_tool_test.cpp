// `vkattn report` as a user runs it.
#include <string>

#include "json.hpp"
#include "support/text.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

using ToolReport = ToolOnDevice;

TEST_F(ToolReport, WritesAPageAndItsNumbers) {
  const std::string out = printed("report --minutes 0.1 --output mine/new", kUnrolledLoops);
  EXPECT_TRUE(has(out, "0 went wrong"));
  EXPECT_TRUE(out.starts_with("Nothing was checked") ||
              out.starts_with("Everything that was checked is right"))
      << out;
  EXPECT_TRUE(has(out, "Steps without time: "));
  EXPECT_TRUE(has(out, " at the beginning and of "));
  const Json report = Json::parse(read_file(folder_ / "mine/new/report.json"));
  EXPECT_FALSE(report["device"]["name"].get<std::string>().empty());
  ASSERT_GT(report["steps"].size(), 20U);
  EXPECT_EQ(report["steps"][0]["status"], "done") << report["steps"][0];
  for (const Json& step : report["steps"]) {  // a few seconds suffice for the first steps at most
    EXPECT_TRUE(step["status"] == "done" || step["status"] == "refused" || step["status"] == "left out")
        << step;
  }
  const std::string page = read_file(folder_ / "mine/new/report.html");
  EXPECT_TRUE(has(page, report["device"]["name"].get<std::string>()));
  EXPECT_TRUE(has(page, "left out"));
}

using ToolReportRefusals = Tool;

TEST_F(ToolReportRefusals, AreSentences) {
  write_file(folder_ / "file", "");
  expect_refused("report ", {{"--minutes 0", "--minutes 0"},
                             {"--minutes nan", "--minutes"},
                             {"--minutes 2000", "at most 1440"},
                             {"--output file/folder", "file/folder"}});
  refuses("report --output here", "no device was found", 3, kNoDevice);
}

}  // namespace
}  // namespace vkattn::tests

// The line "repeat with" of a benchmark: as a command it measures the same again.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "npy.hpp"
#include "support/temp_folder.hpp"
#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
using nlohmann::json;

/// The name of a device that can be used.
std::string device_name() {
  const json list = json::parse(run_tool({"devices", "--json"}).out);
  for (const json& device : list["devices"]) {
    if (device["rejected"].get<std::string>().empty()) return device["name"].get<std::string>();
  }
  return {};
}

/// The command after "repeat with: vkattn".
std::string repeat_line(const std::string& report) {
  const std::string start = "  repeat with: vkattn ";
  const std::size_t at = report.find(start);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + start.size();
  return report.substr(begin, report.find('\n', begin) - begin);
}

/// A function that takes its bits from the last ones of the score is wrong anywhere: those are not the
/// reference's.
TEST_F(ToolRun, AWrongBenchmarkCanBeRepeated) {
  const std::string source = (folder_ / "my own.glsl").string();
  write_file(source, "float score(float s, Position p) { return fract(s * 1.0e9) * 50.0 * factor(0u); }\n");
  write_npy(file("it's"), npy::ElementType::kFloat32, {1}, std::vector<float>{1});
  const std::string table = "factor=" + file("it's").string();
  const ToolResult result =
      run_tool({"bench", "8x200 d8", "--kernel", "lane", "--score", source, "--score-buffer", table,
                "--device", device_name(), "--max-seconds", "7", "--repeat", "3"});
  ASSERT_EQ(result.exit_code, 1) << result.out << result.err;
  const std::string line = repeat_line(result.out);
  for (const std::string part : {"bench \"8x200 d8\" --kernel lane --score '", "--score-buffer '",
                                 "--device ", "--max-seconds 7", "--repeat 3"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in " << line;
  }
  const std::string command = std::string(VKATTN_TOOL) + " " + line + " > '" + (folder_ / "out").string() +
                              "' 2> '" + (folder_ / "err").string() + "'";
  static_cast<void>(std::system(command.c_str()));  // NOLINT: a test, with its own words
  EXPECT_EQ(repeat_line(read_file(folder_ / "out")), line) << read_file(folder_ / "err");
}
#endif

}  // namespace
}  // namespace vkattn::tests

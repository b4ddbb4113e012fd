// Starts the tool through the shell.
#include "tool.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "support/text.hpp"

namespace vkattn::tests {

ToolResult run_tool(const std::string& command, const Shell& shell) {
  const TempFolder results;
  const auto file = [&](const char* name) { return "'" + (results / name).string() + "'"; };
  std::string line = shell.folder.empty() ? "" : "cd '" + shell.folder.string() + "' && ";
  // A pipe would hide the exit code. A code of 128 or more tells of a signal.
  line += "{ " + shell.before + " '" + VKATTN_TOOL + "' " + command + " 2> " + file("err") + "; echo $? > " +
          file("code") + "; } " + (shell.output.empty() ? "> " + file("out") : shell.output);
  const int status = std::system(line.c_str());  // NOLINT: a test, with its own words
  const std::string code = status != -1 ? read_file(results / "code") : "";
  ToolResult result;
  result.exit_code = code.empty() || std::stoi(code) >= 128 ? -1 : std::stoi(code);
  result.out = read_file(results / "out");
  result.err = read_file(results / "err");
  return result;
}

bool has_device() {
  static const bool found = run_tool("devices").exit_code == 0;
  return found;
}

std::string Tool::printed(const std::string& command, const std::string& before) const {
  const ToolResult result = run(command, before);
  EXPECT_EQ(result.exit_code, 0) << before << " vkattn " << command << "\n" << result.out << result.err;
  return result.out;
}

void Tool::refuses(const std::string& command, const std::string& part, int exit_code,
                   const std::string& before) const {
  SCOPED_TRACE(before + " vkattn " + command);
  const ToolResult result = run(command, before);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_TRUE(result.err.starts_with("vkattn: ")) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(has(result.err, part));
}

void Tool::expect_refused(const std::string& command, const std::vector<Refusal>& refusals,
                          const std::string& before) const {
  for (const auto& [options, words, code] : refusals) refuses(command + options, words, code, before);
}

}  // namespace vkattn::tests

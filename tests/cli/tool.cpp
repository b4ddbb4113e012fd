// Starting the tool through the shell.
#include "tool.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "support/temp_folder.hpp"

namespace vkattn::tests {
namespace {

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string command_text(const std::vector<std::string>& words) {
  std::string text = "vkattn";
  for (const std::string& word : words) text += " " + quoted(word);
  return text;
}

ToolResult run_tool(const std::vector<std::string>& words, const std::string& environment) {
  const TempFolder folder;
  std::string command = environment + " " + quoted(VKATTN_TOOL);
  for (const std::string& word : words) command += " " + quoted(word);
  command += " > " + quoted((folder / "out").string()) + " 2> " + quoted((folder / "err").string());
  const int status = std::system(command.c_str());  // NOLINT: a test, with its own words
  ToolResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = read_file(folder / "out");
  result.err = read_file(folder / "err");
  return result;
}

void expect_refusal(const std::vector<std::string>& words, int exit_code, const std::string& part,
                    const std::string& environment) {
  const ToolResult result = run_tool(words, environment);
  const std::string context = command_text(words) + " printed: " + result.err;
  EXPECT_EQ(result.exit_code, exit_code) << context;
  EXPECT_EQ(result.err.rfind("vkattn: ", 0), 0U) << context;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << context;
  EXPECT_NE(result.err.find(part), std::string::npos) << context << "where this was expected: " << part;
}

bool has_device() {
  static const bool found = run_tool({"devices"}).exit_code == 0;
  return found;
}

}  // namespace vkattn::tests

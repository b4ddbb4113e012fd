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

ToolResult run_tool(const std::vector<std::string>& words, const std::string& environment,
                    const std::string& output) {
  const TempFolder folder;
  const auto file = [&](const char* name) { return quoted((folder / name).string()); };
  std::string command = "{ " + environment + " " + quoted(VKATTN_TOOL);
  for (const std::string& word : words) command += " " + quoted(word);
  // A pipe would hide the code, of which 128 and more tell of a signal.
  command += " 2> " + file("err") + "; echo $? > " + file("code") + "; } ";
  command += output.empty() ? "> " + file("out") : output;
  const int status = std::system(command.c_str());  // NOLINT: a test, with its own words
  const std::string code = status != -1 ? read_file(folder / "code") : "";
  ToolResult result;
  result.exit_code = code.empty() || std::stoi(code) >= 128 ? -1 : std::stoi(code);
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

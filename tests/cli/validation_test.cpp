// Every command that uses a device, under the validation layer as a user would load it.
#include <vkattn/runtime.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

bool has_validation_layer() {
  RuntimeOptions options;
  options.validation = true;
  options.pipeline_cache = false;
  return Runtime::create(options).ok();
}

class ToolValidation : public ToolRun {};

TEST_F(ToolValidation, NoCommandHasAMessage) {
  if (!has_validation_layer()) GTEST_SKIP() << "no device, or no validation layer";
  const std::vector<std::vector<std::string>> commands = {
      {"devices"},
      {"kernels", "h2 9x20 d16 f16"},
      words({"--check", "--softcap", "30"}),
      {"bench", "h2 33x64 d32 f16", "--kernel", "lane,unfused", "--repeat",
       "3"},  // with the peaks of the device
      {"tune", "h2 33x64 d32", "--max-seconds", "1", "--output", (folder_ / "tuning.json").string()}};
  for (const std::vector<std::string>& command : commands) {
    const ToolResult result = run_tool(command, "VK_INSTANCE_LAYERS=VK_LAYER_KHRONOS_validation");
    EXPECT_EQ(result.exit_code, 0) << command_text(command) << ": " << result.err;
    for (const std::string* text : {&result.out, &result.err}) {
      const std::size_t at = text->find("Validation ");
      EXPECT_EQ(at, std::string::npos) << command_text(command) << ": " << text->substr(at, 400);
    }
  }
}

}  // namespace
}  // namespace vkattn::tests

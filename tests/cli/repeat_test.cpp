// The line "repeat with" of a benchmark is a command that measures the same again.
#include <nlohmann/json.hpp>
#include <string>

#include "arrays.hpp"
#include "support/text.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
using nlohmann::json;

/// The name of a usable device.
std::string device_name() {
  const json list = json::parse(run_tool("devices --json").out);
  for (const json& device : list["devices"]) {
    if (device["rejected"].get<std::string>().empty()) return device["name"].get<std::string>();
  }
  return {};
}

/// The command after "repeat with: vkattn".
std::string repeat_line(const std::string& report) {
  const std::string start = "  repeat with: vkattn ";
  for (const std::string& line : lines_of(report)) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return {};
}

/// The function takes its result from the last bits of the score. These differ from the reference's bits, so
/// the result is wrong on every device.
TEST_F(ToolOnDevice, AWrongBenchmarkCanBeRepeated) {
  write_file(folder_ / "my own.glsl",
             "float score(float s, Position p) { return fract(s * 1.0e9) * 50.0 * factor(0u); }\n");
  write_npy<float>(folder_ / "it's.npy", {1}, {1});
  const std::string score = " --score 'my own.glsl' --score-buffer \"factor=it's.npy\"";
  for (const char* const choice : {"\"8x200 d8\" --kernel lane", "\"8x200 d8 f16\" --kernel tile"}) {
    const std::string arithmetic = has(choice, "f16") ? " --arithmetic f16" : "";
    const ToolResult result = run("bench " + (choice + arithmetic) + score + " --device '" + device_name() +
                                  "' --max-seconds 7 --repeat 3 --no-peaks");
    if (has(result.out, "needs shaderFloat16")) continue;
    ASSERT_EQ(result.exit_code, 1) << result.out << result.err;
    const std::string line = repeat_line(result.out);
    EXPECT_TRUE(has(line, "bench " + std::string(choice) + " --score '"));
    for (const char* const part :
         {"--score-buffer '", "--device ", "--max-seconds 7", "--repeat 3", "--no-peaks"}) {
      EXPECT_TRUE(has(line, part));
    }
    EXPECT_TRUE(has(line, arithmetic));
    const ToolResult again = run(line);
    EXPECT_EQ(repeat_line(again.out), line) << again.err;
  }
}
#endif

}  // namespace
}  // namespace vkattn::tests

// `vkattn kernels`, as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "console.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;

class ToolKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  }
};

std::string printed(const std::vector<std::string>& words) {
  const ToolResult result = run_tool(words);
  EXPECT_EQ(result.exit_code, 0) << command_text(words) << "\n" << result.err;
  return result.out;
}

/// The words of a line.
std::vector<std::string> split(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// The lines from the table's titles on.
std::vector<std::string> table(const std::string& text) {
  std::istringstream lines(text);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = split(line);
    if (!rows.empty() || (words.size() > 1 && words[0] == "pipeline" && words[1] == "shader"))
      rows.push_back(line);
  }
  return rows;
}

/// Expects these passes in text and JSON, each with its shader and workgroup size.
void expect_pipelines(const std::string& problem, const std::string& kernel,
                      const std::vector<std::string>& passes) {
  SCOPED_TRACE(problem + ", " + kernel);
  const json report = json::parse(printed({"kernels", problem, "--kernel", kernel, "--json"}));
  EXPECT_EQ(report["kernel"], kernel);
  const json& pipelines = report["pipelines"];
  ASSERT_EQ(pipelines.size(), passes.size()) << pipelines;
  const std::string text = printed({"kernels", problem, "--kernel", kernel});
  const std::vector<std::string> rows = table(text);
  ASSERT_EQ(rows.size(), passes.size() + 1) << text;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    EXPECT_EQ(pipelines[i]["pipeline"], passes[i]);
    const std::string shader = pipelines[i]["shader"].get<std::string>();
    EXPECT_EQ(shader.rfind("attention_", 0), 0U) << shader;
    const int size = pipelines[i]["workgroup_size"].get<int>();
    EXPECT_GT(size, 0);
    EXPECT_FALSE(pipelines[i].contains("statistics"));
    const std::vector<std::string> row = {passes[i], shader, std::to_string(size)};
    EXPECT_EQ(split(rows[i + 1]), row) << text;
    EXPECT_EQ(rows[i + 1].find(shader), rows[0].find("shader")) << text;
    EXPECT_EQ(console::display_width(rows[i + 1]), console::display_width(rows[0])) << text;
  }
}

TEST_F(ToolKernels, ListsThePipelinesOfAPlan) {
  expect_pipelines("h2 50x70 d16", "lane", {"lane"});
  expect_pipelines("h2 50x70 d16", "unfused", {"unfused", "softmax", "weighted_sum"});
  expect_pipelines("h2 50x70 d16 mask=bytes", "tile", {"block_mask", "tile"});
  expect_pipelines("h2 50x70 d16 mask=bytes weights=probabilities", "tile", {"tile", "weights"});
}

/// The entry of that name, or null.
json named(const json& list, const json& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const json& one) { return one["name"] == name; });
  return found == list.end() ? json() : *found;
}

TEST_F(ToolKernels, DevicesTellTheTypesThatKernelsTake) {
  const json devices = json::parse(printed({"devices", "--json"}))["devices"];
  const json device = *std::find_if(devices.begin(), devices.end(), [](const json& one) {
    return one["rejected"].get<std::string>().empty();
  });
  for (const char* const type : {"f32", "f16", "bf16"}) {
    const std::string problem = std::string("16x512 d64 ") + type;
    const json report =
        json::parse(printed({"kernels", problem, "--device", device["index"].dump(), "--json"}));
    ASSERT_FALSE(report["kernels"].empty());
    for (const json& kernel : report["kernels"]) {
      const json listed = named(device["kernels"], kernel["name"]);
      ASSERT_TRUE(listed.contains("types")) << listed;
      const json& types = listed["types"];
      EXPECT_EQ(std::count(types.begin(), types.end(), type) == 1, kernel["available"].get<bool>()) << kernel;
      EXPECT_EQ(listed["available"].get<bool>(), !types.empty());
      EXPECT_EQ(listed["reason"].get<std::string>().empty(), !types.empty()) << listed;
    }
  }
  // What a kernel says against a device is not said of types that nobody asked for.
  EXPECT_EQ(printed({"devices"}).find("here they are"), std::string::npos);
}

TEST_F(ToolKernels, LinesFitATerminal) {
  std::istringstream lines(printed({"kernels", "h3 40x600 d64 mask=f16 sinks weights=scores"}));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(console::display_width(line), 100U) << line;
}

TEST_F(ToolKernels, NothingToComputeHasNone) {
  EXPECT_NE(printed({"kernels", "b0 8x8 d8"}).find("pipelines: none"), std::string::npos);
  EXPECT_TRUE(json::parse(printed({"kernels", "b0 8x8 d8", "--json"}))["pipelines"].empty());
}

TEST_F(ToolKernels, StatisticsAreTheDriversOrRefused) {
  const std::vector<std::string> words = {"kernels", "h2 50x70 d16", "--kernel",
                                          "unfused", "--stats",      "--json"};
  const ToolResult result = run_tool(words);
  if (result.exit_code != 0) {
    expect_refusal(words, 3, "VK_KHR_pipeline_executable_properties");
    return;
  }
  const json report = json::parse(result.out);
  ASSERT_GE(report["pipelines"].size(), 3U);
  for (const json& pipeline : report["pipelines"]) {
    EXPECT_GT(pipeline["workgroup_size"].get<int>(), 0);
    EXPECT_TRUE(pipeline["statistics"].is_object()) << pipeline;
  }
}

}  // namespace
}  // namespace vkattn::tests

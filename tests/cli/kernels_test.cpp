// `vkattn kernels` as a user runs it.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "console.hpp"
#include "support/text.hpp"
#include "tool.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;

class ToolKernels : public ToolOnDevice {
 protected:
  /// Expects these passes in text and JSON, each with its shader and workgroup size.
  void expect_pipelines(const std::string& problem, const std::string& kernel,
                        const std::vector<std::string>& passes) const {
    const std::string command = "kernels '" + problem + "' --kernel " + kernel;
    SCOPED_TRACE(command);
    const json report = json::parse(printed(command + " --json"));
    EXPECT_EQ(report["kernel"], kernel);
    const json& pipelines = report["pipelines"];
    ASSERT_EQ(pipelines.size(), passes.size()) << pipelines;
    const std::string text = printed(command);
    std::vector<std::string> rows = lines_of(text);
    const auto titles = [](const std::string& line) { return line.find("pipeline  ") != std::string::npos; };
    rows.erase(rows.begin(), std::find_if(rows.begin(), rows.end(), titles));
    ASSERT_EQ(rows.size(), passes.size() + 1) << text;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      EXPECT_EQ(pipelines[i]["pipeline"], passes[i]);
      const std::string shader = pipelines[i]["shader"].get<std::string>();
      const std::string own = has(problem, "backward") ? "backward_"
                              : has(problem, "matmul") ? "matmul_"
                                                       : "attention_";
      EXPECT_TRUE(shader.starts_with(own)) << shader;
      const int size = pipelines[i]["workgroup_size"].get<int>();
      EXPECT_GT(size, 0);
      EXPECT_FALSE(pipelines[i].contains("statistics"));
      EXPECT_EQ(words_of(rows[i + 1]), words_of(passes[i] + " " + shader + " " + std::to_string(size)))
          << text;
      EXPECT_EQ(rows[i + 1].find(shader), rows[0].find("shader")) << text;
      EXPECT_EQ(console::display_width(rows[i + 1]), console::display_width(rows[0])) << text;
    }
  }
};

/// The entry of that name, or null.
json named(const json& list, const json& name) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const json& one) { return one["name"] == name; });
  return found == list.end() ? json() : *found;
}

TEST_F(ToolKernels, ListsThePipelinesOfAPlan) {
  expect_pipelines("h2 50x70 d16", "lane", {"lane"});
  expect_pipelines("h2 50x70 d16 mask=bytes", "tile", {"block_mask", "tile"});
  expect_pipelines("h2 50x70 d16 mask=bytes weights=probabilities", "tile", {"tile", "weights"});
}

/// Programs read it. It differs from a lost device.
TEST_F(ToolKernels, ARefusalIsJsonToo) {
  const std::string command = "kernels 'h2 50x70 d16' --kernel decode";
  refuses(command, "holds 16 query rows", 3);
  EXPECT_EQ(run(command).out, "");
  const ToolResult result = run(command + " --json");
  EXPECT_EQ(result.exit_code, 3);
  const json report = json::parse(result.out);
  EXPECT_EQ(report["kernel"], "decode");
  EXPECT_TRUE(has(report["refused"].get<std::string>(), "holds 16 query rows")) << report;
  EXPECT_TRUE(has(named(report["kernels"], "decode")["reason"].get<std::string>(), "holds 16")) << report;
  EXPECT_FALSE(report.contains("pipelines"));
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
/// The score function's table would have 2^30 numbers. A problem that is only planned gets no table.
TEST_F(ToolKernels, ALongProblemWithAScoreFunctionIsRefusedAtOnce) {
  refuses("kernels 'b3 h1 q1 kv1073741824 d1 score=documents' --kernel matrix", "takes float16 Q", 3,
          "ulimit -t 10;");
}
#endif

TEST_F(ToolKernels, ListsThePipelinesOfABackwardPass) {
  const std::string problem = "h2 50x300 d16 backward";
  expect_pipelines(problem, "lane", {"rows", "keys"});
  expect_pipelines("h2 50x70 d16 mask=f32 sinks backward", "tile",
                   {"rows", "keys", "mask sums", "head sums"});
  const std::string text = printed("kernels '" + problem + "'");
  for (const char* const part : {"gradients: grad_query f32, grad_key f32, grad_value f32", "dispatches: "}) {
    EXPECT_TRUE(has(text, part)) << text;
  }
  const json kernels = json::parse(printed("kernels '" + problem + "' --json"))["kernels"];
  ASSERT_EQ(kernels.size(), 4U);
  for (const json& kernel : kernels) {
    const bool on_matrices = kernel["name"].get<std::string>().starts_with("matrix");
    EXPECT_EQ(kernel["available"].get<bool>(), !on_matrices) << kernel;
  }
  expect_refused("kernels '" + problem + "' ",
                 {{"--kernel decode", "there is no kernel 'decode' for these gradients"},
                  {"--kernel tile --tile threads=64", "block sizes of its own for each device"},
                  {"--kv-splits 2", "--kv-splits is set, but is not used by gradients"},
                  {"--arithmetic f16", "--arithmetic is set, but is not used by gradients"}});
  refuses("kernels '8x32 d32 cache=q8_0 backward'", "q8_0, which has no gradients", 3);
}

TEST_F(ToolKernels, ListsThePipelinesOfAMatrixMultiplication) {
  const std::string problem = "matmul 60x50x64 f16 b=q8_0 bias";
  expect_pipelines(problem, "lane", {"lane"});
  expect_pipelines("matmul 60x50x64", "tile", {"tile"});
  const json kernels = json::parse(printed("kernels '" + problem + "' --json"))["kernels"];
  ASSERT_EQ(kernels.size(), 3U);
  EXPECT_TRUE(has(named(kernels, "matrix")["reason"].get<std::string>(), "b q8_0")) << kernels;
  EXPECT_TRUE(
      has(printed("kernels '" + problem + "'"), "rows 60, columns 50, inner 64, f16 x q8_0 to f16, bias"));
  const std::string pipelines = printed("kernels 'matmul 3x50x640' --kernel lane --kv-splits 3");
  EXPECT_TRUE(has(pipelines, "combine")) << pipelines;
  const std::string command = "kernels '" + problem + "' ", tile = "--kernel tile --tile ";
  EXPECT_TRUE(
      has(printed(command + tile + "threads=64,rows=2,columns=4,inner=16"), "16 rows x 32 columns a block"));
  const std::string no_subgroups = "has no block size subgroups (4 were given) but threads";
  expect_refused(command,
                 {{"--kernel decode", "there is no kernel 'decode' for this matrix multiplication"},
                  {"--arithmetic f16", "--arithmetic is set, but is not used by a matrix multiplication"},
                  {tile + "threads=64,keys=2", "there is no block size 'keys'"},
                  {tile + "threads=5,rows=2,columns=4,inner=16", "threads 5", 3},
                  {tile + "threads=64,subgroups=4,rows=2,columns=4,inner=16", no_subgroups, 3},
                  {"--kernel lane --tile threads=64,subgroups=4,rows=2,columns=4,inner=16", no_subgroups, 3},
                  {"--kernel matrix --tile threads=64,subgroups=4,rows=16,columns=16,inner=16",
                   "has no block size threads (64 were given) but subgroups", 3},
                  {"--kernel lane --kv-splits 65", "is cut into at most 64 parts", 3}});
}

TEST_F(ToolKernels, DevicesTellTheTypesThatKernelsTake) {
  const json devices = json::parse(printed("devices --json"))["devices"];
  const json device = *std::find_if(devices.begin(), devices.end(), [](const json& one) {
    return one["rejected"].get<std::string>().empty();
  });
  for (const char* const type : {"f32", "f16", "bf16"}) {
    const std::string problem = std::string("16x512 d64 ") + type;
    const json report =
        json::parse(printed("kernels '" + problem + "' --device " + device["index"].dump() + " --json"));
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
  // A kernel's reason against a device is not repeated for types that nobody asked for.
  EXPECT_FALSE(has(printed("devices"), "here they are"));
}

TEST_F(ToolKernels, LinesFitATerminal) {
  for (const std::string& line : lines_of(printed("kernels 'h3 40x600 d64 mask=f16 sinks weights=scores'"))) {
    EXPECT_LE(console::display_width(line), 80U) << line;
  }
}

TEST_F(ToolKernels, NothingToComputeHasNone) {
  EXPECT_TRUE(has(printed("kernels 'b0 8x8 d8'"), "pipelines: none"));
  EXPECT_TRUE(json::parse(printed("kernels 'b0 8x8 d8' --json"))["pipelines"].empty());
}

TEST_F(ToolKernels, StatisticsAreTheDriversOrRefused) {
  const std::string command = "kernels 'h2 50x70 d16 weights=probabilities' --kernel lane --stats --json";
  const ToolResult result = run(command);
  if (result.exit_code != 0) {
    refuses(command, "VK_KHR_pipeline_executable_properties", 3);
    return;
  }
  const json report = json::parse(result.out);
  ASSERT_GE(report["pipelines"].size(), 2U);
  for (const json& pipeline : report["pipelines"]) {
    EXPECT_GT(pipeline["workgroup_size"].get<int>(), 0);
    EXPECT_TRUE(pipeline["statistics"].is_object()) << pipeline;
  }
}

}  // namespace
}  // namespace vkattn::tests

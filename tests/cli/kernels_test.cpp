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
                  {"--kernel tile --tile threads=64", "block sizes of its own for gradients", 3},
                  {"--kv-splits 2", "--kv-splits is set, but is not used by gradients"},
                  {"--arithmetic f16", "--arithmetic is set, but is not used by gradients"}});
  refuses("kernels '8x32 d32 cache=q8_0 backward'", "q8_0, which has no gradients", 3);
}

TEST_F(ToolKernels, ListsThePipelinesOfAMatrixMultiplication) {
  const std::string problem = "matmul 60x50x64 f16 b=q8_0 bias";
  expect_pipelines(problem, "lane", {"lane"});
  expect_pipelines("matmul 60x50x64", "tile", {"tile"});
  const json kernels = json::parse(printed("kernels '" + problem + "' --json"))["kernels"];
  ASSERT_EQ(kernels.size(), 4U);
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

TEST_F(ToolKernels, ARecordedDeviceGetsThePlanOfTheDeviceItself) {
  write_file(folder_ / "gpu.json", printed("devices --json"));
  const std::string recorded = " --json --capabilities gpu.json --device 0";
  const json devices = json::parse(printed("devices --json"))["devices"];
  const auto usable = std::find_if(devices.begin(), devices.end(), [](const json& one) {
    return one["rejected"].get<std::string>().empty();
  });
  const std::string own = " --json --device " + (*usable)["index"].dump();
  for (const char* const problem :
       {"'b1 h8 512x512 d64'", "'hq32 hkv8 1x4096 d128 f16'", "'h2 50x70 d16 mask=bytes sinks'",
        "'h2 50x70 d64 f16 backward'", "'matmul 60x50x64 f16'", "'h4 100x100 d64 f16' --kernel tile"}) {
    SCOPED_TRACE(problem);
    const std::string command = std::string("kernels ") + problem;
    const json plan = json::parse(printed(command + own));
    const json told = json::parse(printed(command + recorded))["devices"][0];
    EXPECT_EQ(told["kernel"], plan["kernel"]);
    EXPECT_EQ(told["name"], (*usable)["name"]);
    EXPECT_GE(told["storage_buffers"].get<int>(), 2);
    for (const json& kernel : told["kernels"]) {
      EXPECT_EQ(kernel["reason"], named(plan["kernels"], kernel["name"])["reason"]) << kernel;
    }
    EXPECT_TRUE(has(printed(command), told["summary"].get<std::string>().substr(0, 30)));
  }
}

/// They need no device.
class ToolRecordedDevices : public Tool {
 protected:
  /// A file of capabilities with these devices.
  void write_devices(const std::string& devices) const {
    write_file(folder_ / "gpu.json", R"({"capabilities_version": 1, "devices": [)" + devices + "]}");
  }
  [[nodiscard]] std::string told(const std::string& command) const { return printed(command, kNoDevice); }
};

TEST_F(ToolRecordedDevices, AreAllTold) {
  write_devices(R"({"name": "Small"}, {"name": "Sixteen bits", "features": {"storage_buffer_16bit": true}})");
  write_file(folder_ / "more.json",
             R"({"capabilities_version": 1, "devices": [{"name": "Another small one"}]})");
  const std::string command = "kernels 'h8 512x512 d64 f16' --capabilities gpu.json --capabilities more.json";
  const std::string text = told(command);
  for (const char* const part : {"h8 512x512 d64 f16\n", "\nSmall - other\n", "\nSixteen bits - other\n",
                                 "\nAnother small one - other\n", "lacks", "storageBuffer16BitAccess",
                                 "enable      storageBuffer16BitAccess\n", "4 of 4 storage buffers"}) {
    EXPECT_TRUE(has(text, part));
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(console::display_width(line), 80U) << line;
  const auto names = [&](const std::string& options) {
    std::string all;
    const json report = json::parse(told(command + " --json" + options));
    for (const json& one : report["devices"]) all += one["name"].get<std::string>() + ";";
    return all;
  };
  EXPECT_EQ(names(""), "Small;Sixteen bits;Another small one;");
  EXPECT_EQ(names(" --device small"), "Small;Another small one;");
  EXPECT_EQ(names(" --device 1"), "Sixteen bits;");
}

TEST_F(ToolRecordedDevices, ThatRefuseEndWithTheCodeOfDevices) {
  write_devices(R"({"name": "Small"}, {"name": "Large", "limits": {"max_stage_storage_buffers": 16}})");
  const std::string command = "kernels 'h8 64x64 d64 weights=probabilities lse' --capabilities gpu.json";
  const ToolResult result = run(command, kNoDevice);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_TRUE(has(result.err, "1 of 2 devices cannot run this problem"));
  EXPECT_TRUE(has(result.out, "needs 5 storage buffers;"));
  EXPECT_TRUE(has(result.out, "maxPerStageDescriptorStorageBuffers is 4: "));
  EXPECT_TRUE(has(result.out, "of 16 storage buffers"));
  const ToolResult as_json = run(command + " --json", kNoDevice);
  EXPECT_EQ(as_json.exit_code, 3);
  const json devices = json::parse(as_json.out)["devices"];
  EXPECT_TRUE(has(devices[0]["refused"].get<std::string>(), "storage buffers"));
  EXPECT_FALSE(devices[1].contains("refused"));
}

TEST_F(ToolRecordedDevices, AreRefusedBySentence) {
  write_devices(R"({"name": "Small"})");
  write_file(folder_ / "torn.json", R"({"capabilities_version": 1, "dev)");
  write_file(folder_ / "other.json", R"({"capabilities_version": 7, "devices": [{}]})");
  write_file(folder_ / "unknown.json",
             R"({"capabilities_version": 1, "devices": [{"features": {"warp": true}}]})");
  write_file(folder_ / "tuning.json", R"({"format": "vkattn tuning", "version": 3, "devices": []})");
  expect_refused(
      "kernels '8x8 d8' ",
      {{"--capabilities none.json", "none.json cannot be read: "},
       {"--capabilities .", "cannot be read: "},
       {"--capabilities torn.json", "torn.json: the file of capabilities cannot be used: it is torn"},
       {"--capabilities other.json", "it is of version 7 and this library reads version 1"},
       {"--capabilities unknown.json", "devices[0].features.warp is no field of this version"},
       {"--capabilities tuning.json", "it has no capabilities_version"},
       {"--capabilities gpu.json --device 1", "the files have 1 device, and '1' is none of them"},
       {"--capabilities gpu.json --stats", "are for a device that is there, not for --capabilities"},
       {"--capabilities gpu.json --kernel decode --kv-splits 0.5", "--kv-splits"}},
      kNoDevice);
  refuses("kernels '8x8 d8 backward' --capabilities gpu.json --kernel decode", "there is no kernel 'decode'",
          2, kNoDevice);
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

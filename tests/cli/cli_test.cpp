// The tool as its users see it: help, refusals, files in and out, reports.
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "npy.hpp"
#include "plot.hpp"
#include "support/text.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;
using npy::ElementType;

TEST_F(Tool, ExplainsItselfWithExamples) {
  EXPECT_TRUE(printed("--version").starts_with("vkattn "));
  for (const std::string command :
       {"", "devices", "run", "bench", "tune", "kernels", "inspect", "report", "completion", "man"}) {
    const std::string help = printed(command + " --help");
    EXPECT_TRUE(has(help, "\n\nExamples:\n"));
    for (const std::string& line : lines_of(help)) EXPECT_LE(console::display_width(line), 80U) << line;
  }
}

// Shells complete every option of --help, and the manual page has it.
TEST_F(Tool, CompletesCommandLines) {
  write_file(folder_ / "script", printed("completion bash"));
  const auto printed_by = [&](const std::string& command) {
    const std::string line = "cd '" + folder_.path().string() + "' && { " + command + "; } > out";
    EXPECT_EQ(std::system(line.c_str()), 0) << command;  // NOLINT: a test, with its own words
    return read_file(folder_ / "out");
  };
  const auto completed = [&](const std::string& words, int at) {
    return printed_by("bash -c 'source ./script; COMP_WORDS=(" + words +
                      "); COMP_CWORD=" + std::to_string(at) + "; _vkattn; echo ${COMPREPLY[@]}'");
  };
  EXPECT_EQ(completed("vkattn be", 1), "bench\n");
  EXPECT_EQ(completed("vkattn run --query-", 2), "--query-lengths --query-positions\n");
  EXPECT_EQ(completed("vkattn bench --suite sm", 3), "smoke\n");
  EXPECT_EQ(completed("vkattn run --query scr", 3), "script\n");
  refuses("completion csh", "bash, zsh or fish", 2);
  refuses("completion", "bash, zsh or fish", 2);
  const std::string page = printed("man"), zsh = printed("completion zsh"), fish = printed("completion fish");
  for (const char* const option : {"query", "max-seconds", "score-buffer"}) {
    EXPECT_TRUE(has(zsh, "'--" + std::string(option) + "[")) << option;
    EXPECT_TRUE(has(fish, " -l " + std::string(option) + " -r -d '")) << option;
  }
  EXPECT_TRUE(has(page, ".TH VKATTN 1"));
  EXPECT_TRUE(has(page, "\\fB\\-\\-max\\-seconds\\fR \\fIS\\fR\n"));
  for (const char* const other : {"zsh", "fish"}) {  // if they are installed
    write_file(folder_ / "other", printed("completion " + std::string(other)));
    (void)printed_by("! command -v " + std::string(other) + " || " + other + " -n ./other");
  }
}

TEST_F(Tool, ListsSuites) {
  const std::string whole = printed("bench --list");
  EXPECT_TRUE(has(whole, "smoke: "));
  const std::string one = printed("bench --list --suite smoke");
  EXPECT_TRUE(one.starts_with("smoke: "));
  EXPECT_LT(one.size(), whole.size());
  const json list = json::parse(printed("bench --list --json"));
  ASSERT_GT(list["suites"].size(), 1U);
  for (const json& suite : list["suites"]) {
    for (const json& problem : suite["problems"])
      EXPECT_TRUE(has(whole, problem["problem"].get<std::string>()));
  }
  const json smoke = json::parse(printed("bench --list --suite smoke --json"));
  ASSERT_EQ(smoke["suites"].size(), 1U);
  EXPECT_EQ(smoke["suites"][0]["name"], "smoke");
}

TEST_F(Tool, SaysWhereNoDeviceIs) {
  for (const char* const command : {"devices", "bench '8x8 d8'"}) refuses(command, "Vulkan", 3, kNoDevice);
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  refuses("bench '8x8 d8' --device 'no such device'", "'no such device'", 3);
  refuses("bench '8x8 d8'", "'no such device'", 3, "VKATTN_DEVICE='no such device'");
}

#ifdef __GLIBC__
// volk asks for libvulkan.so.1 and then for libvulkan.so. If glibc finds a file of that name that is not a
// library, it stops searching. So it does not look into the folders after this one.
TEST_F(Tool, SaysWhereNoLoaderIs) {
  refuses("devices", "no Vulkan device was found", 3, kNoDevice);  // a loader exists that the test can hide
  for (const char* const name : {"libvulkan.so.1", "libvulkan.so"}) {
    write_file(folder_ / name, "no library, though longer than the header of one: " + std::string(64, '.'));
  }
  const std::string hidden = "LD_LIBRARY_PATH='" + folder_.path().string() + "'";
  for (const char* const command : {"devices", "devices --json", "bench '8x8 d8'"}) {
    refuses(command, "no Vulkan loader was found", 3, hidden);
  }
}
#endif

// Measuring peaks takes seconds. A refusal must not wait for it.
TEST_F(ToolOnDevice, RefusesBeforePeaksAreMeasured) {
  const ToolResult result = run("bench '8x8 d8 backward' --kernel decode");
  EXPECT_EQ(result.exit_code, 3) << result.err;
  EXPECT_TRUE(has(result.out, "peaks     not measured\n")) << result.out;
  EXPECT_TRUE(has(result.out, "  refused: ")) << result.out;
}

TEST_F(ToolOnDevice, ListsDevices) {
  const std::string text = printed("devices");
  for (const char* const part : {"driver", "subgroups of", "workgroups of", "16-bit", "matrix units",
                                 "limits", "kernel lane", "kernel tile", "kernel decode"}) {
    EXPECT_TRUE(has(text, part));
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(console::display_width(line), 80U) << line;
  const json list = json::parse(printed("devices --json"));
  ASSERT_FALSE(list["devices"].empty());
  for (const json& device : list["devices"]) {
    if (!device["rejected"].get<std::string>().empty()) continue;
    EXPECT_GT(device["limits"]["max_shared_memory_bytes"].get<int>(), 0);
    EXPECT_GE(device["kernels"].size(), 2U);
  }
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
TEST_F(ToolRun, TakesScoreFunctionsWithTables) {
  write_file(folder_ / "own.glsl",
             "\xef\xbb\xbf// l\xc3\xa4nger \xe2\x86\x92 mehr\n"
             "bool visible(Position p) { return document(p.key) == document(p.query); }\n"
             "float score(float s, Position p) { return s + bias(p.head); }\n");
  write_list<std::int64_t>("document", {-1, -1, 5, 5, 5, 7, 7, 7, 7, 9, 9, 9, 9});
  write<double>("bias", {2, 2}, {0.5, -1, 2, 0});
  const std::string document = "--score own.glsl --score-buffer document=document.npy ";
  expect_checked(document + "--score-buffer bias=bias.npy --causal --kernel tile --type f16 --lse lse.npy");
  // A table of unsigned integers. Comparing it with a signed p.key would not be GLSL.
  write_file(folder_ / "limit.glsl", "bool visible(Position p) { return p.key < limit(p.head); }\n");
  write_list<std::uint32_t>("u32", {1, 5, 0xffffffffU, 3});
  write_list<std::uint64_t>("u64", {1, 5, 0xffffffffU, 3});
  write_list<std::uint8_t>("u8", {1, 5, 255, 3});
  const std::string limit = "--score limit.glsl --score-buffer limit=";
  for (const char* const table : {"u32.npy", "u64.npy", "u8.npy"}) expect_checked(limit + table);
  // A shell passes the output of a command as a pipe.
  EXPECT_TRUE(
      has(printed(attend("--check --score /dev/stdin --score-buffer limit=u8.npy"), "cat limit.glsl |"),
          "passed"));

  write_list<std::int64_t>("long", {0, std::int64_t{1} << 32});
  write_list<std::uint64_t>("u64", {1, std::uint64_t{1} << 32});
  write_list<double>("large", {1e300, 1});
  write<float>("turned", {2, 2}, {0, 0, 0, 0});
  claim_fortran_order("turned");
  write_file(folder_ / "empty", "");
  write_file(folder_ / "neither", "// nothing\n");
  write_file(folder_ / "utf16", "\xff\xfe b");
  write_file(folder_ / "letters", "\nfloat l\xc3\xa4nge;\n");
  expect_refused(
      attend(""),
      {{"--score own.glsl --score-buffer bias=bias.npy", "own.glsl:2: 'document' : no matching"},
       {"--score-buffer bias=bias.npy", "needs --score"},
       {"--score own.glsl --score-buffer bias", "NAME=FILE.npy"},
       {limit, "NAME=FILE.npy"},
       {limit + "empty", "empty: the file is empty"},
       {limit + "missing.npy", "missing.npy: there is no such file"},
       {limit + "u64.npy", "4294967296 at index 1 does not fit uint32"},
       {"--score own.glsl --score-buffer document=long.npy", "4294967296 at index 1 does not fit int32"},
       {document + "--score-buffer bias=turned.npy", "in Fortran order"},
       {document + "--score-buffer bias=large.npy", "1 value does not fit float32"},
       {"--score absent", "no such file"},
       {"--score .", "this is a folder"},
       {"--score empty", "empty: the file is empty"},
       {"--score neither", "defines neither"},
       {"--score utf16", "UTF-16"},
       {"--score letters", "letters:2: the character '\xc3\xa4' may stand in comments only"}});
}

TEST_F(ToolOnDevice, MeasuresScoreFunctions) {
  write_file(folder_ / "own.glsl", "float score(float s, Position p) { return s + bias(p.key % 3); }\n");
  write_npy<float>(folder_ / "bias.npy", {3}, {0.5F, -1, 2});
  // The problem is so large that a piece of it is timed first.
  for (const std::string command : {"bench --no-peaks --repeat 3", "kernels"}) {
    const std::string scored = command + " 'h2 600x600 d64' --score own.glsl ";
    static_cast<void>(printed(scored + "--score-buffer bias=bias.npy", kUnrolledLoops));
    refuses(scored, "'bias' : no matching overloaded function");
  }
}
#else
TEST_F(Tool, SaysThatItHasNoScoreFunctions) {
  write_file(folder_ / "own.glsl", "bool visible(Position p) { return true; }\n");
  refuses("bench '9x9 d8' --score own.glsl", "VKATTN_BUILD_SCORE_FUNCTIONS");
}
#endif

TEST_F(ToolRun, SaysThatNothingIsKept) {
  const ToolResult result = run(attend("--causal"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(has(result.err, "nothing was written or compared; add --output O.npy")) << result.err;
  EXPECT_TRUE(has(json::parse(printed(attend("--json")))["warnings"][0].get<std::string>(), "--check"));
  for (const char* const options : {"--check", "--lse lse.npy"}) EXPECT_EQ(run(attend(options)).err, "");
}

TEST_F(ToolRun, WritesShapesThatFollowTheQuery) {
  expect_checked("--output out.npy --lse lse.npy --causal");
  EXPECT_EQ(shape("out"), (Shape{2, 4, 9, 8}));
  EXPECT_EQ(shape("lse"), (Shape{2, 4, 9}));
  write_inputs({9, 4, 16}, {13, 2, 16}, {13, 2, 8});
  expect_checked("--output out.npy --lse lse.npy --layout bshd");
  EXPECT_EQ(shape("out"), (Shape{9, 4, 8}));
  EXPECT_EQ(shape("lse"), (Shape{4, 9}));
}

TEST_F(ToolRun, ReadsEveryOrderOfBytesAndAxes) {
  const std::string options = "--causal --align bottom-right";
  const std::vector<float> plain = output_of(options);
  const Shape whole = {2, 4, 9, 16};
  const std::vector<float> query = values("query");
  write("query", whole, turned(query, whole));
  claim_fortran_order("query");
  expect_near(output_of(options), plain);

  std::string content = npy::make_header(ElementType::kFloat32, whole);
  const std::size_t order = content.find_first_of("<>");
  content[order] = content[order] == '<' ? '>' : '<';
  for (const float value : query) {
    std::array<char, 4> bytes{};
    std::memcpy(bytes.data(), &value, 4);
    content.append(bytes.rbegin(), bytes.rend());
  }
  write_file(file("query"), content);
  EXPECT_EQ(plain, output_of(options));
}

TEST_F(ToolRun, StoresTypesAsAsked) {
  const Shape three_by_eight = {3, 8};
  const std::vector<float> numbers = noise(three_by_eight, 5);
  std::vector<double> wide;
  for (const float value : numbers) wide.push_back(static_cast<double>(value) * 1.0000001);
  const auto expect_stored = [&](const std::string& options, ElementType type) {
    expect_checked(options + " --output out.npy");
    EXPECT_EQ(read_npy(file("out")).type, type) << options;
  };
  for (const char* const name : {"query", "key", "value"}) write(name, three_by_eight, halves(numbers));
  expect_stored("", ElementType::kFloat16);
  expect_stored("--type f32", ElementType::kFloat32);
  write("key", three_by_eight, wide);
  expect_stored("", ElementType::kFloat32);
  expect_stored("--type bf16 --kernel lane", ElementType::kFloat32);
  expect_stored("--type bf16 --kernel tile", ElementType::kFloat32);
}

TEST_F(ToolRun, TakesEmptyArrays) {
  write_inputs({2, 4, 9, 16}, {2, 2, 0, 16}, {2, 2, 0, 8});
  expect_checked("--lse lse.npy");
  for (const float value : values("lse")) EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
  write_noise("query", {2, 4, 0, 16});
  expect_checked("--output out.npy");
  EXPECT_EQ(shape("out"), (Shape{2, 4, 0, 8}));
}

TEST_F(ToolRun, RefusesBadFilesAndLeavesNoOutput) {
  write_file(file("out"), "kept");
  const std::string sound = read_file(file("query"));
  write_file(file("cut"), sound.substr(0, sound.size() - 5));
  write_file(file("text"), "not an array");
  write("integers", {2, 4, 9, 16}, std::vector<std::int32_t>(1152));
  write_noise("rank", {4, 9, 16});
  write_noise("dim", {2, 4, 9, 15});
  write_noise("heads", {2, 3, 9, 16});
  write_noise("batch", {3, 4, 9, 16});
  const std::size_t files = folder_.file_count();
  expect_refused("run --key key.npy --value value.npy --output out.npy --query ",
                 {{"cut.npy", "truncated"},
                  {"text.npy", "not a .npy file"},
                  {"integers.npy", "int32"},
                  {"rank.npy", "rank"},
                  {"heads.npy", "no multiple"},
                  {"dim.npy", "head dimension: 15 and 16"},
                  {"batch.npy", "batch size: 3 and 2"}});
  expect_refused(attend("--output "),
                 {{"missing/out.npy", "cannot be written"},
                  {".", "not a regular file"},
                  {"out.npy --device 'no such device'", "'no such device'", 3},
                  // What this device cannot do has another exit code than what no device can do.
                  {"out.npy --kernel matrix", "matrix: takes float16", 3}});
  EXPECT_EQ(read_file(file("out")), "kept");
  EXPECT_EQ(folder_.file_count(), files) << "no temporary file";
}

TEST_F(ToolRun, ReportsJson) {
  const json report = json::parse(printed(
      attend("--output out.npy --weights weights.npy --weights-stage scores --window 3,0 --check --json")));
  EXPECT_EQ(report["output"]["shape"], json({2, 4, 9, 8}));
  EXPECT_EQ(report["weights"]["shape"], json({2, 4, 9, 13}));
  EXPECT_TRUE(has(report["problem"].get<std::string>(), "window=3,0 weights=scores"));
  EXPECT_TRUE(report["check"]["passed"].get<bool>());
  EXPECT_LE(report["check"]["largest_share_of_tolerance"].get<double>(), 1.0);
  EXPECT_GT(report["execute_ms"].get<double>(), 0.0);
}

using ToolBench = ToolOnDevice;

TEST_F(ToolBench, ReportsAndFlagsNothing) {
  const ToolResult result =
      run("bench 'b1 h2 40x40 d16 causal' 'b1 h2 q1 kv64 d16 f16' --repeat 5 --output report.json --json");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.empty());
  EXPECT_TRUE(result.err.empty()) << "no progress in a pipe";
  const json report = json::parse(read_file(folder_ / "report.json"));
  EXPECT_GT(report["peaks"]["multiply_add_f32"]["flops_per_second"].get<double>(), 0.0);
  EXPECT_GT(report["peaks"]["copy"]["bytes_per_second"].get<double>(), 0.0);
  ASSERT_EQ(report["results"].size(), 2U);
  for (const json& row : report["results"]) {
    EXPECT_EQ(row["outcome"], "measured") << row;
    EXPECT_EQ(row["runs"], 5);
    EXPECT_LE(row["p5_ms"].get<double>(), row["median_ms"].get<double>());
    EXPECT_FALSE(row["above_peak"].get<bool>()) << row;
    EXPECT_GT(row["record_ns"].get<double>(), 0.0);
    EXPECT_TRUE(row["record_allocations"].is_null() || row["record_allocations"] == 0) << row;
    EXPECT_TRUE(row["check"]["passed"].get<bool>());
  }
  EXPECT_GE(report["results"][0]["check"]["rows"].get<int>(), 64);
}

TEST_F(ToolBench, ComparesABackwardPassWithItsForwardPass) {
  const std::string command =
      "bench 'h2 40x50 d16 causal sinks backward' --kernel lane,tile --no-peaks --repeat 3";
  const json report = json::parse(printed(command + " --json"));
  ASSERT_EQ(report["results"].size(), 2U);
  for (const json& row : report["results"]) {
    EXPECT_EQ(row["outcome"], "measured") << row;
    EXPECT_TRUE(row["check"]["passed"].get<bool>());
    EXPECT_EQ(row["check"]["rows"], 2 * (40 + 50 + 50) + 2) << "of the gradients of Q, K, V and sinks";
    EXPECT_GT(row["forward_median_ms"].get<double>(), 0.0);
    EXPECT_DOUBLE_EQ(row["times_forward"].get<double>(),
                     row["median_ms"].get<double>() / row["forward_median_ms"].get<double>());
  }
  EXPECT_EQ(report["results"][1]["kernel"], "tile");
  EXPECT_TRUE(has(printed(command), " times its forward pass, "));
  refuses("bench '40x50 d16 backward' --kernel decode --no-peaks", "no kernel 'decode' for these gradients",
          3);
}

TEST_F(ToolBench, MeasuresMatrixMultiplications) {
  const std::string problem = "'matmul 40x50x64 f16 b=q8_0 bias' 'matmul 1x50x70 a=ones'";
  const json report =
      json::parse(printed("bench " + problem + " --kernel lane,tile --no-peaks --repeat 3 --json"));
  ASSERT_EQ(report["results"].size(), 4U);
  for (const json& row : report["results"]) {
    EXPECT_EQ(row["outcome"], "measured") << row;
    EXPECT_TRUE(row["check"]["passed"].get<bool>());
    EXPECT_GT(row["gflops_per_second"].get<double>(), 0.0);
    EXPECT_FALSE(row.contains("times_forward"));
  }
  EXPECT_EQ(report["results"][0]["check"]["elements"], 40 * 50);
  refuses("bench 'matmul 4x4x4 causal'", "'causal' is of attention");
  EXPECT_TRUE(
      has(printed("bench 'matmul 40x50x640' --kernel tile --tile threads=64,rows=2,columns=4,inner=16 "
                  "--kv-splits 3 --no-peaks --repeat 3"),
          "all within tolerance"));
  refuses("bench '4x4 d4' 'matmul 4x4x4' --kernel tile --tile threads=64",
          "--tile gives block sizes of one kernel");
}

TEST_F(ToolBench, LeavesOutPeaksWhereTheyAreNotWanted) {
  const std::string command = "bench 'h2 40x40 d16' --no-peaks --repeat 3";
  EXPECT_TRUE(has(printed(command), "not measured"));
  const json report = json::parse(printed(command + " --json"));
  EXPECT_TRUE(report["peaks"].is_null());
  EXPECT_TRUE(report["results"][0]["share_of_compute_peak"].is_null());
  EXPECT_GT(report["results"][0]["gflops_per_second"].get<double>(), 0);
}

TEST_F(ToolBench, Plots) {
  if (!picture::check_support().ok()) GTEST_SKIP() << picture::check_support().error().message;
  EXPECT_TRUE(has(printed("bench 'b1 h2 40x40 d16' --repeat 3 --plot a.svg"), "1 measured"))
      << "the table comes too";
  const std::string svg = read_file(folder_ / "a.svg");
  EXPECT_TRUE(has(svg, "</svg>"));
  // A report without a figure does not replace the old picture.
  refuses("bench 'h16 8192x8192 d64' --max-seconds 0.05 --json --output report.json --plot a.svg",
          "nothing to plot", 1);
  EXPECT_EQ(read_file(folder_ / "a.svg"), svg);
  EXPECT_EQ(folder_.file_count(), 2U);
}

TEST_F(ToolBench, SkipsWhatDoesNotFitAndSaysHowLongItWouldTake) {
  const std::string command = "bench b1 h64 8192x8192 d64 f16 --no-peaks --max-seconds 0.05 --csv";
  EXPECT_TRUE(has(printed(command), ",skipped,"));
}

}  // namespace
}  // namespace vkattn::tests

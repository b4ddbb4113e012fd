// The tool as its users meet it: help, refusals, files in and out, reports.
#include <array>
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
  for (const std::string command : {"", "devices", "run", "bench", "tune", "kernels"}) {
    const std::string help = printed(command + " --help");
    EXPECT_TRUE(has(help, "\n\nExamples:\n"));
    for (const std::string& line : lines_of(help)) EXPECT_LE(console::display_width(line), 104U) << line;
  }
}

TEST_F(Tool, RefusesWrongUsageInOneSentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "a command is needed"},
      {"rnu", "did you mean 'run'?"},
      {"transmogrify", "the commands are devices, run, bench, tune and kernels"},
      {"devices all", "'all'"},
      {"run", "--query is missing"},
      {"run --query --key K.npy", "--query needs a value"},
      {"run --output ''", "--output is given an empty value"},
      {"run --cuasal", "did you mean --causal?"},
      {"bench", "needs a problem"},
      {"bench --suite smok", "did you mean 'smoke'?"},
      {"bench smoke", "--suite smoke"},
      {"bench 'b1 h8 512x512 d64x'", "d64x"},
      {"bench 'b1 h8 512x512 d6400'", "6400"},
      {"bench 'b99999999999999999999 8x8 d8'", "b99999999999999999999"}};
  for (const auto& [command, part] : cases) refuses(command, part);
  const std::pair<const char*, const char*> of_run[] = {{"--type f17", "'f17'"},
                                                        {"--layout bsdh", "'bsdh'"},
                                                        {"--scale nan", "'nan'"},
                                                        {"--scale 1e39", "1e39"},
                                                        {"--causal --align middle", "'middle'"},
                                                        {"--align 3", "--causal"},
                                                        {"--kernel tyle", "did you mean 'tile'?"},
                                                        {"--output a --lse a", "the same file"},
                                                        {"--output a --output b", "only once"}};
  for (const auto& [options, part] : of_run)
    refuses("run --query q --key k --value v " + std::string(options), part);
  const char* const picture = bench::check_plot_support().ok() ? "/nonexistent/x.png" : "libcairo2-dev";
  const std::pair<const char*, const char*> of_bench[] = {
      {"--repeat two", "'two'"},
      {"--repeat 1", "--repeat 1"},
      {"--max-seconds 0", "--max-seconds 0"},
      {"--json --csv", "not both"},
      {"--kernel lan", "did you mean 'lane'?"},
      {"--kernel lane,tyle", "did you mean 'tile'?"},
      {"--kernel lane,", "before and after each comma"},
      {"--kernel lane,tile,lane", "names lane twice"},
      {"--output /nonexistent/x.json", "/nonexistent/x.json"},
      {"--plot x.jpg", ".png and .svg"},
      {"--plot x.svg --output x.svg", "the same file"},
      {"--plot /nonexistent/x.png", picture}};
  for (const auto& [options, part] : of_bench) refuses("bench '8x8 d8' " + std::string(options), part);
}

TEST_F(Tool, NoFileTakesThePlaceOfAnother) {
  write_file(folder_ / "q.npy", "kept");
  std::filesystem::create_symlink("q.npy", folder_ / "link.npy");
  std::filesystem::create_symlink("new.svg", folder_ / "dangling.svg");
  const std::string up_and_down = "../" + folder_.path().filename().string() + "/o.npy";
  const std::pair<std::string, std::string> of_run[] = {
      {"--output q.npy", "--output 'q.npy' would overwrite the file of --query"},
      {"--lse ./q.npy", "--lse './q.npy' would overwrite the file of --query"},
      {"--weights link.npy", " would overwrite the file of --query, 'q.npy'"},
      {"--output o.npy --lse " + up_and_down, "--output and --lse name the same file 'o.npy' ("},
      {"--output new.svg --lse dangling.svg", "--output and --lse name the same file"},
      {"--weights w --output w", "--output and --weights name the same file 'w'"},
      {"--past-key p --past-value o --present-key o",
       "--present-key 'o' would overwrite the file of --past-value"},
      {"--past-key p --past-value p --present-key o --output o",
       "--output and --present-key name the same file 'o'"},
      {"--score s --score-buffer t=f --lse f", "the file of --score-buffer"}};
  const std::string inputs = "run --query q.npy --key k --value v ";
  for (const auto& [options, part] : of_run) refuses(inputs + options, part);
  for (const std::string option :
       {"--mask", "--alibi-slopes", "--sink", "--kv-lengths", "--query-lengths", "--score", "--tuning"}) {
    refuses(inputs + option + " f --output ./f", "--output './f' would overwrite the file of " + option);
  }
  const std::string bench = "bench '8x8 d8' --output q.npy ";
  refuses(bench + "--plot link.npy", "--output and --plot name the same file");
  refuses(bench + "--score link.npy", "would overwrite the file of --score");
  refuses(bench + "--tuning q.npy", "would overwrite the file of --tuning");
  refuses(bench, "would overwrite the file of VKATTN_TUNING", 2, "VKATTN_TUNING=q.npy");
  EXPECT_EQ(read_file(folder_ / "q.npy"), "kept");
  EXPECT_EQ(folder_.file_count(), 2U);
}

TEST_F(Tool, SaysWhereNoDeviceIs) {
  for (const char* const command : {"devices", "bench '8x8 d8'"}) refuses(command, "Vulkan", 3, kNoDevice);
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  refuses("bench '8x8 d8' --device 'no such device'", "'no such device'", 3);
  refuses("bench '8x8 d8'", "'no such device'", 3, "VKATTN_DEVICE='no such device'");
}

TEST_F(ToolOnDevice, ListsDevices) {
  const std::string text = printed("devices");
  for (const char* const part : {"driver", "subgroups of", "workgroups of", "16-bit", "matrix units",
                                 "limits", "kernel lane", "kernel tile", "kernel decode"}) {
    EXPECT_TRUE(has(text, part));
  }
  for (const std::string& line : lines_of(text)) EXPECT_LE(console::display_width(line), 100U) << line;
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
             "bool visible(Position p) { return document(p.key) == document(p.query); }\n"
             "float score(float s, Position p) { return s + bias(p.head); }\n");
  write_list<std::int64_t>("document", {-1, -1, 5, 5, 5, 7, 7, 7, 7, 9, 9, 9, 9});
  write<double>("bias", {2, 2}, {0.5, -1, 2, 0});
  const std::string document = "--score own.glsl --score-buffer document=document.npy ";
  const std::string score = document + "--score-buffer bias=bias.npy ";
  expect_checked(score);
  expect_checked(score + "--causal --kernel tile --type f16 --lse lse.npy");

  write_list<std::int64_t>("long", {0, std::int64_t{1} << 31});
  write_list<double>("large", {1e300, 1});
  write<float>("turned", {2, 2}, {0, 0, 0, 0});
  claim_fortran_order("turned");
  const std::pair<std::string, const char*> cases[] = {
      {"--score own.glsl --score-buffer bias=bias.npy",
       "own.glsl:1: 'document' : no matching overloaded function"},
      {"--score-buffer bias=bias.npy", "needs --score"},
      {"--score own.glsl --score-buffer bias", "NAME=FILE.npy"},
      {"--score absent", "no such file"},
      {"--score own.glsl --score-buffer document=long.npy", "2147483648 at index 1 does not fit int32"},
      {document + "--score-buffer bias=turned.npy", "in Fortran order"},
      {document + "--score-buffer bias=large.npy", "1 value does not fit float32"}};
  for (const auto& [options, part] : cases) refuses(attend(options), part);
}

TEST_F(ToolRun, ScoreFunctionsOfAnyFile) {
  const std::string text = "bool visible(Position p) { return p.key < limit(p.head); }\n";
  const std::string limit = "--score own.glsl --score-buffer limit=";
  write_file(folder_ / "own.glsl", "\xef\xbb\xbf// l\xc3\xa4nger \xe2\x86\x92 mehr\n" + text);
  // A table of unsigned integers; compared with p.key it would be no GLSL of another sign.
  write_list<std::uint32_t>("u32", {1, 5, 0xffffffffU, 3});
  write_list<std::uint64_t>("u64", {1, 5, 0xffffffffU, 3});
  write_list<std::uint8_t>("u8", {1, 5, 255, 3});
  for (const char* const table : {"u32.npy", "u64.npy", "u8.npy"}) expect_checked(limit + table);
  write_list<std::uint64_t>("u64", {1, std::uint64_t{1} << 32});
  write_file(file("empty"), "");
  refuses(attend(limit + "u64.npy"), "4294967296 at index 1 does not fit uint32");
  refuses(attend(limit + "empty.npy"), "empty.npy: the file is empty");
  refuses(attend(limit + "missing.npy"), "missing.npy: there is no such file");
  refuses(attend(limit), "NAME=FILE.npy");
  refuses(attend("--score ."), "this is a folder");
  const std::pair<std::string, const char*> sources[] = {
      {"", "own.glsl: the file is empty"},
      {"// nothing\n", "defines neither"},
      {"\xff\xfe"
       "b",
       "UTF-16"},
      {text + "float l\xc3\xa4nge;\n", "own.glsl:2: the character '\xc3\xa4' may stand in comments only"}};
  for (const auto& [source, part] : sources) {
    write_file(folder_ / "own.glsl", source);
    refuses(attend("--score own.glsl"), part);
  }
}

TEST_F(ToolOnDevice, MeasuresScoreFunctions) {
  write_file(folder_ / "own.glsl",
             "float score(float s, Position p) { return s - 0.5 * float(p.key % 3); }\n");
  EXPECT_TRUE(
      has(printed("bench 'h2 9x20 d16' --score own.glsl --repeat 3 --json"), "\"outcome\": \"measured\""));
  write_file(folder_ / "own.glsl", "float score(float s, Position p) { return s + bias(p.key % 3); }\n");
  write_npy<float>(folder_ / "bias.npy", {3}, {0.5F, -1, 2});
  // Large enough that a piece of it is timed first.
  for (const std::string command : {"bench --repeat 3", "kernels"}) {
    const std::string scored = command + " 'h2 600x600 d64' --score own.glsl ";
    static_cast<void>(printed(scored + "--score-buffer bias=bias.npy"));
    refuses(scored, "'bias' : no matching overloaded function");
  }
}
#else
TEST_F(Tool, SaysThatItHasNoScoreFunctions) {
  write_file(folder_ / "own.glsl", "bool visible(Position p) { return true; }\n");
  refuses("bench '9x9 d8' --score own.glsl", "VKATTN_BUILD_SCORE_FUNCTIONS");
}
#endif

TEST_F(ToolRun, ComputesTheWorkedExample) {
  const std::vector<float> rows = {1, 0, 1, 0, 0, 1, 0, 1};
  write("query", {2, 4}, rows);
  write("key", {2, 4}, rows);
  write<float>("value", {2, 2}, {2, 3, 5, 7});
  const std::vector<float> out = output_of("--lse lse.npy");
  EXPECT_EQ(shape("out"), (Shape{2, 2}));
  // Scores 1 and 0: weights e / (e + 1) and 1 / (e + 1).
  const std::array<float, 4> expected = {2.8068243F, 4.0757656F, 4.1931757F, 5.9242344F};
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5F);
  EXPECT_EQ(shape("lse"), (Shape{2}));
  for (const float value : values("lse")) EXPECT_NEAR(value, 1.3132616F, 1e-6F);
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
  const std::vector<float> fortran = output_of(options);
  ASSERT_EQ(plain.size(), fortran.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], fortran[i], 1e-5F);

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

TEST_F(ToolRun, TakesKeyLengthsAndEmptyArrays) {
  write_list<std::int64_t>("lengths", {13, 0});
  const std::vector<float> out = output_of("--kv-lengths lengths.npy");
  for (std::size_t i = out.size() / 2; i < out.size(); ++i) EXPECT_EQ(out[i], 0.0F);
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
  const std::size_t files = folder_.file_count();
  const auto refuses_query = [&](const std::string& part) { refuses(attend("--output out.npy"), part); };
  write_file(file("query"), sound.substr(0, sound.size() - 5));
  refuses_query("truncated");
  write_file(file("query"), "not an array");
  refuses_query("not a .npy file");
  write("query", {2, 4, 9, 16}, std::vector<std::int32_t>(1152));
  refuses_query("int32");
  const std::pair<Shape, const char*> shapes[] = {{{4, 9, 16}, "rank"},
                                                  {{2, 4, 9, 15}, "head dimension: 15 and 16"},
                                                  {{2, 3, 9, 16}, "no multiple"},
                                                  {{3, 4, 9, 16}, "batch size: 3 and 2"}};
  for (const auto& [wrong, part] : shapes) {
    write_noise("query", wrong);
    refuses_query(part);
  }
  write_file(file("query"), sound);
  write_list<std::int32_t>("lengths", {13, 14});
  refuses(attend("--output out.npy --kv-lengths lengths.npy"), "14 at index 1");
  refuses(attend("--output missing/out.npy"), "cannot be written");
  refuses(attend("--output ."), "not a regular file");
  refuses(attend("--output out.npy --device 'no such device'"), "'no such device'", 3);
  // What the device cannot do is told from what nothing can.
  refuses(attend("--kernel matrix"), "matrix: takes float16", 3);
  refuses(attend("--softcap 1e31"), "--softcap '1e31': softcap is 1e+31");
  EXPECT_EQ(read_file(file("out")), "kept");
  EXPECT_EQ(folder_.file_count(), files + 1);  // the lengths, and no temporary file
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

TEST_F(ToolBench, Plots) {
  if (!bench::check_plot_support().ok()) GTEST_SKIP() << bench::check_plot_support().error().message;
  for (const std::string picture : {"a.png", "a.svg"}) {
    EXPECT_TRUE(has(printed("bench 'b1 h2 40x40 d16' --repeat 3 --plot " + picture), "1 measured"))
        << "the table comes too";
  }
  EXPECT_TRUE(read_file(folder_ / "a.png").starts_with("\x89PNG"));
  const std::string svg = read_file(folder_ / "a.svg");
  EXPECT_TRUE(has(svg, "</svg>"));
  // A report without a figure leaves the old picture alone.
  refuses("bench 'h16 8192x8192 d64' --max-seconds 0.05 --json --output report.json --plot a.svg",
          "nothing to plot", 1);
  EXPECT_EQ(read_file(folder_ / "a.svg"), svg);
  EXPECT_EQ(folder_.file_count(), 3U);
}

TEST_F(ToolBench, SkipsWhatDoesNotFitAndSaysHowLongItWouldTake) {
  EXPECT_TRUE(has(printed("bench b1 h64 8192x8192 d64 f16 --max-seconds 0.05 --csv"), ",skipped,"));
}

}  // namespace
}  // namespace vkattn::tests

// The tool as its users meet it: help, refusals, files in and out, reports.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "console.hpp"
#include "npy.hpp"
#include "plot.hpp"
#include "support/temp_folder.hpp"
#include "tool.hpp"
#include "tool_run.hpp"

namespace vkattn::tests {
namespace {

using nlohmann::json;
using npy::ElementType;

TEST(Tool, ExplainsItselfWithExamples) {
  const ToolResult version = run_tool({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("vkattn ", 0), 0U) << version.out;
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{{"--help"},
                                                                                     {"devices", "--help"},
                                                                                     {"run", "--help"},
                                                                                     {"bench", "--help"},
                                                                                     {"tune", "--help"},
                                                                                     {"kernels", "--help"}}) {
    const ToolResult help = run_tool(words);
    EXPECT_EQ(help.exit_code, 0) << command_text(words);
    EXPECT_NE(help.out.find("\n\nExamples:\n"), std::string::npos) << help.out;
    std::istringstream lines(help.out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(console::display_width(line), 104U) << line;
  }
}

TEST(Tool, RefusesWrongUsageInOneSentence) {
  expect_refusal({}, 2, "a command is needed");
  expect_refusal({"rnu"}, 2, "did you mean 'run'?");
  expect_refusal({"transmogrify"}, 2, "the commands are devices, run, bench, tune and kernels");
  expect_refusal({"devices", "all"}, 2, "'all'");
  expect_refusal({"run"}, 2, "--query is missing");
  expect_refusal({"run", "--query", "--key", "K.npy"}, 2, "--query needs a value");
  expect_refusal({"run", "--output", ""}, 2, "--output is given an empty value");
  expect_refusal({"run", "--cuasal"}, 2, "did you mean --causal?");
  const std::vector<std::string> inputs = {"run", "--query", "q", "--key", "k", "--value", "v"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = inputs;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refusal(with({"--type", "f17"}), 2, "'f17'");
  expect_refusal(with({"--layout", "bsdh"}), 2, "'bsdh'");
  expect_refusal(with({"--scale", "nan"}), 2, "'nan'");
  expect_refusal(with({"--scale", "1e39"}), 2, "1e39");
  expect_refusal(with({"--causal", "--align", "middle"}), 2, "'middle'");
  expect_refusal(with({"--align", "3"}), 2, "--causal");
  expect_refusal(with({"--kernel", "tyle"}), 2, "did you mean 'tile'?");
  expect_refusal(with({"--kernel", "unfused"}), 2, "vkattn bench --kernel unfused runs it");
  expect_refusal(with({"--output", "a", "--lse", "a"}), 2, "the same file");
  expect_refusal(with({"--output", "a", "--output", "b"}), 2, "only once");
}

TEST(Tool, NoFileTakesThePlaceOfAnother) {
  const TempFolder folder;
  const auto path = [&](const char* name) { return (folder / name).string(); };
  write_file(folder / "q.npy", "kept");
  std::filesystem::create_symlink("q.npy", folder / "link.npy");
  const auto refuses = [&](const std::vector<std::string>& more, const std::string& part) {
    std::vector<std::string> words = {"run", "--query", path("q.npy"), "--key", "k", "--value", "v"};
    words.insert(words.end(), more.begin(), more.end());
    expect_refusal(words, 2, part);
  };
  const std::string over_query = " would overwrite the file of --query";
  refuses({"--output", path("q.npy")}, "--output '" + path("q.npy") + "'" + over_query);
  refuses({"--lse", path("./q.npy")}, "--lse '" + path("./q.npy") + "'" + over_query);
  refuses({"--weights", path("link.npy")}, over_query + ", '" + path("q.npy") + "'");
  refuses({"--output", path("o.npy"), "--lse", path("../") + folder.path().filename().string() + "/o.npy"},
          "--output and --lse name the same file '" + path("o.npy") + "' (");
  refuses({"--weights", "w", "--output", "w"}, "--output and --weights name the same file 'w'");
  refuses({"--past-key", "p", "--past-value", "o", "--present-key", "o"},
          "--present-key 'o' would overwrite the file of --past-value");
  refuses({"--past-key", "p", "--past-value", "p", "--present-key", "o", "--output", "o"},
          "--output and --present-key name the same file 'o'");
  for (const char* const option :
       {"--mask", "--alibi-slopes", "--sink", "--kv-lengths", "--query-lengths", "--score", "--tuning"}) {
    refuses({option, "f", "--output", "./f"},
            std::string("--output './f' would overwrite the file of ") + option);
  }
  refuses({"--score", "s", "--score-buffer", "t=f", "--lse", "f"}, "the file of --score-buffer");
  const std::vector<std::string> bench = {"bench", "8x8 d8", "--output", path("q.npy")};
  const auto refuses_bench = [&](const std::vector<std::string>& more, const std::string& part,
                                 const std::string& environment = "") {
    std::vector<std::string> words = bench;
    words.insert(words.end(), more.begin(), more.end());
    expect_refusal(words, 2, part, environment);
  };
  refuses_bench({"--plot", path("link.npy")}, "--output and --plot name the same file");
  // Links to what is yet to be made, too.
  std::filesystem::create_symlink("new.svg", folder / "dangling.svg");
  refuses({"--output", path("new.svg"), "--lse", path("dangling.svg")},
          "--output and --lse name the same file");
  refuses_bench({"--score", path("link.npy")}, "would overwrite the file of --score");
  refuses_bench({"--tuning", path("q.npy")}, "would overwrite the file of --tuning");
  refuses_bench({}, "would overwrite the file of VKATTN_TUNING", "VKATTN_TUNING=" + path("q.npy"));
  EXPECT_EQ(read_file(folder / "q.npy"), "kept");
  EXPECT_EQ(folder.file_count(), 2U);
}

TEST(Tool, RefusesWrongBenchUsageInOneSentence) {
  expect_refusal({"bench"}, 2, "needs a problem");
  expect_refusal({"bench", "--suite", "smok"}, 2, "did you mean 'smoke'?");
  expect_refusal({"bench", "smoke"}, 2, "--suite smoke");
  expect_refusal({"bench", "b1 h8 512x512 d64x"}, 2, "d64x");
  expect_refusal({"bench", "b1 h8 512x512 d6400"}, 2, "6400");
  expect_refusal({"bench", "b99999999999999999999 8x8 d8"}, 2, "b99999999999999999999");
  expect_refusal({"bench", "8x8 d8", "--repeat", "two"}, 2, "'two'");
  expect_refusal({"bench", "8x8 d8", "--repeat", "1"}, 2, "--repeat 1");
  expect_refusal({"bench", "8x8 d8", "--max-seconds", "0"}, 2, "--max-seconds 0");
  expect_refusal({"bench", "8x8 d8", "--json", "--csv"}, 2, "not both");
  expect_refusal({"bench", "8x8 d8", "--kernel", "lan"}, 2, "did you mean 'lane'?");
  expect_refusal({"bench", "8x8 d8", "--kernel", "lane,tyle"}, 2, "did you mean 'tile'?");
  expect_refusal({"bench", "8x8 d8", "--kernel", "lane,"}, 2, "before and after each comma");
  expect_refusal({"bench", "8x8 d8", "--kernel", "lane,tile,lane"}, 2, "names lane twice");
  expect_refusal({"bench", "8x8 d8", "--output", "/nonexistent/x.json"}, 2, "/nonexistent/x.json");
  expect_refusal({"bench", "8x8 d8", "--plot", "x.jpg"}, 2, ".png and .svg");
  expect_refusal({"bench", "8x8 d8", "--plot", "x.svg", "--output", "x.svg"}, 2, "the same file");
  expect_refusal({"bench", "8x8 d8", "--plot", "/nonexistent/x.png"}, 2,
                 bench::check_plot_support().ok() ? "/nonexistent/x.png" : "libcairo2-dev");
}

TEST(Tool, SaysWhereNoDeviceIs) {
  const std::string nothing = "VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent";
  expect_refusal({"devices"}, 3, "Vulkan", nothing);
  expect_refusal({"bench", "8x8 d8"}, 3, "Vulkan", nothing);
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  expect_refusal({"bench", "8x8 d8", "--device", "no such device"}, 3, "'no such device'");
  expect_refusal({"bench", "8x8 d8"}, 3, "'no such device'", "VKATTN_DEVICE='no such device'");
}

TEST(Tool, ListsDevices) {
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  const ToolResult text = run_tool({"devices"});
  for (const char* const part : {"driver", "subgroups of", "workgroups of", "16-bit", "matrix units",
                                 "limits", "kernel lane", "kernel tile", "kernel decode"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << " is not in\n" << text.out;
  }
  std::istringstream lines(text.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(console::display_width(line), 100U) << line;
  const json list = json::parse(run_tool({"devices", "--json"}).out);
  ASSERT_FALSE(list["devices"].empty());
  for (const json& device : list["devices"]) {
    if (!device["rejected"].get<std::string>().empty()) continue;
    EXPECT_GT(device["limits"]["max_shared_memory_bytes"].get<int>(), 0);
    EXPECT_GE(device["kernels"].size(), 2U);
  }
}

#ifdef VKATTN_HAVE_SCORE_FUNCTIONS
TEST_F(ToolRun, TakesScoreFunctionsWithTables) {
  const std::string source = (folder_ / "own.glsl").string();
  write_file(source,
             "bool visible(Position p) { return document(p.key) == document(p.query); }\n"
             "float score(float s, Position p) { return s + bias(p.head); }\n");
  write_npy(file("document"), ElementType::kInt64, {13},
            std::vector<std::int64_t>{-1, -1, 5, 5, 5, 7, 7, 7, 7, 9, 9, 9, 9});
  write_npy(file("bias"), ElementType::kFloat64, {2, 2}, std::vector<double>{0.5, -1, 2, 0});
  const std::vector<std::string> score = {"--score",        source,
                                          "--score-buffer", "document=" + file("document").string(),
                                          "--score-buffer", "bias=" + file("bias").string()};
  expect_checked(score);
  std::vector<std::string> more = score;
  more.insert(more.end(), {"--causal", "--kernel", "tile", "--type", "f16", "--lse", file("lse").string()});
  expect_checked(more);

  expect_refusal(words({"--score", source, "--score-buffer", "bias=" + file("bias").string()}), 2,
                 "own.glsl:1: 'document' : no matching overloaded function");
  expect_refusal(words({"--score-buffer", "bias=" + file("bias").string()}), 2, "needs --score");
  expect_refusal(words({"--score", source, "--score-buffer", "bias"}), 2, "NAME=FILE.npy");
  expect_refusal(words({"--score", file("absent").string()}), 2, "no such file");
  write_npy(file("long"), ElementType::kInt64, {2}, std::vector<std::int64_t>{0, std::int64_t{1} << 31});
  expect_refusal(words({"--score", source, "--score-buffer", "document=" + file("long").string()}), 2,
                 "2147483648 at index 1 does not fit int32");
  const auto refused_bias = [&](const char* name, const std::string& text) {
    expect_refusal(words({"--score", source, "--score-buffer", "document=" + file("document").string(),
                          "--score-buffer", "bias=" + file(name).string()}),
                   2, text);
  };
  std::string fortran = npy::make_header(ElementType::kFloat32, Shape{2, 2});
  fortran.replace(fortran.find("False"), 5, "True ");
  write_file(file("turned"), fortran.append(16, '\0'));
  refused_bias("turned", "in Fortran order");
  write_npy(file("large"), ElementType::kFloat64, {2}, std::vector<double>{1e300, 1});
  refused_bias("large", "1 value does not fit float32");
}

TEST_F(ToolRun, ScoreFunctionsOfAnyFile) {
  const std::string source = (folder_ / "own.glsl").string();
  const std::string text = "bool visible(Position p) { return p.key < limit(p.head); }\n";
  const auto with = [&](const std::string& table) {
    return std::vector<std::string>{"--score", source, "--score-buffer", "limit=" + file(table).string()};
  };
  write_file(source, "\xef\xbb\xbf// l\xc3\xa4nger \xe2\x86\x92 mehr\n" + text);
  // A table of unsigned integers; compared with p.key it would be no GLSL of another sign.
  write_npy(file("u32"), ElementType::kUint32, {4}, std::vector<std::uint32_t>{1, 5, 0xffffffffU, 3});
  write_npy(file("u64"), ElementType::kUint64, {4}, std::vector<std::uint64_t>{1, 5, 0xffffffffU, 3});
  write_npy(file("u8"), ElementType::kUint8, {4}, std::vector<std::uint8_t>{1, 5, 255, 3});
  for (const char* const table : {"u32", "u64", "u8"}) expect_checked(with(table));
  write_npy(file("u64"), ElementType::kUint64, {2}, std::vector<std::uint64_t>{1, std::uint64_t{1} << 32});
  expect_refusal(words(with("u64")), 2, "4294967296 at index 1 does not fit uint32");

  write_file(file("empty"), "");
  expect_refusal(words(with("empty")), 2, "empty.npy: the file is empty");
  expect_refusal(words(with("missing")), 2, "missing.npy: there is no such file");
  expect_refusal(words({"--score", source, "--score-buffer", "limit="}), 2, "NAME=FILE.npy");
  write_file(source, "");
  expect_refusal(words({"--score", source}), 2, "own.glsl: the file is empty");
  write_file(source, "// nothing\n");
  expect_refusal(words({"--score", source}), 2, "defines neither");
  write_file(source, std::string("\xff\xfe") + "b");
  expect_refusal(words({"--score", source}), 2, "UTF-16");
  write_file(source, text + "float l\xc3\xa4nge;\n");
  expect_refusal(words({"--score", source}), 2,
                 "own.glsl:2: the character '\xc3\xa4' may stand in comments only");
  expect_refusal(words({"--score", folder_.path().string()}), 2, "this is a folder");
}

TEST(Tool, MeasuresScoreFunctions) {
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  const TempFolder folder;
  const std::string source = (folder / "own.glsl").string();
  write_file(source, "float score(float s, Position p) { return s - 0.5 * float(p.key % 3); }\n");
  const ToolResult result = run_tool({"bench", "h2 9x20 d16", "--score", source, "--repeat", "3", "--json"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("\"outcome\": \"measured\""), std::string::npos) << result.out;

  write_file(source, "float score(float s, Position p) { return s + bias(p.key % 3); }\n");
  write_npy(folder / "bias.npy", ElementType::kFloat32, {3}, std::vector<float>{0.5F, -1, 2});
  const std::vector<std::string> score = {"--score", source, "--score-buffer",
                                          "bias=" + (folder / "bias.npy").string()};
  for (const char* const command : {"bench", "kernels"}) {
    // Large enough that a piece of it is timed first.
    std::vector<std::string> words = {command, "h2 600x600 d64"};
    words.insert(words.end(), score.begin(), score.end());
    if (command == std::string("bench")) words.insert(words.end(), {"--repeat", "3"});
    const ToolResult with_table = run_tool(words);
    EXPECT_EQ(with_table.exit_code, 0) << with_table.out << with_table.err;
    words.resize(4);
    expect_refusal(words, 2, "'bias' : no matching overloaded function");
  }
}
#else
TEST(Tool, SaysThatItHasNoScoreFunctions) {
  const TempFolder folder;
  const std::string source = (folder / "own.glsl").string();
  write_file(source, "bool visible(Position p) { return true; }\n");
  expect_refusal({"bench", "9x9 d8", "--score", source}, 2, "VKATTN_BUILD_SCORE_FUNCTIONS");
}
#endif

TEST_F(ToolRun, ComputesTheWorkedExample) {
  const std::vector<float> rows = {1, 0, 1, 0, 0, 1, 0, 1};
  write_npy(file("query"), ElementType::kFloat32, {2, 4}, rows);
  write_npy(file("key"), ElementType::kFloat32, {2, 4}, rows);
  write_npy(file("value"), ElementType::kFloat32, {2, 2}, std::vector<float>{2, 3, 5, 7});
  expect_checked({"--output", file("out").string(), "--lse", file("lse").string()});
  const Array out = read_npy(file("out"));
  EXPECT_EQ(out.shape, (Shape{2, 2}));
  // Scores 1 and 0: weights e / (e + 1) and 1 / (e + 1).
  const std::array<float, 4> expected = {2.8068243F, 4.0757656F, 4.1931757F, 5.9242344F};
  ASSERT_EQ(out.values.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(out.values[i], expected[i], 1e-5F);
  const Array lse = read_npy(file("lse"));
  EXPECT_EQ(lse.shape, (Shape{2}));
  for (const float value : lse.values) EXPECT_NEAR(value, 1.3132616F, 1e-6F);
}

TEST_F(ToolRun, WritesShapesThatFollowTheQuery) {
  expect_checked({"--output", file("out").string(), "--lse", file("lse").string(), "--causal"});
  EXPECT_EQ(read_npy(file("out")).shape, (Shape{2, 4, 9, 8}));
  EXPECT_EQ(read_npy(file("lse")).shape, (Shape{2, 4, 9}));
  write("query", {9, 4, 16});
  write("key", {13, 2, 16});
  write("value", {13, 2, 8});
  expect_checked({"--output", file("out").string(), "--lse", file("lse").string(), "--layout", "bshd"});
  EXPECT_EQ(read_npy(file("out")).shape, (Shape{9, 4, 8}));
  EXPECT_EQ(read_npy(file("lse")).shape, (Shape{4, 9}));
}

TEST_F(ToolRun, ReadsEveryOrderOfBytesAndAxes) {
  expect_checked({"--output", file("plain").string(), "--causal", "--align", "bottom-right"});
  const std::vector<float> plain = read_npy(file("plain")).values;

  // The same query with its first axis running fastest, and with its bytes turned round.
  const Shape shape = {2, 4, 9, 16};
  const std::vector<float> values = read_npy(file("query")).values;
  std::vector<float> turned(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t d = i % 16, r = i / 16 % 9, h = i / 144 % 4, b = i / 576;
    turned[b + 2 * (h + 4 * (r + 9 * d))] = values[i];
  }
  std::string content = npy::make_header(ElementType::kFloat32, shape);
  content.replace(content.find("False"), 5, "True ");
  content.append(reinterpret_cast<const char*>(turned.data()), turned.size() * sizeof(float));
  write_file(file("query"), content);
  expect_checked({"--output", file("fortran").string(), "--causal", "--align", "bottom-right"});
  const std::vector<float> fortran = read_npy(file("fortran")).values;

  content = npy::make_header(ElementType::kFloat32, shape);
  const std::size_t order = content.find_first_of("<>");
  content[order] = content[order] == '<' ? '>' : '<';
  for (const float value : values) {
    std::array<char, 4> bytes{};
    std::memcpy(bytes.data(), &value, 4);
    content.append(bytes.rbegin(), bytes.rend());
  }
  write_file(file("query"), content);
  expect_checked({"--output", file("swapped").string(), "--causal", "--align", "bottom-right"});
  const std::vector<float> swapped = read_npy(file("swapped")).values;

  ASSERT_EQ(plain.size(), fortran.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], fortran[i], 1e-5F);
  EXPECT_EQ(plain, swapped);
}

TEST_F(ToolRun, StoresTypesAsAsked) {
  const Shape shape = {3, 8};
  std::vector<std::uint16_t> half;
  std::vector<double> wide;
  for (const float value : noise(shape, 5)) {
    half.push_back(float_to_half(value));
    wide.push_back(static_cast<double>(value) * 1.0000001);
  }
  for (const char* const name : {"query", "key", "value"})
    write_npy(file(name), ElementType::kFloat16, shape, half);
  expect_checked({"--output", file("out").string()});
  EXPECT_EQ(read_npy(file("out")).type, ElementType::kFloat16);
  expect_checked({"--output", file("out").string(), "--type", "f32"});
  EXPECT_EQ(read_npy(file("out")).type, ElementType::kFloat32);
  write_npy(file("key"), ElementType::kFloat64, shape, wide);
  expect_checked({"--output", file("out").string()});
  EXPECT_EQ(read_npy(file("out")).type, ElementType::kFloat32);
  for (const char* const kernel : {"lane", "tile"}) {
    expect_checked({"--output", file("out").string(), "--type", "bf16", "--kernel", kernel});
    EXPECT_EQ(read_npy(file("out")).type, ElementType::kFloat32);
  }
}

TEST_F(ToolRun, TakesKeyLengthsAndEmptyArrays) {
  write_npy(file("lengths"), ElementType::kInt64, {2}, std::vector<std::int64_t>{13, 0});
  expect_checked({"--output", file("out").string(), "--kv-lengths", file("lengths").string()});
  const Array out = read_npy(file("out"));
  for (std::size_t i = out.values.size() / 2; i < out.values.size(); ++i) EXPECT_EQ(out.values[i], 0.0F);
  write("key", {2, 2, 0, 16});
  write("value", {2, 2, 0, 8});
  expect_checked({"--lse", file("lse").string()});
  for (const float value : read_npy(file("lse")).values)
    EXPECT_EQ(value, -std::numeric_limits<float>::infinity());
  write("query", {2, 4, 0, 16});
  expect_checked({"--output", file("out").string()});
  EXPECT_EQ(read_npy(file("out")).shape, (Shape{2, 4, 0, 8}));
}

TEST_F(ToolRun, RefusesBadFilesAndLeavesNoOutput) {
  write_file(file("out"), "kept");
  const std::string sound = read_file(file("query"));
  const std::size_t files = folder_.file_count();
  const std::vector<std::string> more = {"--output", file("out").string()};
  write_file(file("query"), sound.substr(0, sound.size() - 5));
  expect_refusal(words(more), 2, "truncated");
  write_file(file("query"), "not an array");
  expect_refusal(words(more), 2, "not a .npy file");
  write_npy(file("query"), ElementType::kInt32, {2, 4, 9, 16}, std::vector<std::int32_t>(1152));
  expect_refusal(words(more), 2, "int32");
  write("query", {4, 9, 16});
  expect_refusal(words(more), 2, "rank");
  write("query", {2, 4, 9, 15});
  expect_refusal(words(more), 2, "head dimension: 15 and 16");
  write("query", {2, 3, 9, 16});
  expect_refusal(words(more), 2, "no multiple");
  write("query", {3, 4, 9, 16});
  expect_refusal(words(more), 2, "batch size: 3 and 2");
  write_file(file("query"), sound);
  write_npy(file("lengths"), ElementType::kInt32, {2}, std::vector<std::int32_t>{13, 14});
  std::vector<std::string> with_lengths = words(more);
  with_lengths.insert(with_lengths.end(), {"--kv-lengths", file("lengths").string()});
  expect_refusal(with_lengths, 2, "14 at index 1");
  expect_refusal(words({"--output", (folder_ / "missing/out.npy").string()}), 2, "cannot be written");
  expect_refusal(words({"--output", folder_.path().string()}), 2, "not a regular file");
  std::vector<std::string> no_device = words(more);
  no_device.insert(no_device.end(), {"--device", "no such device"});
  expect_refusal(no_device, 3, "'no such device'");
  // What the device cannot do is told from what nothing can.
  expect_refusal(words({"--kernel", "matrix"}), 3, "matrix: takes float16");
  expect_refusal(words({"--softcap", "1e31"}), 2, "--softcap '1e31': softcap is 1e+31");
  EXPECT_EQ(read_file(file("out")), "kept");
  EXPECT_EQ(folder_.file_count(), files + 1);  // the lengths, and no temporary file
}

TEST_F(ToolRun, ReportsJson) {
  const ToolResult result = run_tool(words({"--output", file("out").string(), "--check", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["output"]["shape"], json({2, 4, 9, 8}));
  EXPECT_TRUE(report["check"]["passed"].get<bool>());
  EXPECT_LE(report["check"]["largest_share_of_tolerance"].get<double>(), 1.0);
  EXPECT_GT(report["execute_ms"].get<double>(), 0.0);
}

TEST(ToolBench, ReportsAndFlagsNothing) {
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  const TempFolder folder;
  const std::string file = (folder / "report.json").string();
  const std::vector<std::string> words = {
      "bench", "b1 h2 40x40 d16 causal", "b1 h2 q1 kv64 d16 f16", "--repeat", "5", "--output", file,
      "--json"};
  const ToolResult result = run_tool(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.empty());
  EXPECT_TRUE(result.err.empty()) << "no progress in a pipe";
  const json report = json::parse(read_file(file));
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

TEST(ToolBench, Plots) {
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  if (!bench::check_plot_support().ok()) GTEST_SKIP() << bench::check_plot_support().error().message;
  const TempFolder folder;
  for (const char* const name : {"a.png", "a.svg"}) {
    const ToolResult result =
        run_tool({"bench", "b1 h2 40x40 d16", "--repeat", "3", "--plot", (folder / name).string()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("1 measured"), std::string::npos) << "the table comes too";
  }
  EXPECT_EQ(read_file(folder / "a.png").rfind("\x89PNG", 0), 0U);
  const std::string svg = read_file(folder / "a.svg");
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  // A report without a figure leaves the old picture alone.
  expect_refusal({"bench", "h16 8192x8192 d64", "--max-seconds", "0.05", "--json", "--output",
                  (folder / "report.json").string(), "--plot", (folder / "a.svg").string()},
                 1, "nothing to plot");
  EXPECT_EQ(read_file(folder / "a.svg"), svg);
  EXPECT_EQ(folder.file_count(), 3U);
}

TEST(ToolBench, SkipsWhatDoesNotFitAndSaysHowLongItWouldTake) {
  if (!has_device()) GTEST_SKIP() << "the tool finds no Vulkan device";
  const ToolResult result =
      run_tool({"bench", "b1", "h64", "8192x8192", "d64", "f16", "--max-seconds", "0.05", "--csv"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(",skipped,"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace vkattn::tests

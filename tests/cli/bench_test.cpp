// The benchmark without a device: statistics, counts of work, suites, peaks and reports.
#include "bench.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "console.hpp"
#include "plot_data.hpp"
#include "report.hpp"
#include "suites.hpp"
#include "support/problem_text.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

TEST(Statistics, PercentilesLieBetweenNeighbours) {
  const std::array sorted = {1.0, 2.0, 3.0, 4.0, 5.0};
  EXPECT_DOUBLE_EQ(bench::percentile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(bench::percentile(sorted, 0.5), 3);
  EXPECT_DOUBLE_EQ(bench::percentile(sorted, 0.05), 1.2);
  EXPECT_DOUBLE_EQ(bench::percentile(sorted, 1), 5);
  const std::array samples = {9.0, 1.0, 5.0, 3.0};
  const bench::Statistics statistics = bench::summarize(samples);
  EXPECT_EQ(statistics.count, 4U);
  EXPECT_DOUBLE_EQ(statistics.median, 4);
  EXPECT_DOUBLE_EQ(statistics.minimum, 1);
  EXPECT_DOUBLE_EQ(statistics.maximum, 9);
  EXPECT_EQ(bench::summarize({}).count, 0U);
  EXPECT_DOUBLE_EQ(bench::summarize(std::array{7.0}).p95, 7);
}

/// The peaks are added one by one, because GCC 12 warns about initializer lists of them.
bench::MatrixPeak matrix_peak(const char* operand, double rate, const char* missing) {
  bench::MatrixPeak peak;
  peak.operand = operand;
  peak.accumulator = "f32";
  peak.peak.rate = rate;
  peak.peak.variant = "16x16x16";
  peak.missing = missing;
  return peak;
}

/// The visible pairs of one head, and the keys that some row sees, counted one by one.
std::pair<double, double> counted(const AttentionDesc& desc, std::int64_t keys) {
  const std::int64_t offset = desc.align == Align::kBottomRight ? keys - desc.query_length
                              : desc.align == Align::kOffset    ? desc.offset
                                                                : 0;
  double pairs = 0;
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < desc.query_length; ++i) {
    for (std::int64_t j = 0; j < keys; ++j) {
      if (desc.causal && j > i + offset) continue;
      if (desc.window.left != kUnlimited && j < i + offset - desc.window.left) continue;
      if (desc.window.right != kUnlimited && j > i + offset + desc.window.right) continue;
      ++pairs;
      seen.insert(j);
    }
  }
  return {pairs, static_cast<double>(seen.size())};
}

TEST(Work, CountsWhatIsVisible) {
  for (const char* const lengths : {"1x1", "5x5", "3x9", "9x3", "7x0", "0x7"}) {
    for (const char* const mask :
         {"", "causal", "causal align=bottom-right", "causal align=2", "causal align=-2", "causal align=-100",
          "causal align=100", "window=1,2", "window=0,0 align=bottom-right", "causal window=2,-1",
          "window=-1,1", "window=3,0 align=-4", "window=1,1 align=100", "window=100,100"}) {
      const Problem problem = parsed(std::string("h2 d8 dv4 ") + lengths + " " + mask);
      const auto [pairs, keys] = counted(problem.desc, problem.desc.kv_length);
      const bench::Work work = bench::count_work(problem);
      EXPECT_DOUBLE_EQ(work.visible_pairs, 2 * pairs) << lengths << " " << mask;
      EXPECT_DOUBLE_EQ(work.flops, 2 * 2 * pairs * 12) << lengths << " " << mask;
      const double rows = 2 * static_cast<double>(problem.desc.query_length);
      EXPECT_DOUBLE_EQ(work.bytes, rows * 12 * 4 + 2 * keys * 12 * 4) << lengths << " " << mask;
    }
  }
}

TEST(Work, CountsLengthsCachesMasksAndBlocks) {
  struct Case {
    const char* problem;
    double visible_pairs, bytes;
  };
  for (const Case& c :
       {Case{"b2 hq4 hkv2 3x8 d8 f16 lse kv_lengths=5,0", 4 * 3 * 5,
             2 * 4 * 3 * (16 * 2 + 4) + 2 * 5 * 16 * 2},
        Case{"4x64 d8 mask=bits", 4 * 48, 2 * 4 * 32 + 2 * 64 * 32 + 4 * 8},
        Case{"2x3 d64 key=q8_0 value=q4_0", 2 * 3, 2 * 2 * 64 * 4 + 3 * (2 * 34 + 2 * 18)},
        Case{"2x3 d8 weights=scores", 2 * 3, 2 * 2 * 32 + 2 * 3 * 32 + 2 * 3 * 4},
        Case{"b2 h2 4x8 d8 query_lengths=3,0", 2 * 3 * 8, 0},
        Case{"b2 h2 4x8 d8 sequences query_lengths=4,2 kv_lengths=8,3", 2 * (4 * 8 + 2 * 3), 0},
        Case{"b2 h2 4x8 d8 sequences=queries query_lengths=4,2 page=4 kv_lengths=8,3", 2 * (4 * 8 + 2 * 3),
             0},
        Case{"4x50 d8 ring=16", 4 * 16, 0},
        Case{"4x50 d8 ring=16 causal align=bottom-right", 13 + 14 + 15 + 16, 0},
        Case{"4x50 d8 page=16", 4 * 50, 0}, Case{"4x64 d8 mask=bits hidden=0.75", 64, 0}}) {
    const bench::Work work = bench::count_work(parsed(c.problem));
    EXPECT_DOUBLE_EQ(work.visible_pairs, c.visible_pairs) << c.problem;
    if (c.bytes > 0) {
      EXPECT_DOUBLE_EQ(work.bytes, c.bytes) << c.problem;
    }
  }
  const bench::Work huge = bench::count_work(parsed("b1 h1 q1073741824 kv1073741824 d64 causal"));
  EXPECT_NEAR(huge.visible_pairs, 0x1p59, 0x1p30);
}

TEST(Work, OfABackwardPassIsFiveProductsAndItsGradients) {
  const std::string text = "b2 hq4 hkv2 7x9 d8 dv6 f16 causal mask=f32:bhqk hidden=0";
  const bench::Work forward = bench::count_work(parsed(text + " lse"));
  const bench::Work backward = bench::count_work(parsed(text + " backward"));
  EXPECT_DOUBLE_EQ(backward.visible_pairs, forward.visible_pairs);
  EXPECT_DOUBLE_EQ(backward.flops, 2 * forward.visible_pairs * (3 * 8 + 2 * 6));
  const double rows = 2 * 4 * 7, keys = 2 * 2 * 7, mask = 2 * 4 * 7 * 9 * 4;  // no row sees the last two keys
  EXPECT_DOUBLE_EQ(backward.bytes - forward.bytes, (rows + keys) * (8 + 6) * 2 + mask);
  const Problem piece = bench::shrink(parsed("b2 h8 200x300 d16 backward"), 5e6);
  EXPECT_EQ(piece.operation, bench::Operation::kBackward);
  EXPECT_GE(bench::count_work(piece).flops, 5e6);
  EXPECT_LT(bench::count_work(piece).flops, 2e7);
}

TEST(Work, OfAMatrixMultiplicationIsItsSizes) {
  const bench::Work work =
      bench::count_work(parsed("matmul b2 4x5x32 f16 b=q8_0 output=f32 bias=f32 accumulates"));
  EXPECT_DOUBLE_EQ(work.flops, 2 * 2 * 4 * 5 * 32);
  EXPECT_DOUBLE_EQ(work.bytes, 2 * (4 * 32 * 2 + 5 * 34 + 2 * 4 * 5 * 4) + 5 * 4);
  EXPECT_DOUBLE_EQ(bench::count_work(parsed("matmul 1x5x32 a=ones")).flops, 5 * 32);
  for (const char* const text :
       {"matmul b3 512x512x512", "matmul 1x4096x4096 b=q8_0", "matmul 5x7x100000 f16"}) {
    const Problem whole = parsed(text);
    const Problem piece = bench::shrink(whole, 1e5);
    EXPECT_TRUE(validate(piece.matmul).ok()) << text;
    EXPECT_GE(bench::count_work(piece).flops, 1e5) << text;
    EXPECT_LT(bench::count_work(piece).flops, 1e7) << text;
    EXPECT_EQ(bench::shrink(whole, 1e12).matmul, whole.matmul) << text;
  }
}

TEST(Work, ShrinksToSoundSmallerProblems) {
  for (const char* const text :
       {"b2 h12 1024x4096 d64 causal align=bottom-right", "h1 q1 kv131072 d576 dv512", "b1 h1 4x4 d1",
        "b1 h16 999x999 d80 layout=packed", "b1 h16 999x77 d80 layout=bshd pad=3",
        "b4 h8 512x512 d64 query_lengths=512,9,100,0 kv_lengths=9,512,100,512 mask=bits:bhqk",
        "b3 h2 512x600 d32 sequences query_lengths=512,9,300 kv_lengths=600,10,600 alibi",
        "b3 h2 512x600 d32 sequences=queries query_lengths=512,1,9 kv_lengths=600,10,600 page=16",
        "b4 h2 1x8192 d64 ring=512 kv_lengths=8192,20,0,600"}) {
    const Problem whole = parsed(text);
    const double flops = bench::count_work(whole).flops;
    for (const double share : {2.0, 0.3, 0.01, 1e-5}) {
      const Problem piece = bench::shrink(whole, flops * share);
      const Result<void> status = validate(piece.desc);
      EXPECT_TRUE(status.ok()) << text << ": " << (status.ok() ? "" : status.error().message);
      EXPECT_LE(bench::count_work(piece).flops, flops) << text;
      EXPECT_GT(bench::count_work(piece).flops, 0) << text;
      if (share > 1) {
        EXPECT_EQ(to_string(piece), to_string(whole));
      }
      // The printed string of the piece gives the piece.
      EXPECT_EQ(parsed(to_string(piece)).desc, piece.desc) << to_string(piece);
    }
  }
}

TEST(Suites, HoldSoundProblemsWithShortNames) {
  ASSERT_FALSE(bench::suites().empty());
  for (const char* const name :
       {"smoke", "llm", "diffusion", "vision", "game", "features", "training", "projections", "large"}) {
    ASSERT_NE(bench::find_suite(name), nullptr) << name;
  }
  EXPECT_EQ(bench::find_suite("smok"), nullptr);
  std::set<std::string_view> names;
  for (const bench::Suite& suite : bench::suites()) {
    EXPECT_FALSE(suite.problems.empty());
    for (const bench::SuiteProblem& entry : suite.problems) {
      EXPECT_TRUE(names.insert(entry.name).second) << entry.name << " is there twice";
      EXPECT_LE(entry.name.size(), 28U) << entry.name;
      const Problem problem = parsed(entry.problem);
      EXPECT_GT(bench::count_work(problem).flops, 0) << entry.name;
    }
  }
}

TEST(Peaks, HoldCachedDataAgainstCaches) {
  bench::Peaks peaks;
  peaks.memory = {{1000, 90, 100}, {10000, 50, 40}, {100000, 10, 12}};
  EXPECT_DOUBLE_EQ(peaks.memory_rate(10), 100);
  EXPECT_DOUBLE_EQ(peaks.memory_rate(9999), 100);
  EXPECT_DOUBLE_EQ(peaks.memory_rate(10000), 50);
  EXPECT_DOUBLE_EQ(peaks.memory_rate(1e9), 12);
  EXPECT_DOUBLE_EQ(bench::Peaks{}.memory_rate(1e9), 0);
}

TEST(Peaks, HoldMatrixKernelsAgainstMatrixUnits) {
  bench::Peaks peaks;
  peaks.multiply_add.rate = 10;
  peaks.matrix.push_back(matrix_peak("f16", 100, ""));
  peaks.matrix.push_back(matrix_peak("bf16", 90, ""));
  EXPECT_DOUBLE_EQ(peaks.compute_rate("lane", "f16"), 10);
  EXPECT_DOUBLE_EQ(peaks.compute_rate("matrix", "f16"), 100);
  EXPECT_DOUBLE_EQ(peaks.compute_rate("matrix", "bf16"), 90);
  EXPECT_DOUBLE_EQ(peaks.compute_rate("matrix", "f32"), 10);
}

/// A report with a row for each outcome.
bench::Report made_up_report() {
  bench::Report report;
  report.version = "1.2.3";
  report.command = "vkattn bench";
  report.device.device_name = "Example \"GPU\", model 1\xff";
  report.device.driver_name = "driver";
  report.peaks.multiply_add = {12.5e12, "24 chains, workgroups of 256"};
  report.peaks.matrix.push_back(matrix_peak("f16", 100e12, ""));
  report.peaks.matrix.push_back(matrix_peak("bf16", 0, "left out"));
  report.peaks.copy = report.peaks.read = {900e9, "8 x 16 bytes a lane, workgroups of 256"};
  report.peaks.memory = {{1U << 20U, 4e12, 5e12}, {1U << 29U, 800e9, 900e9}};
  for (const bench::Outcome outcome :
       {bench::Outcome::kMeasured, bench::Outcome::kSkipped, bench::Outcome::kRefused, bench::Outcome::kWrong,
        bench::Outcome::kFailed}) {
    bench::Row row;
    row.name = "a name, with a comma and \"quotes\", that is longer than the first column";
    row.problem = "b1 h8 512x512 d64";
    row.outcome = outcome;
    row.message =
        "a reason of many words that has to be broken so that it stays inside of the width of a terminal";
    row.kernel = "lane";
    row.has_score_function = outcome == bench::Outcome::kFailed;
    row.work = bench::count_work(parsed(row.problem));
    row.time_ns = bench::summarize(std::array{1e6, 2e6, 3e6});
    row.record = {700, 0};
    row.predicted_ns = 12e9;
    row.check.rows_checked = 64;
    row.compute_share = outcome == bench::Outcome::kMeasured ? 1.01 : 0;
    report.rows.push_back(row);
  }
  return report;
}

std::vector<bench::NamedProblem> named_problems(const bench::Report& report) {
  std::vector<bench::NamedProblem> problems;
  for (const bench::Row& row : report.rows) problems.push_back({row.name, {}});
  return problems;
}

/// The whole text, except for the commands that repeat a row, because they stay in one line.
std::string text_of(const bench::Report& report, std::size_t width) {
  const bench::TextReport text(report, named_problems(report), width);
  std::string all = text.head();
  for (const bench::Row& row : report.rows) all += text.row(row);
  return all + text.foot();
}

TEST(Report, TextFitsEveryTerminal) {
  bench::Report report = made_up_report();
  for (const std::size_t width : {std::size_t{72}, std::size_t{80}, std::size_t{100}, std::size_t{160}}) {
    for (const std::vector<std::string>& kernels :
         {std::vector<std::string>{""}, std::vector<std::string>{"lane", "unfused"}}) {
      report.kernels = kernels;
      for (const std::string& line : lines_of(text_of(report, width))) {
        if (has(line, "repeat with: ")) continue;
        EXPECT_LE(console::display_width(line), width) << line;
      }
    }
  }
}

TEST(Report, TextNamesEveryOutcome) {
  std::string all = text_of(made_up_report(), 100);
  std::replace(all.begin(), all.end(), '\n', ' ');
  for (const char* const part :
       {"TFLOP/s", "above 100 %", "skipped: one run would take about 12.0 s", "refused: a reason",
        "WRONG: ", "repeat with: vkattn bench \"b1 h8 512x512 d64\" --kernel lane",
        "FAILED: ", "5 problems: 1 measured, 1 skipped",
        "recording took 700 ns of the host's time, without an allocation"}) {
    EXPECT_TRUE(has(all, part)) << all;
  }
}

// The least important columns are left out first: the percentiles, then the rates whose shares are shown.
TEST(Report, NarrowTablesKeepWhatSaysMost) {
  const bench::Report report = made_up_report();
  const auto head = [&](std::size_t width) {
    const std::string all = bench::TextReport(report, named_problems(report), width).head();
    return all.substr(all.rfind("problem  "));
  };
  EXPECT_TRUE(has(head(160), "     p5      p95")) << head(160);
  EXPECT_TRUE(has(head(90), "  spread  TFLOP/s  of peak    GB/s  of peak  kernel\n")) << head(90);
  EXPECT_TRUE(has(head(72), "  spread  of FLOP/s  of GB/s  kernel\n")) << head(72);
  bench::Report plain = report;
  plain.peaks = {};
  const std::string without = bench::TextReport(plain, named_problems(plain), 80).head();
  EXPECT_TRUE(has(without, "GFLOP/s    GB/s  kernel\n")) << without;
}

TEST(Report, MarkdownIsATable) {
  bench::Report report = made_up_report();
  report.rows.back().message = "a | b\nc";
  const std::vector<std::string> lines = lines_of(bench::to_markdown(report));
  ASSERT_EQ(lines.size(), 9U);  // the device, a blank line, two lines of the head, five rows
  EXPECT_TRUE(has(lines[0], "`vkattn bench`"));
  const auto bars = [](const std::string& line) { return std::count(line.begin(), line.end(), '|'); };
  for (std::size_t i = 2; i < 8; ++i) EXPECT_EQ(bars(lines[i]), 10) << lines[i];
  EXPECT_TRUE(has(lines[4], "| 2.00 ms |")) << lines[4];
  EXPECT_TRUE(has(lines.back(), "| failed: a \\| b?c |")) << lines.back();
}

TEST(Report, WhatFailedCanBeRepeated) {
  bench::Report report = made_up_report();
  report.kernels = {"lane", "tile"};
  report.score_options = " --score own.glsl --score-buffer ids=ids.npy";
  report.repeat_options = " --device 1 --tuning t.json";
  const bench::TextReport text(report, named_problems(report));
  bench::Row row = report.rows.back();
  const std::string command = "  repeat with: vkattn bench \"b1 h8 512x512 d64\"";
  EXPECT_TRUE(has(text.row(row), command + " --kernel lane" + report.score_options + report.repeat_options));
  row.has_score_function = false;
  row.kernel.clear();  // failed before there was a plan
  row.kernel_index = 1;
  EXPECT_TRUE(has(text.row(row), command + " --kernel tile" + report.repeat_options));
  report.kernels = {""};
  row.kernel_index = 0;
  EXPECT_TRUE(has(text.row(row), command + report.repeat_options));
}

TEST(Report, SeveralKernelsAreComparedWithTheFirst) {
  bench::Report report = made_up_report();
  report.kernels = {"lane", "unfused", "tile"};
  const std::vector<bench::NamedProblem> problems = named_problems(report);
  report.rows.resize(1);
  report.rows.push_back(report.rows.front());
  report.rows.back().kernel = "unfused";
  report.rows.back().kernel_index = 1;
  report.rows.back().time_ns = bench::summarize(std::array{4e6, 5e6, 9e6});
  const bench::TextReport text(report, problems, 100);
  const std::string head = text.head(), first = text.row(report.rows[0]), second = text.row(report.rows[1]);
  const std::string columns = head.substr(head.rfind("problem  "));
  EXPECT_TRUE(has(columns, "kernel   to lane\n"));
  const std::size_t at = columns.find("to lane");
  EXPECT_EQ(first.find("1.00 x\n"), at) << columns << first;
  EXPECT_EQ(second.find("0.400 x\n"), at) << columns << second;  // slower
  EXPECT_TRUE(has(text.foot(), "2 measurements: 2 measured"));
  report.rows[0].outcome = bench::Outcome::kRefused;
  EXPECT_TRUE(has(text.row(report.rows[1]), "unfused  -\n"));
}

TEST(Report, JsonHasUnitsInItsNames) {
  const nlohmann::json json = nlohmann::json::parse(bench::to_json(made_up_report()));
  EXPECT_EQ(json["version"], "1.2.3");
  ASSERT_EQ(json["results"].size(), 5U);
  const nlohmann::json& row = json["results"][0];
  EXPECT_EQ(row["outcome"], "measured");
  EXPECT_DOUBLE_EQ(row["median_ms"].get<double>(), 2.0);
  EXPECT_TRUE(row["above_peak"].get<bool>());
  for (const char* const field : {"p5_ms", "p95_ms", "gflops_per_second", "gbytes_per_second",
                                  "host_peak_bytes", "share_of_compute_peak", "share_of_memory_peak", "runs",
                                  "kernel", "problem", "record_ns", "record_allocations"}) {
    EXPECT_TRUE(row.contains(field)) << field;
  }
  EXPECT_FALSE(json["results"][1].contains("median_ms"));
  EXPECT_DOUBLE_EQ(json["results"][1]["predicted_ms"].get<double>(), 12000.0);
  EXPECT_DOUBLE_EQ(json["peaks"]["multiply_add_f32"]["flops_per_second"].get<double>(), 12.5e12);
}

// The peaks were measured in float32.
TEST(Report, Float16ArithmeticHasNoShareOfAPeak) {
  bench::Report report = made_up_report();
  report.rows.resize(1);
  report.options.plan.arithmetic_type = DataType::kFloat16;
  bench::Row& row = report.rows.front();
  row.kernel = "tile";
  row.arithmetic_type = DataType::kFloat16;
  row.time_ns = bench::summarize(std::array{1e3});  // faster than the peak
  bench::set_shares(row, report.peaks);
  EXPECT_EQ(row.compute_share, 0);
  EXPECT_GT(row.memory_share, 0);
  row.memory_share = 0.25;
  EXPECT_FALSE(row.above_peak());
  const bench::TextReport text(report, named_problems(report), 100);
  EXPECT_TRUE(has(text.head(), "float16 arithmetic may exceed multiply-add f32: no share of it is given"));
  EXPECT_TRUE(has(text.row(row), "     -  ")) << text.row(row);
  EXPECT_TRUE(has(text.row(row), "25 %")) << text.row(row);
  const nlohmann::json json = nlohmann::json::parse(bench::to_json(report))["results"][0];
  EXPECT_TRUE(json["share_of_compute_peak"].is_null()) << json;
  EXPECT_DOUBLE_EQ(json["share_of_memory_peak"].get<double>(), 0.25);
  EXPECT_FALSE(json["above_peak"].get<bool>());
  EXPECT_EQ(json["arithmetic"], "f16");
  const std::vector<std::string> lines = lines_of(bench::to_csv(report));
  EXPECT_TRUE(has(lines.front(), ",kernel,arithmetic,runs,"));
  EXPECT_TRUE(has(lines.back(), ",tile,f16,1,"));
  EXPECT_EQ(bench::plot_data(report).points.at(0).limit, "");
  EXPECT_EQ(bench::plot_data(report).points.at(0).roof_share, 0);
}

TEST(Report, BackwardPassesAreComparedWithTheirForwardPasses) {
  bench::Report report = made_up_report();
  report.rows.resize(1);
  bench::Row& row = report.rows.front();
  row.compute_share = 0.5;
  row.forward_kernel = "matrix";
  row.forward_ns = 0.8e6;
  const bench::TextReport text(report, named_problems(report));
  EXPECT_TRUE(has(text.row(row), "  takes 2.50 times its forward pass, 800 us by matrix\n")) << text.row(row);
  const nlohmann::json json = nlohmann::json::parse(bench::to_json(report))["results"][0];
  EXPECT_DOUBLE_EQ(json["times_forward"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(json["forward_median_ms"].get<double>(), 0.8);
  EXPECT_EQ(json["forward_kernel"], "matrix");
  EXPECT_TRUE(has(lines_of(bench::to_csv(report)).back(), ",0.8,"));
}

TEST(Report, CsvHasAsManyFieldsInEveryLine) {
  const std::vector<std::string> lines = lines_of(bench::to_csv(made_up_report()));
  ASSERT_EQ(lines.size(), 6U);
  std::set<std::size_t> counts;
  for (const std::string& line : lines) {
    bool quoted = false;
    std::size_t fields = 1;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++fields;
    }
    EXPECT_FALSE(quoted) << line;
    counts.insert(fields);
  }
  EXPECT_EQ(counts.size(), 1U);
}

}  // namespace
}  // namespace vkattn::tests

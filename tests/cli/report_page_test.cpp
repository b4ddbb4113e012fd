// The page of `vkattn report` and its sentences, of reports that are made up.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <string>
#include <vector>

#include "json.hpp"
#include "picture/canvas.hpp"
#include "picture/charts.hpp"
#include "report/answers.hpp"
#include "report/page.hpp"
#include "report/steps.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

/// Reports step by step.
class ReportPage : public testing::Test {
 protected:
  ReportPage() {
    report_["device"] = Json::parse(R"({"name": "Fake", "kernels": [{"name": "lane", "available": true},
      {"name": "tile", "available": true}, {"name": "matrix", "available": false}]})");
    report_["steps"] = Json::array();
  }

  Json& add(const std::string& section, const std::string& name, const std::string& kernel,
            const std::string& status) {
    report_["steps"].push_back(Json{
        {"section", section}, {"name", name}, {"kernel", kernel}, {"status", status}, {"command", "vkattn"}});
    return report_["steps"].back();
  }
  void add_check(const std::string& name, const std::string& kernel, double share) {
    add("checks", name, kernel, share <= 1 ? "done" : "wrong")["data"]["results"] =
        Json::array({Json{{"outcome", "measured"}, {"check", Json{{"largest_share_of_tolerance", share}}}}});
  }
  void add_speed(const std::string& name, const std::string& kernel, const std::string& outcome, double ms) {
    add("kernels", name, kernel, outcome == "refused" ? "refused" : "done")["data"]["results"] =
        Json::array({Json{{"outcome", outcome}, {"kernel", kernel}, {"median_ms", ms}}});
  }
  void add_left_out(const std::string& section, const std::string& name, const std::string& kernel = "lane") {
    add(section, name, kernel, "left out")["out_of_time"] = true;
  }
  [[nodiscard]] std::string page() const { return cli::report_page(report_, ""); }
  [[nodiscard]] std::string verdict() const { return cli::verdict(report_); }

  Json report_;
};

TEST_F(ReportPage, VerdictIsOneSentence) {
  EXPECT_EQ(verdict(), "Nothing was checked");
  add_left_out("checks", "p");
  EXPECT_EQ(verdict(), "Nothing was checked; 1 check did not fit the time");
  add_check("p", "lane", 0.49);
  add_left_out("checks", "q");
  EXPECT_EQ(verdict(),
            "Everything that was checked is right; tile was not checked; 2 checks did not fit the time");
  add_check("p", "tile", 1);
  add_speed("1024 queries", "lane", "measured", 2);
  EXPECT_TRUE(has(verdict(), "is right; 2 checks did not")) << "one kernel is not the fastest of any";
  add_speed("1024 queries", "tile", "measured", 1);
  EXPECT_TRUE(has(verdict(), "is right; tile is the fastest with 1024 queries; 2 checks did not"));
  add_speed("one query", "lane", "skipped", 0);
  add_speed("one query", "tile", "measured", 3);
  EXPECT_TRUE(has(verdict(), "is right; tile is the fastest; 2 checks"));
  add_left_out("tune", "a");
  EXPECT_TRUE(has(verdict(), "2 checks and 1 other step did not fit the time"));
}

TEST_F(ReportPage, VerdictNamesTheFastestOfEachProblemWhereTheyDiffer) {
  add_speed("1024 queries", "lane", "measured", 1);
  add_speed("1024 queries", "tile", "measured", 2);
  add_speed("one query", "lane", "measured", 2);
  add_speed("one query", "tile", "measured", 1);
  add_speed("one query", "matrix", "refused", 0);
  EXPECT_EQ(verdict(), "Nothing was checked; lane is the fastest with 1024 queries, tile with one query");
}

TEST_F(ReportPage, VerdictSaysWhatWentWrong) {
  add_check("p", "lane", 3.2);
  add_check("q", "lane", 0.1);
  add_check("p", "tile", 0.2);
  add("checks", "q", "tile", "hung");
  add_left_out("prefill", "d64", "");
  EXPECT_EQ(
      verdict(),
      "2 of 5 steps went wrong (1 wrong, 1 hung; of the kernels lane, tile); 2 checks are right; 1 step did "
      "not fit the time");
  const std::string text = page();
  EXPECT_TRUE(has(text, "<p class=\"verdict bad\">2 of 5 steps went wrong"));
  EXPECT_TRUE(has(text, "wrong, largest error 3.20 of its tolerance"));
  EXPECT_LT(text.find("class=\"verdict"), text.find("<h2>")) << "it is at the top";
}

TEST_F(ReportPage, VerdictOfNoDeviceHasItsReason) {
  report_["device"] = nullptr;
  add("device", "devices", "", "failed")["message"] = "no Vulkan";
  EXPECT_EQ(verdict(), "No device was found: no Vulkan");
  EXPECT_TRUE(has(page(), "No device was found: no Vulkan."));
}

TEST_F(ReportPage, MachineIsNamedWithItsLoad) {
  EXPECT_EQ(cli::machine_text(report_), "");
  report_["machine"] = Json{{"cores", 16}, {"load_at_begin", 0.25}, {"load_at_end", 1.5}};
  EXPECT_EQ(cli::machine_text(report_), "16 cores, a load of 0.2 at the beginning and of 1.5 at the end");
  report_["machine"]["load_at_begin"] = 9;
  EXPECT_TRUE(
      has(page(), "a load of 9.0 at the beginning and of 1.5 at the end: other programs were running"));
  report_["machine"] = Json{{"cores", 1}};
  EXPECT_EQ(cli::machine_text(report_), "1 core");
}

TEST_F(ReportPage, HeadingsHaveSomethingBeneath) {
  for (const char* const section : {"checks", "kernels", "peaks", "statistics", "prefill", "decode", "fixed",
                                    "splits", "backward", "matmul", "tune"})
    add_left_out(section, "a");
  // One that was run and has nothing to show.
  add("peaks", "b", "", "failed")["data"]["peaks"] = Json::object();
  add("prefill", "b", "", "failed");
  const std::string text = page();
  std::vector<std::string> headings;
  const std::regex heading("<h2>([^<]*)</h2>");
  for (std::sregex_iterator it(text.begin(), text.end(), heading), end; it != end; ++it)
    headings.push_back((*it)[1]);
  EXPECT_EQ(headings, std::vector<std::string>{"Commands"});
  std::smatch empty;
  EXPECT_FALSE(std::regex_search(text, empty, std::regex("<(table|figure|ol|pre)\\b[^>]*>\\s*</")))
      << empty.str();
  EXPECT_TRUE(has(text, "Steps without time: checks 1, kernels 1, peaks 1, statistics 1, prefill 1"));
}

TEST_F(ReportPage, ReasonsStandBeneathTheTableOnce) {
  for (const char* const problem : {"p", "q"}) {
    add("checks", problem, "lane", "refused")["message"] = "too few rows";
    add_check(problem, "tile", 0.004);
  }
  Json& skipped = add("checks", "r", "tile", "done");
  skipped["data"]["results"] =
      Json::array({Json{{"outcome", "skipped"}, {"message", "skipped: it takes 9 s"}}});
  add_left_out("checks", "r", "lane");
  add_left_out("checks", "s", "lane");
  const std::string text = page();
  const std::string list =
      "<ol class=\"reasons\">\n<li id=\"checks1\">too few rows</li>\n"
      "<li id=\"checks2\">skipped: it takes 9 s</li>\n</ol>";
  EXPECT_TRUE(has(text, list));
  EXPECT_TRUE(has(text, "right, largest error below 0.01 of its tolerance"));
  EXPECT_TRUE(has(text, ">not checked <sup>"));
  EXPECT_FALSE(has(text, "<td>s</td>")) << "no row of nothing but what was left out";
}

/// What a step of a report prints that has time for everything, at length.
Json long_answer(const cli::ReportStep& step) {
  Json data;
  if (step.section == "statistics") {
    const Json statistics{{"Number of VGPRs", 128},    {"Number of SGPRs", 96},
                          {"Spilled VGPRs", 0},        {"Code size in bytes", 18324},
                          {"LDS size in bytes", 8192}, {"Subgroups per SIMD", 8}};
    for (const char* const pipeline : {"block_mask", "query_gradients", "key_gradients"})
      data["pipelines"].push_back(Json{{"pipeline", pipeline}, {"statistics", statistics}});
  }
  if (step.section == "checks" && step.kernel == "decode") return data;
  for (const std::string& word : step.arguments) {
    if (!has(word, " ")) continue;
    data["results"].push_back(Json{{"problem", word},
                                   {"outcome", "measured"},
                                   {"kernel", "matrix2"},
                                   {"median_ms", 12.345},
                                   {"p5_ms", 12.345},
                                   {"p95_ms", 12.345},
                                   {"gflops_per_second", 123456.7},
                                   {"gbytes_per_second", 2345.6},
                                   {"check", Json{{"largest_share_of_tolerance", 0.49}}}});
  }
  return data;
}

TEST_F(ReportPage, OfAWholeReportHasLessThan150KB) {
  report_["device"]["features"]["pipeline_statistics"] = true;
  for (const char* const kernel : {"decode", "matrix", "matrix2"})
    report_["device"]["kernels"].push_back(Json{{"name", kernel}, {"available", true}});
  for (const cli::ReportStep& step : cli::report_steps({}, report_["device"])) {
    const bool is_refused = step.section == "checks" && step.kernel == "decode";
    Json& added = add(step.section, step.name, step.kernel, is_refused ? "refused" : "done");
    added["data"] = step.section == "tune" ? Json(std::string(1500, '-')) : long_answer(step);
    if (is_refused)
      added["message"] = "holds 16 query rows of one KV head; here are as many as in " + step.name;
    std::string command = "vkattn";
    for (const std::string& word : step.arguments) command += " '" + word + "'";
    added["command"] = command;
  }
  ASSERT_GT(report_["steps"].size(), 140U);
  const std::string roofline = "<svg>" + std::string(40000, ' ') + "</svg>";  // PlotDrawing.SvgIsWhole
  const std::string text = cli::report_page(report_, roofline);
  EXPECT_LT(text.size(), 150000U);
  EXPECT_TRUE(has(text, "Gradients, 16 heads</text>")) << "text of charts is text";
}

/// The colours that elements of SVG have.
std::set<std::string> colors_of(const std::string& svg) {
  std::set<std::string> colors;
  const std::regex color("(?:fill|stroke)=\"(#[0-9a-f]{6})\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), color), end; it != end; ++it) colors.insert((*it)[1]);
  return colors;
}

TEST_F(ReportPage, IsDarkWhereTheSystemIsAndItsChartsToo) {
  picture::Chart chart{"Rates", "", "GB/s", {}};
  for (std::size_t i = 0; i < 6; ++i) chart.series.push_back({std::to_string(i), {{64, 1}, {128, 2}}, i});
  const std::string style = picture::page_style(), text = page();
  EXPECT_TRUE(has(text, style));
  EXPECT_TRUE(has(text, "background:var(--paper);color:var(--ink)"));
  const std::size_t dark = style.find("@media (prefers-color-scheme:dark)");
  ASSERT_NE(dark, std::string::npos);
  const std::set<std::string> colors = colors_of(picture::draw_chart_for_page(chart, "keys"));
  EXPECT_GE(colors.size(), 10U);
  for (const std::string& color : colors) {
    EXPECT_NE(style.find("[fill=\"" + color + "\"]{fill:#", dark), std::string::npos) << color;
    EXPECT_NE(style.find("[stroke=\"" + color + "\"]{stroke:#", dark), std::string::npos) << color;
  }
}

TEST(PageColors, AreReadOnBothPapers) {
  using picture::contrast, picture::kColorPairs;
  for (std::size_t i = 0; i < kColorPairs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(kColorPairs.at(i).light == kColorPairs.at(j).light) << i;
  }
  const auto on_dark = [](const picture::Color& color) {
    for (const auto& [light, dark] : kColorPairs) {
      if (light == color) return contrast(dark, kColorPairs[0].dark);
    }
    return 0.0;
  };
  EXPECT_GT(on_dark(picture::kInk), 12);
  EXPECT_GT(on_dark(picture::kSoftInk), 4.5);
  EXPECT_GT(on_dark(picture::kRoofInk), 4.5);
  for (const picture::Color& color : picture::kSeriesColors) EXPECT_GT(on_dark(color), 4.5);
  // Grids stay behind.
  EXPECT_LT(on_dark(picture::kGrid), 2);
  EXPECT_LT(on_dark(picture::kFaintGrid), on_dark(picture::kGrid));
  EXPECT_LT(on_dark(picture::kUnderRoof), 1.2);
}

}  // namespace
}  // namespace vkattn::tests

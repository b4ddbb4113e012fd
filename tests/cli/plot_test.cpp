// The benchmark's picture without a device: axes, labels, contents and files.
#include "plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "pictures.hpp"
#include "suites.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

#if defined(VKATTN_SANITIZED)
// Fontconfig, which cairo finds fonts with, loses patterns of its own.
extern "C" const char* __lsan_default_suppressions();   // NOLINT: the sanitizer's name
extern "C" const char* __lsan_default_suppressions() {  // NOLINT
  return "leak:libfontconfig.so";
}
#endif

namespace vkattn::tests {
namespace {

using bench::parse_problem;
using bench::Problem;

using bench::PlotData;
using picture::Format;
using picture::LogAxis;
using picture::Position;

TEST(PlotAxis, PlacesDecadesEvenly) {
  const LogAxis axis(0.1, 1000, 500, 100);
  EXPECT_NEAR(axis.position(0.1), 500, 1e-9);
  EXPECT_NEAR(axis.position(10), 300, 1e-9);
  EXPECT_NEAR(axis.position(1000), 100, 1e-9);
}

std::vector<std::string> tick_labels(const LogAxis& axis) {
  std::vector<std::string> labels;
  for (const picture::Tick& tick : axis.ticks()) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

TEST(PlotAxis, LabelsAsManyTicksAsThereIsRoomFor) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(tick_labels(LogAxis(0.15, 30, 0, 1000)), (Labels{"0.2", "0.5", "1", "2", "5", "10", "20"}));
  EXPECT_EQ(tick_labels(LogAxis(0.15, 30, 0, 150)), (Labels{"1", "10"}));
  EXPECT_EQ(tick_labels(LogAxis(1e-4, 1e4, 300, 100)), (Labels{"0.0001", "0.01", "1", "100", "10000"}));
  const std::vector<picture::Tick> ticks = LogAxis(1, 10, 0, 100).ticks();
  ASSERT_EQ(ticks.size(), 10U);
  for (std::size_t i = 0; i < ticks.size(); ++i) EXPECT_DOUBLE_EQ(ticks[i].value, static_cast<double>(i + 1));
}

/// Conditions that every placement of discs meets.
void expect_apart(const std::vector<Position>& places, double radius, const picture::Box& frame) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_GE(places[i].x, frame.x + radius);
    EXPECT_LE(places[i].x, frame.right() - radius);
    EXPECT_GE(places[i].y, frame.y + radius);
    EXPECT_LE(places[i].y, frame.bottom() - radius);
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_GE(std::hypot(places[i].x - places[j].x, places[i].y - places[j].y), 2 * radius)
          << i << ", " << j;
  }
}

constexpr picture::Box kFrame = {0, 0, 1000, 500};
constexpr double kRadius = 8.5;

std::vector<Position> random_points(std::size_t count, const picture::Box& where, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
  };
  std::vector<Position> points;
  for (std::size_t i = 0; i < count; ++i)
    points.push_back({between(where.x, where.right()), between(where.y, where.bottom())});
  return points;
}

TEST(PlotLabels, NeverHideEachOther) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    for (const picture::Box& where :
         {kFrame, picture::Box{400, 200, 100, 60}, picture::Box{980, 480, 20, 20}}) {
      const std::vector<Position> points = random_points(60, where, seed);
      const std::vector<Position> places = picture::spread(points, kRadius, kFrame);
      ASSERT_EQ(places.size(), points.size());
      expect_apart(places, kRadius, kFrame);
    }
  }
}

TEST(PlotLabels, StayAtTheirPointsWhereThereIsRoomAndFanOutWhereThereIsNone) {
  const std::vector<Position> far = {{100, 100}, {150, 100}, {900, 400}};
  const std::vector<Position> kept = picture::spread(far, kRadius, kFrame);
  for (std::size_t i = 0; i < far.size(); ++i)
    EXPECT_EQ(std::hypot(kept[i].x - far[i].x, kept[i].y - far[i].y), 0) << i;
  const std::vector<Position> equal(12, {500, 250});
  const std::vector<Position> places = picture::spread(equal, kRadius, kFrame);
  expect_apart(places, kRadius, kFrame);
  for (const Position& place : places) EXPECT_LT(std::hypot(place.x - 500, place.y - 250), 8 * kRadius);
}

TEST(PlotAxis, EndsOnLabelledTicks) {
  EXPECT_NEAR(picture::round_down(0.33), 0.2, 1e-12);
  EXPECT_NEAR(picture::round_up(0.33), 0.5, 1e-12);
  for (const double round : {1e-6, 0.05, 1.0, 20.0, 5000.0}) {
    EXPECT_NEAR(picture::round_down(round), round, 1e-9 * round);
    EXPECT_NEAR(picture::round_up(round), round, 1e-9 * round);
  }
  const std::vector<std::string> labels = tick_labels(LogAxis(0.2, 5000, 0, 300));
  EXPECT_EQ(labels.front(), "0.2");
  EXPECT_EQ(labels.back(), "5000");
  EXPECT_EQ(tick_labels(LogAxis(5e-9, 1, 300, 0)).front(), "5e-9");
}

/// A device with two roofs of each kind, and a suite's problems at 40 % of their roofs.
bench::Report made_up_report(std::string_view suite) {
  bench::Report report;
  report.version = "1.2.3";
  report.suite = suite;
  report.date = "2026-01-31 12:00 UTC";
  report.device.device_name = "Example \"GPU\" <1> & more\xff";
  report.device.driver_name = "driver";
  report.device.driver_info = "driver 4.5";
  report.peaks.multiply_add = {10e12, ""};
  bench::MatrixPeak matrix;
  matrix.operand = "f16";
  matrix.peak.rate = 80e12;
  report.peaks.matrix.push_back(matrix);
  matrix.peak.rate = 90e12;
  report.peaks.matrix.push_back(matrix);
  matrix.operand = "s8";
  matrix.peak.rate = 200e12;
  report.peaks.matrix.push_back(matrix);
  report.peaks.memory = {{1U << 20U, 2e12, 3e12}, {1U << 29U, 800e9, 900e9}};
  for (const bench::SuiteProblem& entry : bench::find_suite(suite)->problems) {
    const Problem problem = parse_problem(entry.problem).value();
    bench::Row row;
    row.name = entry.name;
    row.problem = to_string(problem);
    row.type = problem.desc.query.type;
    row.kernel = row.type == DataType::kFloat16 ? "matrix" : "tile";
    row.work = bench::count_work(problem);
    row.outcome = bench::Outcome::kMeasured;
    const double seconds = std::max(row.work.flops / report.peaks.compute_rate(row.kernel, name(row.type)),
                                    row.work.bytes / report.peaks.memory_rate(row.work.bytes)) /
                           0.4;
    row.time_ns = bench::summarize(std::array{seconds * 1e9});
    set_shares(row, report.peaks);
    report.rows.push_back(row);
  }
  return report;
}

TEST(PlotData, ShowsRoofsPointsAndWhatIsMissing) {
  bench::Report report = made_up_report("smoke");
  report.rows[2].outcome = bench::Outcome::kRefused;
  const PlotData data = bench::plot_data(report);
  ASSERT_EQ(data.compute.size(), 2U) << "integers are no roof over attention";
  EXPECT_EQ(data.compute[0].name, "matrix f16");
  EXPECT_DOUBLE_EQ(data.compute[0].rate, 90e12);
  EXPECT_EQ(data.compute[1].name, "multiply-add f32");
  ASSERT_EQ(data.memory.size(), 2U);
  EXPECT_DOUBLE_EQ(data.memory[0].rate, 900e9);
  EXPECT_EQ(data.memory[1].name, "cache");
  ASSERT_EQ(data.points.size(), report.rows.size() - 1);
  for (std::size_t i = 0; i < data.points.size(); ++i) {
    EXPECT_EQ(data.points[i].number, i + 1);
    EXPECT_NEAR(data.points[i].roof_share, 0.4, 1e-9) << data.points[i].name;
  }
  EXPECT_EQ(data.points[0].limit, "multiply-add");
  EXPECT_EQ(data.points[4].name, "decode");
  EXPECT_EQ(data.points[4].limit, "cache");
  EXPECT_EQ(data.note, "1 problem without a rate is not shown.");
  report.kernels = {"lane", "tile"};
  EXPECT_EQ(bench::plot_data(report).note, "1 measurement without a rate is not shown.");
  EXPECT_TRUE(has(data.caption, "driver 4.5"));
  EXPECT_TRUE(has(data.caption, "2026-01-31"));
  EXPECT_EQ(data.title.find('\xff'), std::string::npos);
}

TEST(PlotData, DrawsTheCacheThatAPointIsHeldAgainst) {
  bench::Report report = made_up_report("smoke");
  report.peaks.memory = {{1U << 14U, 3e12, 4e12}, {1U << 20U, 850e9, 940e9}, {1U << 29U, 800e9, 900e9}};
  bench::Row row = report.rows[4];
  row.work.bytes = row.work.flops = 2 << 20;
  set_shares(row, report.peaks);
  report.rows = {row};
  const PlotData data = bench::plot_data(report);
  EXPECT_EQ(data.points.at(0).limit, "cache");
  ASSERT_EQ(data.memory.size(), 2U) << "no point is held against the fastest cache";
  EXPECT_EQ(data.memory[1].name, "cache");
  EXPECT_DOUBLE_EQ(data.memory[1].rate, 940e9);
}

TEST(PlotFormats, FollowTheFileName) {
  EXPECT_EQ(picture::format_of("a.png"), Format::kPng);
  EXPECT_EQ(picture::format_of("dir.png/a.SVG"), Format::kSvg);
  for (const char* const name : {"", "png", ".png", "a.jpg", "a.pngx", "a.png/b"})
    EXPECT_FALSE(picture::format_of(name).has_value()) << name;
}

class PlotDrawing : public Drawing {
 protected:
  [[nodiscard]] bool draws_anything() const override { return bench::draw_plot({}, Format::kPng).ok(); }
};

TEST_F(PlotDrawing, PngGrowsWithItsTable) {
  PlotData data = bench::plot_data(made_up_report("llm"));
  const auto many = must(bench::draw_plot(data, Format::kPng));
  data.points.resize(1);
  const auto one = must(bench::draw_plot(data, Format::kPng));
  for (const std::string& png : {many, one}) {
    expect_png(png);
    EXPECT_GT(png.size(), 10000U);
    EXPECT_EQ(big_endian(png, kPngWidth), 2400U);
  }
  EXPECT_EQ(big_endian(many, kPngHeight) - big_endian(one, kPngHeight), 16U * 48U);
}

TEST_F(PlotDrawing, SvgIsWhole) {
  const auto svg = must(bench::draw_plot(bench::plot_data(made_up_report("game")), Format::kSvg));
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_TRUE(has(svg, "viewBox=\"0 0 1200 "));
  EXPECT_TRUE(has(svg, "</svg>"));
  EXPECT_TRUE(has(svg, ">share of its roof</text>")) << "text is text";
  EXPECT_LT(svg.size(), 40000U);
}

TEST_F(PlotDrawing, EachColorHasAnotherOnDarkPages) {
  const auto svg = must(bench::draw_plot(bench::plot_data(made_up_report("game")), Format::kSvg));
  const std::string style = picture::page_style();
  const std::regex color("(fill|stroke)=\"(#[0-9a-f]{6})\"");
  for (std::sregex_iterator it(svg.begin(), svg.end(), color), end; it != end; ++it)
    ASSERT_TRUE(has(style, "[" + it->str() + "]{" + it->str(1) + ":#"));
}

TEST_F(PlotDrawing, OddReportsAreDrawnAndEmptyOnesRefused) {
  bench::Report report = made_up_report("vision");
  report.rows.resize(1);
  for (const bool matrix : {true, false}) {
    if (!matrix) report.peaks = {};
    EXPECT_TRUE(bench::draw_plot(bench::plot_data(report), Format::kSvg).ok());
  }
  report.rows[0].outcome = bench::Outcome::kSkipped;
  EXPECT_TRUE(has(message_of(bench::draw_plot(bench::plot_data(report), Format::kPng)), "nothing to plot"));
}

}  // namespace
}  // namespace vkattn::tests

// The benchmark's picture without a device: axes, labels, what is shown, and the files.
#include "plot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "pictures.hpp"
#include "plot_layout.hpp"
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

using bench::LogAxis;
using bench::PlotBox;
using bench::PlotData;
using bench::PlotFormat;
using bench::PlotLine;

TEST(PlotAxis, PlacesDecadesEvenly) {
  const LogAxis axis(0.1, 1000, 500, 100);
  EXPECT_NEAR(axis.position(0.1), 500, 1e-9);
  EXPECT_NEAR(axis.position(10), 300, 1e-9);
  EXPECT_NEAR(axis.position(1000), 100, 1e-9);
}

std::vector<std::string> tick_labels(const LogAxis& axis) {
  std::vector<std::string> labels;
  for (const bench::PlotTick& tick : axis.ticks()) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

TEST(PlotAxis, LabelsAsManyTicksAsThereIsRoomFor) {
  using Labels = std::vector<std::string>;
  EXPECT_EQ(tick_labels(LogAxis(0.15, 30, 0, 1000)), (Labels{"0.2", "0.5", "1", "2", "5", "10", "20"}));
  EXPECT_EQ(tick_labels(LogAxis(0.15, 30, 0, 150)), (Labels{"1", "10"}));
  EXPECT_EQ(tick_labels(LogAxis(1e-4, 1e4, 300, 100)), (Labels{"0.0001", "0.01", "1", "100", "10000"}));
  const std::vector<bench::PlotTick> ticks = LogAxis(1, 10, 0, 100).ticks();
  ASSERT_EQ(ticks.size(), 10U);
  for (std::size_t i = 0; i < ticks.size(); ++i) EXPECT_DOUBLE_EQ(ticks[i].value, static_cast<double>(i + 1));
}

TEST(PlotLine, CrossesBoxesAndLines) {
  const PlotLine rising = {{0, 0}, {10, 10}};
  EXPECT_TRUE(rising.crosses(PlotLine{{0, 10}, {10, 0}}));
  EXPECT_FALSE(rising.crosses(PlotLine{{0, 1}, {9, 10}}));
  EXPECT_TRUE(rising.crosses(PlotBox{4, 4, 2, 2}));
  EXPECT_TRUE(rising.crosses(PlotBox{-5, -5, 20, 20}));
  EXPECT_FALSE(rising.crosses(PlotBox{6, 0, 4, 5}));
}

constexpr PlotBox kFrame = {0, 0, 1000, 500};
constexpr double kRadius = 6;

/// Labels of random widths at random points, all within a part of the frame.
std::vector<bench::PlotLabel> random_labels(std::size_t count, const PlotBox& where, std::uint32_t seed) {
  std::mt19937 random(seed);
  const auto between = [&](double low, double high) {
    return low + (high - low) * (static_cast<double>(random()) / 4294967296.0);
  };
  std::vector<bench::PlotLabel> labels;
  for (std::size_t i = 0; i < count; ++i) {
    labels.push_back(
        {{between(where.x, where.right()), between(where.y, where.bottom())}, between(60, 220), 14, 16});
  }
  return labels;
}

/// What holds for every placement.
void expect_sound(const std::vector<bench::PlotLabel>& labels, const bench::LabelRoom& room,
                  const std::vector<bench::PlacedLabel>& placed) {
  ASSERT_EQ(placed.size(), labels.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i].placed) continue;
    EXPECT_TRUE(room.frame.contains(placed[i].box)) << i;
    EXPECT_DOUBLE_EQ(placed[i].box.width, placed[i].shortened ? labels[i].short_width : labels[i].width);
    for (const PlotBox& box : room.taken) EXPECT_FALSE(box.overlaps(placed[i].box)) << i;
    for (std::size_t other = 0; other < placed.size(); ++other) {
      const auto& point = labels[other].anchor;
      EXPECT_FALSE(placed[i].box.overlaps({point.x - room.marker_radius, point.y - room.marker_radius,
                                           2 * room.marker_radius, 2 * room.marker_radius}))
          << i << " covers the point of " << other;
      if (other == i || !placed[other].placed) continue;
      EXPECT_FALSE(placed[i].box.overlaps(placed[other].box)) << i << " and " << other;
      if (placed[other].leader && !placed[other].shortened) {
        EXPECT_FALSE(placed[other].line.crosses(placed[i].box)) << other << " through " << i;
      }
    }
  }
}

TEST(PlotLabels, NeverOverlap) {
  const std::vector<PlotBox> taken = {{700, 80, 250, 20}, {0, 0, 200, 30}};
  const std::vector<PlotLine> lines = {{{0, 400}, {400, 100}}, {{400, 100}, {1000, 100}}};
  const bench::LabelRoom room = {kFrame, taken, lines, kRadius};
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const std::vector<bench::PlotLabel> labels = random_labels(17, {40, 120, 900, 350}, seed);
    const std::vector<bench::PlacedLabel> placed = place_labels(labels, room);
    expect_sound(labels, room, placed);
    for (const bench::PlacedLabel& label : placed) EXPECT_TRUE(label.placed) << "seed " << seed;
  }
}

TEST(PlotLabels, AreShortenedOrLeftOutWhereThereIsNoRoom) {
  const bench::LabelRoom room = {kFrame, {}, {}, kRadius};
  std::vector<bench::PlotLabel> labels = random_labels(60, {400, 200, 100, 60}, 1);
  expect_sound(labels, room, place_labels(labels, room));
  // All on one place: leaders fan out.
  for (bench::PlotLabel& label : labels) label.anchor = {500, 250};
  labels.resize(12);
  const std::vector<bench::PlacedLabel> placed = place_labels(labels, room);
  expect_sound(labels, room, placed);
  for (const bench::PlacedLabel& label : placed) EXPECT_TRUE(label.placed);
  // A point by itself has its label beside it.
  labels.resize(1);
  EXPECT_FALSE(place_labels(labels, room).front().leader);
}

/// A device with two roofs of either kind, and the problems of a suite at 40 % of theirs.
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

TEST(PlotFormats, FollowTheFileName) {
  EXPECT_EQ(bench::plot_format("a.png"), PlotFormat::kPng);
  EXPECT_EQ(bench::plot_format("dir.png/a.SVG"), PlotFormat::kSvg);
  for (const char* const name : {"", "png", ".png", "a.jpg", "a.pngx", "a.png/b"})
    EXPECT_FALSE(bench::plot_format(name).has_value()) << name;
}

class PlotDrawing : public Drawing {
 protected:
  [[nodiscard]] bool draws_anything() const override { return bench::draw_plot({}, PlotFormat::kPng).ok(); }
};

TEST_F(PlotDrawing, PngGrowsWithItsTable) {
  PlotData data = bench::plot_data(made_up_report("llm"));
  const auto many = must(bench::draw_plot(data, PlotFormat::kPng));
  data.points.resize(1);
  const auto one = must(bench::draw_plot(data, PlotFormat::kPng));
  for (const std::string& png : {many, one}) {
    expect_png(png);
    EXPECT_GT(png.size(), 10000U);
    EXPECT_EQ(big_endian(png, kPngWidth), 2400U);
  }
  EXPECT_EQ(big_endian(many, kPngHeight) - big_endian(one, kPngHeight), 16U * 48U);
}

TEST_F(PlotDrawing, SvgIsWhole) {
  const auto svg = must(bench::draw_plot(bench::plot_data(made_up_report("game")), PlotFormat::kSvg));
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_TRUE(has(svg, "viewBox=\"0 0 1200 "));
  EXPECT_TRUE(has(svg, "</svg>"));
}

TEST_F(PlotDrawing, OddReportsAreDrawnAndEmptyOnesRefused) {
  bench::Report report = made_up_report("vision");
  report.rows.resize(1);
  for (const bool matrix : {true, false}) {
    if (!matrix) report.peaks = {};
    EXPECT_TRUE(bench::draw_plot(bench::plot_data(report), PlotFormat::kSvg).ok());
  }
  report.rows[0].outcome = bench::Outcome::kSkipped;
  EXPECT_TRUE(
      has(message_of(bench::draw_plot(bench::plot_data(report), PlotFormat::kPng)), "nothing to plot"));
}

}  // namespace
}  // namespace vkattn::tests

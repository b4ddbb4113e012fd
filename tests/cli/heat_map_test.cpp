// Pictures of weights and of the sweep without a device: colours, scales, labels, and the files.
#include "heat_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "line_charts.hpp"
#include "pictures.hpp"
#include "plot_colors.hpp"
#include "plot_layout.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using bench::Color;
using bench::HeatMap;
using bench::PlotFormat;
using bench::RoundScale;

TEST(PlotColors, EqualStepsOfTheScaleLookEqual) {
  constexpr int kSteps = 64;
  const auto color_at = [](int step) { return bench::scale_color(static_cast<double>(step) / kSteps); };
  std::vector<double> steps;
  for (int i = 0; i < kSteps; ++i) {
    const bench::Oklab a = bench::to_oklab(color_at(i)), b = bench::to_oklab(color_at(i + 1));
    EXPECT_GT(b.lightness, a.lightness + 0.005) << i;
    // A part that was cut off at 0 or 1 would shorten a step.
    steps.push_back(std::hypot(b.lightness - a.lightness, b.a - a.a, b.b - a.b));
  }
  for (const double step : steps) EXPECT_NEAR(step, steps[0], 0.03 * steps[0]);
  EXPECT_GT(bench::to_oklab(color_at(kSteps)).lightness, bench::to_oklab(color_at(0)).lightness + 0.6);
  EXPECT_LT(color_at(0).red, color_at(0).blue);
  EXPECT_GT(color_at(kSteps).red, color_at(kSteps).blue);
  EXPECT_EQ(bench::scale_color(7).red, bench::scale_color(1).red);
  EXPECT_EQ(bench::scale_color(std::numeric_limits<double>::quiet_NaN()).red, bench::scale_color(0).red);
}

TEST(PlotAxis, RoundScalesEndAboveTheLargest) {
  for (const double largest : {1e-6, 0.013, 0.2, 0.31, 0.5, 0.7310585, 1.0, 3.0, 12345.0}) {
    const RoundScale scale(largest);
    EXPECT_GE(scale.top(), largest * (1 - 1e-9));
    EXPECT_LE(scale.top(), largest * 1.5);
    const std::vector<bench::PlotTick> ticks = scale.ticks();
    EXPECT_GE(ticks.size(), 3U);
    EXPECT_LE(ticks.size(), 7U);
    EXPECT_EQ(ticks.front().label, "0");
    EXPECT_NEAR(ticks.back().value, scale.top(), largest * 1e-6);
  }
  EXPECT_EQ(RoundScale(0).top(), 1);
  EXPECT_EQ(RoundScale(std::numeric_limits<double>::quiet_NaN()).top(), 1);
  EXPECT_EQ(RoundScale(1).ticks().back().label, "1.0");
}

TEST(PlotAxis, BarsEndAtTheLargest) {
  const auto labels_of = [](double largest, bool is_root) {
    std::vector<std::string> labels;
    for (const bench::PlotTick& tick : bench::ticks_to_largest(largest, is_root))
      labels.push_back(tick.label);
    return labels;
  };
  using Labels = std::vector<std::string>;
  EXPECT_EQ(labels_of(0.58, true), (Labels{"0", "0.2", "0.4", "0.04", "0.58"}));
  EXPECT_EQ(labels_of(0.58, false), (Labels{"0", "0.2", "0.4", "0.58"}));
  EXPECT_EQ(labels_of(1, false), (Labels{"0", "0.2", "0.4", "0.6", "0.8", "1.00"}));
  EXPECT_EQ(labels_of(0.41, false), (Labels{"0", "0.1", "0.2", "0.3", "0.41"})) << "0.4 is too near";
  EXPECT_EQ(labels_of(0, false).back(), "1.00");
}

TEST(PlotColors, TextHasTheBetterOfTwoContrasts) {
  EXPECT_NEAR(bench::contrast(bench::kWhite, {0, 0, 0}), 21, 1e-9);
  EXPECT_NEAR(bench::contrast(bench::kWhite, bench::kWhite), 1, 1e-9);
  for (int i = 0; i <= 64; ++i) {
    const Color cell = bench::scale_color(i / 64.0);
    EXPECT_GT(std::max(bench::contrast(bench::kWhite, cell), bench::contrast(bench::kInk, cell)), 3.85) << i;
  }
}

TEST(PlotLabels, AreThinnedWhereCellsAreSmall) {
  EXPECT_EQ(bench::label_stride(12, 12, false), 1U);
  EXPECT_EQ(bench::label_stride(9, 12, false), 2U);
  EXPECT_EQ(bench::label_stride(3, 10, false), 4U);
  EXPECT_EQ(bench::label_stride(3, 10, true), 5U);
  EXPECT_EQ(bench::label_stride(0.5, 30, true), 100U);
}

HeatMap made_up_map(std::size_t panels, std::size_t rows, std::size_t columns) {
  HeatMap map;
  map.title = "Weights of a test";
  map.caption = "made up";
  map.warning = "No weights of a model.";
  map.row_axis = "query";
  map.column_axis = "key";
  map.scale_axis = "weight";
  map.no_number = "hidden";
  for (std::size_t i = 0; i < rows; ++i) map.row_labels.push_back("word" + std::to_string(i));
  for (std::size_t i = 0; i < columns; ++i) map.column_labels.push_back("word" + std::to_string(i));
  for (std::size_t i = 0; i < panels; ++i) {
    bench::HeatPanel panel{"head " + std::to_string(i), "a note", {}};
    for (std::size_t n = 0; n < rows * columns; ++n) {
      const bool hidden = n % columns > n / columns;
      panel.values.push_back(hidden ? std::numeric_limits<double>::quiet_NaN()
                                    : 1.0 / static_cast<double>(1 + n / columns));
    }
    map.panels.push_back(panel);
  }
  return map;
}

class HeatMapDrawing : public Drawing {
 protected:
  [[nodiscard]] bool draws_anything() const override {
    return bench::draw_heat_map({}, PlotFormat::kPng).ok() || bench::draw_charts({}, PlotFormat::kPng).ok();
  }
};

TEST_F(HeatMapDrawing, AnyNumberOfHeadsAndTokensIsAPictureOfSaneSize) {
  for (const std::size_t panels : {1U, 2U, 3U, 5U, 8U, 16U}) {
    for (const std::size_t tokens : {2U, 11U, 64U}) {
      const HeatMap map = made_up_map(panels, tokens, tokens);
      const auto png = must(bench::draw_heat_map(map, PlotFormat::kPng));
      expect_png(png);
      for (const std::size_t at : {kPngWidth, kPngHeight}) {
        EXPECT_GE(big_endian(png, at), 500U) << panels << " x " << tokens;
        EXPECT_LE(big_endian(png, at), 6400U) << panels << " x " << tokens;
      }
      EXPECT_LT(png.size(), 1500000U);
    }
  }
}

TEST_F(HeatMapDrawing, SvgHasEachLabelAndWholeImages) {
  const auto svg = must(bench::draw_heat_map(made_up_map(4, 11, 7), PlotFormat::kSvg));
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_TRUE(has(svg, "<image"));
  EXPECT_TRUE(has(svg, "</svg>"));
  EXPECT_LT(svg.size(), 1000000U);
}

TEST_F(HeatMapDrawing, TheFurthestEndsAreDrawnAndWhatIsBeyondIsRefused) {
  EXPECT_TRUE(bench::draw_heat_map(made_up_map(1, 1024, 2), PlotFormat::kPng).ok());
  EXPECT_TRUE(bench::draw_heat_map(made_up_map(2, 1, 1024), PlotFormat::kSvg).ok());
  HeatMap equal = made_up_map(1, 3, 3);
  equal.panels[0].values.assign(9, 0.0);
  EXPECT_TRUE(bench::draw_heat_map(equal, PlotFormat::kPng).ok());
  equal.panels[0].values.assign(9, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(bench::draw_heat_map(equal, PlotFormat::kPng).ok());
  const std::string many = message_of(bench::draw_heat_map(made_up_map(17, 2, 2), PlotFormat::kPng));
  EXPECT_TRUE(has(many, "16 panels"));
  EXPECT_TRUE(has(many, "17 of 2 x 2"));
  EXPECT_FALSE(bench::draw_heat_map(made_up_map(1, 1025, 2), PlotFormat::kPng).ok());
  EXPECT_FALSE(bench::draw_heat_map({}, PlotFormat::kPng).ok());
}

TEST_F(HeatMapDrawing, ChartsTakeZerosAndShortLines) {
  bench::ChartPage page{"Title", "caption", "x", {4, 512}, {}};
  page.charts.push_back({"linear", "", {{"a", {0, 1}, 0, false}}, false, 1});
  page.charts.push_back({"logarithmic", "", {{"a", {0, 0.3}, 0, false}, {"b", {1e-12, 1}, 5, true}}, true});
  page.charts.push_back({"zeros", "", {{"a", {0, 0}, 0, false}}, true});
  for (const PlotFormat format : {PlotFormat::kPng, PlotFormat::kSvg}) {
    const auto picture = must(bench::draw_charts(page, format));
    EXPECT_GT(picture.size(), 5000U);
  }
  page.x = {4};
  EXPECT_FALSE(bench::draw_charts(page, PlotFormat::kPng).ok());
}

}  // namespace
}  // namespace vkattn::tests

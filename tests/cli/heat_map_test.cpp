// Pictures of weights and of the sweep, without a device: colours, scales, labels and the files.
#include "picture/heat_map.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "picture/charts.hpp"
#include "pictures.hpp"
#include "support/must.hpp"
#include "support/text.hpp"

namespace vkattn::tests {
namespace {

using picture::Color;
using picture::Format;
using picture::HeatMap;
using picture::RoundScale;

/// A colour in the colour space Oklab (Ottosson, 2020), in which equal distances look equal.
struct Oklab {
  double lightness = 0, a = 0, b = 0;
};

Oklab to_oklab(const Color& color) {
  const auto decoded = [](double part) {
    return part <= 0.04045 ? part / 12.92 : std::pow((part + 0.055) / 1.055, 2.4);
  };
  const double red = decoded(color.red), green = decoded(color.green), blue = decoded(color.blue);
  const double l = std::cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue);
  const double m = std::cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue);
  const double s = std::cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue);
  return {0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
          1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
          0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s};
}

TEST(PlotColors, EqualStepsOfTheScaleLookEqual) {
  constexpr int kSteps = 64;
  const auto color_at = [](int step) { return picture::scale_color(static_cast<double>(step) / kSteps); };
  std::vector<double> steps;
  for (int i = 0; i < kSteps; ++i) {
    const Oklab a = to_oklab(color_at(i)), b = to_oklab(color_at(i + 1));
    EXPECT_GT(b.lightness, a.lightness + 0.005) << i;
    // A component that is cut off at 0 or 1 would shorten a step.
    steps.push_back(std::hypot(b.lightness - a.lightness, b.a - a.a, b.b - a.b));
  }
  for (const double step : steps) EXPECT_NEAR(step, steps[0], 0.03 * steps[0]);
  EXPECT_GT(to_oklab(color_at(kSteps)).lightness, to_oklab(color_at(0)).lightness + 0.6);
  EXPECT_LT(color_at(0).red, color_at(0).blue);
  EXPECT_GT(color_at(kSteps).red, color_at(kSteps).blue);
  EXPECT_EQ(picture::scale_color(7).red, picture::scale_color(1).red);
  EXPECT_EQ(picture::scale_color(std::numeric_limits<double>::quiet_NaN()).red, picture::scale_color(0).red);
}

TEST(PlotAxis, RoundScalesEndAboveTheLargest) {
  for (const double largest : {1e-6, 0.013, 0.2, 0.31, 0.5, 0.7310585, 1.0, 3.0, 12345.0}) {
    const RoundScale scale(largest);
    EXPECT_GE(scale.top(), largest * (1 - 1e-9));
    EXPECT_LE(scale.top(), largest * 1.5);
    const std::vector<picture::Tick> ticks = scale.ticks();
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
    for (const picture::Tick& tick : picture::ticks_to_largest(largest, is_root))
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
  EXPECT_NEAR(picture::contrast(picture::kWhite, {0, 0, 0}), 21, 1e-9);
  EXPECT_NEAR(picture::contrast(picture::kWhite, picture::kWhite), 1, 1e-9);
  for (int i = 0; i <= 64; ++i) {
    const Color cell = picture::scale_color(i / 64.0);
    EXPECT_GT(std::max(picture::contrast(picture::kWhite, cell), picture::contrast(picture::kInk, cell)),
              3.85)
        << i;
  }
}

TEST(PlotLabels, AreThinnedWhereCellsAreSmall) {
  EXPECT_EQ(picture::label_stride(12, 12, false), 1U);
  EXPECT_EQ(picture::label_stride(9, 12, false), 2U);
  EXPECT_EQ(picture::label_stride(3, 10, false), 4U);
  EXPECT_EQ(picture::label_stride(3, 10, true), 5U);
  EXPECT_EQ(picture::label_stride(0.5, 30, true), 100U);
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
    picture::HeatPanel panel{"head " + std::to_string(i), "a note", {}};
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
    return picture::draw_heat_map({}, Format::kPng).ok() || picture::draw_charts({}, Format::kPng).ok();
  }
};

TEST_F(HeatMapDrawing, AnyNumberOfHeadsAndTokensIsAPictureOfSaneSize) {
  for (const std::size_t panels : {1U, 2U, 3U, 5U, 8U, 16U}) {
    for (const std::size_t tokens : {2U, 11U, 64U}) {
      const HeatMap map = made_up_map(panels, tokens, tokens);
      const auto png = must(picture::draw_heat_map(map, Format::kPng));
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
  const auto svg = must(picture::draw_heat_map(made_up_map(4, 11, 7), Format::kSvg));
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  EXPECT_TRUE(has(svg, "<image"));
  EXPECT_TRUE(has(svg, "</svg>"));
  EXPECT_LT(svg.size(), 1000000U);
}

TEST_F(HeatMapDrawing, TheFurthestEndsAreDrawnAndWhatIsBeyondIsRefused) {
  EXPECT_TRUE(picture::draw_heat_map(made_up_map(1, 1024, 2), Format::kPng).ok());
  EXPECT_TRUE(picture::draw_heat_map(made_up_map(2, 1, 1024), Format::kSvg).ok());
  HeatMap equal = made_up_map(1, 3, 3);
  equal.panels[0].values.assign(9, 0.0);
  EXPECT_TRUE(picture::draw_heat_map(equal, Format::kPng).ok());
  equal.panels[0].values.assign(9, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(picture::draw_heat_map(equal, Format::kPng).ok());
  const std::string many = message_of(picture::draw_heat_map(made_up_map(17, 2, 2), Format::kPng));
  EXPECT_TRUE(has(many, "16 panels"));
  EXPECT_TRUE(has(many, "17 of 2 x 2"));
  EXPECT_FALSE(picture::draw_heat_map(made_up_map(1, 1025, 2), Format::kPng).ok());
  EXPECT_FALSE(picture::draw_heat_map({}, Format::kPng).ok());
}

TEST_F(HeatMapDrawing, ChartsTakeZerosAndShortLines) {
  picture::ChartPage page{"Title", "caption", "x"};
  page.charts.push_back({"linear", "", "ms", {{"a", {{4, 0}, {512, 1}}}}, false, 1});
  page.charts.push_back(
      {"logarithmic",
       "",
       "",
       {{"a", {{4, 0}, {512, 0.3}}}, {"b", {{4, 1e-12}, {512, 1}}, 5, picture::Look::kBand}},
       true});
  page.charts.push_back({"zeros", "", "", {{"a", {{4, 0}, {512, 0}}}}, true});
  for (const Format format : {Format::kPng, Format::kSvg}) {
    const auto picture = must(picture::draw_charts(page, format));
    EXPECT_GT(picture.size(), 5000U);
  }
  for (picture::Chart& chart : page.charts) {
    for (picture::Series& series : chart.series) series.points.resize(1);
  }
  EXPECT_FALSE(picture::draw_charts(page, Format::kPng).ok());
}

/// The number of elements in an SVG that have this text.
std::size_t count_of(const std::string& svg, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = svg.find(text); at != std::string::npos; at = svg.find(text, at + 1)) ++count;
  return count;
}

TEST_F(HeatMapDrawing, ChartsNameLevelsAndMarkWhatIsAboveTheirEdge) {
  picture::ChartPage page{"Frames", "a device  -  a date", "frame"};
  page.is_logarithmic = false;
  picture::Series dots{"time", {}, 0, picture::Look::kDots};
  for (int i = 1; i <= 600; ++i) dots.points.push_back({1.0 * i, i % 200 == 0 ? 7.0 : 0.5});
  page.charts.push_back({"Times", "", "ms", {dots}, false, 1, {{0.6, "budget 0.60"}}});
  const std::string svg = must(picture::draw_charts(page, Format::kSvg));
  for (const char* const text :
       {">Frames<", ">a device  -  a date<", ">Times<", ">ms<", ">frame<", ">0<", ">600<", ">1.0<",
        ">budget 0.60<", ">marks at the edge: 3 above 1.00, the largest 7.00<"}) {
    EXPECT_EQ(count_of(svg, text), text == std::string(">0<") ? 2U : 1U) << text;
  }
  EXPECT_EQ(count_of(svg, "<circle"), 597U);
}

}  // namespace
}  // namespace vkattn::tests

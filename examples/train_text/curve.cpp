// The picture of a training: see curve.hpp.
#include "train_text/curve.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "picture/charts.hpp"

namespace train_text {

namespace {

using vkattn::picture::Look;
using vkattn::picture::Series;

std::string number(double value, const char* format) {
  char text[32];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

}  // namespace

bool has_pictures() {
  return vkattn::picture::check_support().ok();
}

vkattn::Result<void> draw(const Curve& curve, const std::string& path) {
  const double uniform = std::log(curve.vocabulary);
  Series each{"each step", {}, 0, Look::kThin};
  Series mean{"mean of " + std::to_string(kMeanSteps) + " steps", {}, 0, Look::kLine};
  for (std::size_t i = 0; i < curve.losses.size(); ++i) {
    const auto step = static_cast<double>(i + 1);
    each.points.push_back({step, static_cast<double>(curve.losses[i])});
    // In the middle of its steps: a mean that trails lies above a loss that falls.
    if (i + 1 >= kMeanSteps) mean.points.push_back({step - kMeanSteps / 2.0, smoothed(curve.losses, i)});
  }
  vkattn::picture::Chart chart{"Loss of the next character", "", "nats", {each, mean}};
  if (curve.validation > 0) {
    const auto last = static_cast<double>(curve.losses.size());
    chart.series.push_back({"validation, at the end: " + number(curve.validation, "%.2f"),
                            {{last, curve.validation}},
                            2,
                            Look::kDots});
  }
  chart.top = std::max(uniform, curve.validation) * 1.05;
  chart.levels = {
      {uniform, "ln(" + number(curve.vocabulary, "%.0f") + ") = " + number(uniform, "%.2f") + ": all alike"},
      {uniform / 2, "half of it"}};
  vkattn::picture::ChartPage page;
  page.title = "A transformer that learns a text";
  page.caption = curve.model + "  \xc2\xb7  " + vkattn::picture::device_and_date(curve.device);
  page.x_axis = "step";
  page.charts = {chart};
  page.is_logarithmic = false;
  page.across = 1;
  page.frame_height = 400;
  return vkattn::picture::write_file(path, draw_charts(page, vkattn::picture::Format::kPng));
}

}  // namespace train_text

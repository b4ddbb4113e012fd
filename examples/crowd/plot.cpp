#include "crowd/plot.hpp"

#include <cstdio>

#include "picture/charts.hpp"

namespace crowd {

namespace {

using vkattn::picture::Look;
using vkattn::picture::Series;

std::string named(const char* name, double ms) {
  char label[64];
  std::snprintf(label, sizeof(label), "%s %.2f ms", name, ms);
  return label;
}

}  // namespace

vkattn::Result<void> draw(const FrameTimes& times, const std::string& device, const std::string& path) {
  Series interval{"from frame to frame", {}, 5, Look::kDots};
  Series within{"attention, within its budget", {}, 0, Look::kDots};
  Series above{"attention, above it", {}, 1, Look::kDots};
  for (std::size_t i = 0; i < times.interval.size(); ++i) {
    const auto frame = static_cast<double>(i + 1);
    interval.points.push_back({frame, times.interval[i]});
    const double ms = i < times.attention.size() ? times.attention[i] : 0;
    if (ms > 0) (ms > times.budget_ms ? above : within).points.push_back({frame, ms});
  }
  vkattn::picture::ChartPage page;
  page.title = "Attention in the frames of a renderer";
  page.caption = std::to_string(times.interval.size()) + " frames  \xc2\xb7  " +
                 vkattn::picture::device_and_date(device);
  page.x_axis = "frame";
  page.is_logarithmic = false;
  page.across = 1;
  page.charts = {{"From frame to frame", "", "ms", {interval}},
                 {"Attention in a frame, on the device", "", "ms", {within, above}}};
  page.charts[0].top = 2 * times.frame_ms;
  page.charts[0].levels = {{times.frame_ms, named("frame time", times.frame_ms)}};
  page.charts[1].top = 2 * times.budget_ms;
  page.charts[1].levels = {{times.budget_ms, named("budget", times.budget_ms)}};
  return vkattn::picture::write_file(path, draw_charts(page, vkattn::picture::Format::kPng));
}

}  // namespace crowd

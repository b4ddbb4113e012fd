// Drawing of line charts: see line_charts.hpp.
#include "line_charts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "console.hpp"
#include "plot_canvas.hpp"
#include "plot_layout.hpp"

namespace vkattn::bench {
namespace {

constexpr double kTop = 112;  // beneath captions and legend
constexpr std::size_t kAcross = 2;
constexpr double kFrameWidth = 490, kFrameHeight = 236, kTickRoom = 56;
constexpr double kHead = 46, kFoot = 58;
constexpr double kMarkRadius = 4;

const Color& color_of(const ChartLine& line) {
  return kSeriesColors.at(std::min(line.color, kSeriesColors.size() - 1));
}

Stroke stroke_of(const ChartLine& line) {
  constexpr Color kBand = {0.82, 0.84, 0.87};
  return line.is_expected ? Stroke{kBand, 8, false} : Stroke{color_of(line), 2, false};
}

/// From a chart's values to heights in its frame.
class YAxis {
 public:
  YAxis(const Chart& chart, const PlotBox& frame) : frame_(frame) {
    double low = 0, high = 0;
    for (const ChartLine& line : chart.lines) {
      for (const double value : line.values) {
        high = std::max(high, value);
        if (value > 0) low = low == 0 ? value : std::min(low, value);
      }
    }
    if (chart.is_logarithmic && low > 0) {
      log_.emplace(low / 1.8, high * 1.8, frame.bottom(), frame.y);
    } else {
      scale_ = RoundScale(chart.top > 0 ? chart.top : high);
    }
  }

  /// 0 lies at the bottom of a logarithmic axis.
  [[nodiscard]] double position(double value) const {
    if (log_) return log_->position(std::max(value, log_->low()));
    return frame_.bottom() - frame_.height * value / scale_.top();
  }

  [[nodiscard]] std::vector<PlotTick> ticks() const { return log_ ? log_->ticks() : scale_.ticks(); }

 private:
  PlotBox frame_;
  std::optional<LogAxis> log_;
  RoundScale scale_{1};
};

void draw_line(const Canvas& canvas, const ChartLine& line, std::span<const PlotPosition> points) {
  canvas.lines(points, stroke_of(line));
  if (line.is_expected) return;
  for (const PlotPosition& point : points)
    canvas.disc(point, kMarkRadius, color_of(line), {kWhite, 1.2, false});
}

void draw_chart(const Canvas& canvas, const ChartPage& page, const Chart& chart, const PlotBox& frame) {
  const TextStyle title = {14, kInk, true}, note = {11.5, kSoftInk};
  const TextStyle across = {12, kSoftInk, false, TextAlign::kCenter};
  const TextStyle upright = {12, kSoftInk, false, TextAlign::kRight};
  canvas.text({frame.x, frame.y - 26}, canvas.fitted(chart.title, title, frame.width), title);
  canvas.text({frame.x, frame.y - 9}, canvas.fitted(chart.note, note, frame.width), note);
  const double beside = std::pow(page.x.back() / page.x.front(), 0.04);
  const LogAxis x(page.x.front() / beside, page.x.back() * beside, frame.x, frame.right());
  const YAxis y(chart, frame);
  for (const PlotTick& tick : y.ticks()) {
    const double at = y.position(tick.value);
    canvas.line({{frame.x, at}, {frame.right(), at}}, {tick.label.empty() ? kFaintGrid : kGrid, 1, false});
    canvas.text({frame.x - 8, at + 4}, tick.label, upright);
  }
  double label_end = 0;
  for (const double value : page.x) {
    const double at = x.position(value);
    canvas.line({{at, frame.y}, {at, frame.bottom()}}, {kGrid, 1, false});
    const std::string text = console::fixed(value, 0);
    const double half = canvas.text_width(text, across) / 2;
    if (at - half < label_end) continue;
    canvas.text({at, frame.bottom() + 18}, text, across);
    label_end = at + half + 6;
  }
  canvas.text({frame.center().x, frame.bottom() + 38}, page.x_axis, across);
  canvas.outline(frame, {kSoftInk, 1, false});
  // What is expected lies beneath what was measured.
  for (const bool is_expected : {true, false}) {
    for (const ChartLine& line : chart.lines) {
      if (line.is_expected != is_expected) continue;
      std::vector<PlotPosition> points;
      for (std::size_t i = 0; i < page.x.size(); ++i)
        points.push_back({x.position(page.x[i]), y.position(line.values.at(i))});
      draw_line(canvas, line, points);
    }
  }
}

/// Each name once, in the order of appearance.
void draw_legend(const Canvas& canvas, const ChartPage& page) {
  constexpr double kSample = 26;
  const TextStyle text = {13, kInk};
  std::vector<std::string> known;
  double x = kPictureMargin;
  for (const Chart& chart : page.charts) {
    for (const ChartLine& line : chart.lines) {
      if (std::ranges::find(known, line.name) != known.end()) continue;
      known.push_back(line.name);
      const std::vector<PlotPosition> ends = {{x, 84}, {x + kSample, 84}};
      canvas.lines(ends, stroke_of(line));
      if (!line.is_expected)
        canvas.disc({x + kSample / 2, 84}, kMarkRadius, color_of(line), {kWhite, 1.2, false});
      canvas.text({x + kSample + 8, 88}, line.name, text);
      x += kSample + 8 + canvas.text_width(line.name, text) + 28;
    }
  }
}

}  // namespace

Result<std::string> draw_charts(const ChartPage& page, PlotFormat format) {
  if (page.charts.empty() || page.x.size() < 2) {
    return Error{
        ErrorCode::kInvalidArgument, {}, "there is nothing to draw: a chart needs at least two points"};
  }
  const auto down = static_cast<double>((page.charts.size() + kAcross - 1) / kAcross);
  const double height = kTop + down * (kHead + kFrameHeight + kFoot);
  return draw_file(format, kPictureWidth, height, [&](const Canvas& canvas) {
    const TextStyle title = {21, kInk, true}, caption = {13, kSoftInk};
    canvas.text({kPictureMargin, 38}, canvas.fitted(page.title, title, kPictureWidth - 2 * kPictureMargin),
                title);
    canvas.text({kPictureMargin, 62},
                canvas.fitted(page.caption, caption, kPictureWidth - 2 * kPictureMargin), caption);
    draw_legend(canvas, page);
    for (std::size_t i = 0; i < page.charts.size(); ++i) {
      const auto column = static_cast<double>(i % kAcross), row = static_cast<double>(i / kAcross);
      const double apart = (kPictureWidth - 2 * kPictureMargin) / static_cast<double>(kAcross);
      const PlotBox frame = {kPictureMargin + column * (apart + kTickRoom / 4) + kTickRoom,
                             kTop + row * (kHead + kFrameHeight + kFoot) + kHead, kFrameWidth, kFrameHeight};
      draw_chart(canvas, page, page.charts[i], frame);
    }
  });
}

}  // namespace vkattn::bench

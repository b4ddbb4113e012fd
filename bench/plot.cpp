// Draws a plot: a chart, and a table of its points below.
#include "plot.hpp"

#include <algorithm>
#include <array>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "console.hpp"
#include "picture/head.hpp"

namespace vkattn::bench {
namespace {

using namespace picture;

constexpr double kFrameHeight = 500, kFrameLeft = 86, kRoofRoom = 190;
constexpr double kTableGap = 84;  // below the frame: ticks and the name of the axis
constexpr double kTableRow = 24;
constexpr double kTableRight = kPictureWidth - kPictureMargin;
constexpr double kBottomMargin = 22;
constexpr double kDiscRadius = 8.5, kPointRadius = 2.5;

/// A column of the table. `x` is the left edge of words, or the right edge of numbers.
struct Column {
  double x = 0;
  bool is_number = false;
};
constexpr Column kName = {kPictureMargin + 30}, kProblem = {284}, kKernel = {662}, kMedian = {790, true},
                 kIntensity = {874, true}, kRate = {956, true}, kShare = {984}, kPercent = {1076, true},
                 kLimit = {1084};

class Plot {
 public:
  explicit Plot(const PlotData& data)
      : data_(data),
        is_tera_(!data.compute.empty() && data.compute.front().rate >= 2e12),
        unit_(is_tera_ ? 1e12 : 1e9),
        unit_name_(is_tera_ ? "TFLOP/s" : "GFLOP/s"),
        head_(head_text(data), kPictureWidth),
        frame_{kFrameLeft, head_.bottom() + 20, kTableRight - kRoofRoom - kFrameLeft, kFrameHeight},
        x_(x_axis()),
        y_(y_axis()) {}

  [[nodiscard]] double height() const {
    const double rows = static_cast<double>(data_.points.size()) + (data_.note.empty() ? 0 : 1);
    return frame_.bottom() + kTableGap + rows * kTableRow + kBottomMargin;
  }

  void draw(Canvas& canvas) const {
    head_.draw(canvas);
    draw_area(canvas);
    draw_grid(canvas);
    draw_roofs(canvas);
    canvas.outline(frame_, {kSoftInk});
    draw_points(canvas);
    draw_table(canvas);
  }

 private:
  /// The legend: the colour of each kernel, and the slope of each memory.
  static HeadText head_text(const PlotData& data) {
    HeadText text = {data.title, data.caption, "", {}};
    for (std::size_t i = 0; i < data.kernels.size(); ++i)
      text.legend.push_back({"kernel " + data.kernels[i], Look::kDots, i});
    for (std::size_t i = 0; i < data.memory.size(); ++i)
      text.legend.push_back({data.memory[i].name + " " + memory_text(data.memory[i].rate), slope_look(i)});
    return text;
  }

  static Look slope_look(std::size_t index) { return index == 0 ? Look::kRoof : Look::kDashed; }

  static std::string memory_text(double rate) {
    return rate >= 1e12 ? console::significant(rate * 1e-12) + " TB/s"
                        : console::significant(rate * 1e-9) + " GB/s";
  }

  /// The axis begins left of the leftmost point and roof edge, and ends right of the rightmost.
  [[nodiscard]] LogAxis x_axis() const {
    double low = data_.points.front().intensity, high = low;
    const auto take = [&](double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    };
    for (const PlotPoint& point : data_.points) take(point.intensity);
    if (!data_.compute.empty()) {
      for (const PlotRoof& roof : data_.memory) take(data_.compute.front().rate / roof.rate);
    }
    return {round_down(low / 2), round_up(high * 2), frame_.x, frame_.right()};
  }

  [[nodiscard]] LogAxis y_axis() const {
    double low = data_.points.front().flops_per_second, high = low;
    const auto take = [&](double value) {
      low = std::min(low, value);
      high = std::max(high, value);
    };
    for (const PlotPoint& point : data_.points) take(point.flops_per_second);
    for (const PlotRoof& roof : data_.compute) take(roof.rate);
    return {round_down(low / unit_ / 1.5), round_up(high / unit_ * 1.1), frame_.bottom(), frame_.y};
  }

  [[nodiscard]] Position at(double intensity, double rate) const {
    return {x_.position(intensity), y_.position(rate / unit_)};
  }

  /// Fills the area that the roofs allow.
  void draw_area(Canvas& canvas) const {
    if (data_.compute.empty() || data_.memory.empty()) return;
    const double flat = data_.compute.front().rate, slope = data_.memory.back().rate;
    const auto [from, to] = slope_line(data_.memory.back());
    const std::array corners = {at(from, from * slope), at(to, flat), at(x_.high(), flat),
                                Position{frame_.right(), frame_.bottom()},
                                Position{x_.position(from), frame_.bottom()}};
    canvas.fill(corners, kUnderRoof);
  }

  void draw_grid(Canvas& canvas) const {
    for (const Tick& tick : x_.ticks()) {
      const double x = x_.position(tick.value);
      canvas.line({x, frame_.y}, {x, frame_.bottom()}, {tick.label.empty() ? kFaintGrid : kGrid});
      canvas.text({x, frame_.bottom() + 19}, tick.label, kAcrossText);
    }
    for (const Tick& tick : y_.ticks()) {
      const double y = y_.position(tick.value);
      canvas.line({frame_.x, y}, {frame_.right(), y}, {tick.label.empty() ? kFaintGrid : kGrid});
      canvas.text({frame_.x - 8, y + 4}, tick.label, kUprightText);
    }
    canvas.text({frame_.center().x, frame_.bottom() + 43},
                "arithmetic intensity: visible FLOP for each byte that has to move", kAcrossText);
    canvas.text({34, frame_.center().y}, unit_name_, kAcrossText, -std::numbers::pi / 2);
  }

  /// The range of intensities in which a slope lies inside the frame, below the highest flat roof.
  [[nodiscard]] std::pair<double, double> slope_line(const PlotRoof& roof) const {
    const double top = data_.compute.empty() ? y_.high() * unit_ : data_.compute.front().rate;
    return {std::max(x_.low(), y_.low() * unit_ / roof.rate), std::min(x_.high(), top / roof.rate)};
  }

  /// Draws all roofs. A flat roof begins where the fastest memory reaches it, and has its name at the right.
  void draw_roofs(Canvas& canvas) const {
    for (std::size_t i = 0; i < data_.memory.size(); ++i) {
      const auto [from, to] = slope_line(data_.memory[i]);
      const double rate = data_.memory[i].rate;
      if (from < to) canvas.line(at(from, from * rate), at(to, to * rate), stroke_of(slope_look(i), 0));
    }
    double free = frame_.y;  // y of the next name, which stands below the name before it
    for (std::size_t i = 0; i < data_.compute.size(); ++i) {
      const PlotRoof& roof = data_.compute[i];
      const double from = data_.memory.empty() ? 0 : roof.rate / data_.memory.back().rate;
      const Position end = at(x_.high(), roof.rate);
      canvas.line(at(std::max(from, x_.low()), roof.rate), end, stroke_of(slope_look(i), 0));
      free = std::max(free, end.y + 4);
      canvas.text({end.x + 8, free},
                  fitted(roof.name + "  " + console::significant(roof.rate / unit_), kCaptionText, kRoofRoom),
                  kNoteText);
      free += 15;
    }
  }

  /// Draws each point with its number in the table, moved aside if several points are close together.
  void draw_points(Canvas& canvas) const {
    std::vector<Position> anchors;
    for (const PlotPoint& point : data_.points)
      anchors.push_back(at(point.intensity, point.flops_per_second));
    const std::vector<Position> places = spread(anchors, kDiscRadius, frame_);
    for (std::size_t i = 0; i < places.size(); ++i) {
      const Color& color = series_color(data_.points[i].kernel_index);
      canvas.line(anchors[i], places[i], {color});
      canvas.disc(anchors[i], kPointRadius, color);
    }
    for (std::size_t i = 0; i < places.size(); ++i) draw_number(canvas, data_.points[i], places[i]);
  }

  static void draw_number(Canvas& canvas, const PlotPoint& point, const Position& center) {
    const TextStyle style = {point.number < 10    ? 10.5
                             : point.number < 100 ? 9.0
                                                  : 7.5,
                             kWhite, true, TextAlign::kCenter};
    canvas.disc(center, kDiscRadius, series_color(point.kernel_index));
    canvas.text({center.x, center.y + 4}, std::to_string(point.number), style);
  }

  static void draw_cell(Canvas& canvas, const Column& column, double y, const std::string& text,
                        TextStyle style = {12.5, kInk}) {
    if (column.is_number) style.align = TextAlign::kRight;
    canvas.text({column.x, y}, text, style);
  }

  void draw_table(Canvas& canvas) const {
    double y = frame_.bottom() + kTableGap;
    const TextStyle head = {12, kSoftInk, true};
    draw_cell(canvas, kName, y, "problem", head);
    draw_cell(canvas, kKernel, y, "kernel", head);
    draw_cell(canvas, kMedian, y, "median", head);
    draw_cell(canvas, kIntensity, y, "FLOP/byte", head);
    draw_cell(canvas, kRate, y, unit_name_, head);
    draw_cell(canvas, kShare, y, "share of its roof", head);
    canvas.line({kPictureMargin, y + 8}, {kTableRight, y + 8}, {kGrid});
    for (const PlotPoint& point : data_.points) draw_row(canvas, point, y += kTableRow);
    if (!data_.note.empty()) canvas.text({kPictureMargin, y + kTableRow + 2}, data_.note, kCaptionText);
  }

  /// Draws the table's row of one point. `y` is the base line of its text.
  void draw_row(Canvas& canvas, const PlotPoint& point, double y) const {
    constexpr double kBarWidth = 46, kBarHeight = 10;
    const TextStyle text = {12.5, kInk}, soft = {12, kSoftInk};
    draw_number(canvas, point, {kPictureMargin + 10, y - 4.5});
    const double end = (point.problem.empty() ? kKernel : kProblem).x - 12;
    draw_cell(canvas, kName, y, fitted(point.name, text, end - kName.x));
    draw_cell(canvas, kProblem, y, fitted(point.problem, soft, kKernel.x - kProblem.x - 12), soft);
    draw_cell(canvas, kKernel, y, point.kernel);
    draw_cell(canvas, kMedian, y, console::duration(point.median_ns));
    draw_cell(canvas, kIntensity, y, console::significant(point.intensity));
    draw_cell(canvas, kRate, y, console::significant(point.flops_per_second / unit_));
    Box bar = {kShare.x, y - kBarHeight + 1, kBarWidth, kBarHeight};
    canvas.fill(bar, kGrid);
    bar.width *= std::clamp(point.roof_share, 0.0, 1.0);
    canvas.fill(bar, series_color(point.kernel_index));
    draw_cell(canvas, kPercent, y, point.limit.empty() ? "-" : console::percent(point.roof_share));
    draw_cell(canvas, kLimit, y, fitted(point.limit, soft, kTableRight - kLimit.x), soft);
  }

  const PlotData& data_;
  bool is_tera_;
  double unit_;
  std::string unit_name_;
  Head head_;
  Box frame_;
  LogAxis x_, y_;  ///< y_ counts in the chart's unit
};

}  // namespace

Result<std::string> draw_plot(const PlotData& data, picture::Format format) {
  if (data.points.empty()) {
    return Error{
        ErrorCode::kInvalidArgument, {}, "no problem was measured, so that there is nothing to plot"};
  }
  const Plot plot(data);
  return draw_file(format, kPictureWidth, plot.height(), [&](Canvas& canvas) { plot.draw(canvas); });
}

}  // namespace vkattn::bench
